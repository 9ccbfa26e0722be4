"""Group P of the security catalogue for kp_propose, over HTTP: a proposal is stored whole, or there is no trace of it.

Around each row the tree outside the vault is the same, and so is the vault,
but for the folder of proposals where the row allows one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sidecar.surfaces import SURFACES
from tests import wire
from tests.e2e.test_served import tree_hash
from tests.security.ground import Ground, Said, served, write
from tests.security.lures import lay_links, lay_lures, lay_special_files
from tests.security.test_jail_rows import fill
from tests.security.test_write_rows import LEGAL_ROWS, REFUSED_ROWS, SENTENCES, WRITES

SUGGESTED = "suggested 3391\n"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A vault with lures, links and special files, agents among them."""
    base = tmp_path_factory.mktemp("propose") / "base"
    lay_lures(base)
    lay_links(base)
    lay_special_files(base / "vault")
    write(base / "vault", "Agents/Scout.md")
    write(base / "vault", "README.md")
    with served(base, base.with_name("state"), env={"HOME": str(base / "home")}) as (ground, _):
        yield ground


@pytest.fixture
def unchanged(ground: Ground) -> Iterator[None]:
    """Not a byte, a name, a mode or a time is changed, of proposals neither."""
    before = ground.tree()
    yield
    assert ground.tree() == before


def outside_of_proposals(ground: Ground) -> tuple[str, str]:
    """The vault without its proposals, and what lies around it."""
    around = {path.name: tree_hash(path) for path in ground.base.iterdir() if path.name != "vault"}
    return tree_hash(ground.vault, without=".kp"), str(sorted(around.items()))


def folders(ground: Ground) -> list[str]:
    """Whatever is in the folder of proposals."""
    folder = ground.vault / ".kp/proposals"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


def propose(ground: Ground, *paths: str, **change: Any) -> Said:
    files = [{"path": path, "content": SUGGESTED} for path in paths]
    return ground.call("kp_propose", **{"title": "Title", "rationale": "Why.", "files": files, **change})


@pytest.mark.parametrize(
    "raw",
    [pytest.param(row.values[0], id=f"P01-{row.id}") for row in REFUSED_ROWS if not str(row.id).startswith("J40")],
)
def test_nothing_is_proposed_by_such_a_path(ground: Ground, unchanged: None, raw: str) -> None:
    raw = fill(raw, ground)
    if raw == "J25-device.md" and not os.path.lexists(ground.vault / raw):
        pytest.skip("only root may make a device")
    assert propose(ground, raw).is_error
    assert propose(ground, "Good.md", raw).is_error


@pytest.mark.parametrize("raw", [pytest.param(row.values[0], id=f"P01-{row.id}") for row in SENTENCES])
def test_nothing_is_proposed_by_such_a_name(ground: Ground, unchanged: None, raw: str) -> None:
    assert propose(ground, raw).is_error


@pytest.mark.parametrize("raw", [pytest.param(row.values[0], id=f"P01-{row.id}") for row in LEGAL_ROWS])
def test_what_looks_like_a_detour_is_an_ordinary_name(ground: Ground, raw: str) -> None:
    before = outside_of_proposals(ground)
    assert json.loads(propose(ground, raw).text)["files"] == [raw]
    assert outside_of_proposals(ground) == before


@pytest.mark.parametrize("row", ["P02"])
def test_one_bad_file_refuses_the_whole(ground: Ground, unchanged: None, row: str) -> None:
    for paths in (("Good.md", "../bad.md"), (".obsidian/x.md", "Good.md"), ("Good.md", "CON.md", "Fine.md")):
        assert propose(ground, *paths).is_error


@pytest.mark.parametrize("row", ["P03"])
def test_the_folder_of_proposals_is_protected(ground: Ground, row: str) -> None:
    made = json.loads(propose(ground, "P03.md").text)
    before = ground.tree()
    for path in (f"{made['dir']}/x.md", ".kp/x.md", ".KP/proposals/x.md", f"{made['dir']}/changes.patch", ".kp.md"):
        said = propose(ground, path)
        assert said.is_error
        assert "is protected: agent files, the memory note and dot folders can't be changed by a proposal." in said.text
    assert ground.tree() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"files": []}, "files: is required.", id="P04-no files"),
        pytest.param({"title": ""}, "title: is required.", id="P04-empty title"),
        pytest.param({"title": "x" * 201}, "title: at most 200 characters.", id="P04-long title"),
        pytest.param({"rationale": "x" * 20_001}, "rationale: at most 20,000 characters.", id="P04-long rationale"),
        pytest.param({"files": "x.md"}, "files: must be a list.", id="P04-files is text"),
        pytest.param({"files": [{"path": "x.md"}]}, "files.content: is required.", id="P04-no content"),
        pytest.param({"files": ["x.md"]}, "files: must be an object.", id="P04-a file is text"),
        pytest.param({"status": "applied"}, "status: is not an argument of kp_propose.", id="P04-status"),
        pytest.param({"author": "local"}, "author: is not an argument of kp_propose.", id="P04-author"),
    ],
)
def test_arguments_that_are_wrong_are_told(ground: Ground, unchanged: None, change: dict[str, Any], says: str) -> None:
    said = propose(ground, "x.md", **change)
    assert (said.is_error, said.text) == (True, says)


@pytest.mark.parametrize("missing", [pytest.param(name, id=f"P04-{name}") for name in ("title", "rationale", "files")])
def test_an_argument_that_is_missing_is_told(ground: Ground, unchanged: None, missing: str) -> None:
    arguments: dict[str, Any] = {"title": "x", "rationale": "x", "files": [{"path": "x.md", "content": "x"}]}
    del arguments[missing]
    said = ground.call("kp_propose", **arguments)
    assert (said.is_error, said.text) == (True, f"{missing}: is required.")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=f"P05-{number}")
        for number, text in enumerate(
            ("---\nstatus: applied\n---\n# x", '",\n"status": "applied', "\u2028\r\n\x85\x1b[2J")
        )
    ],
)
def test_a_title_stays_a_title(ground: Ground, text: str) -> None:
    made = json.loads(propose(ground, "P05.md", title=text, rationale=text).text)
    record = json.loads((ground.vault / made["dir"] / "proposal.json").read_bytes())
    assert (record["title"], record["rationale"], record["status"]) == (text, text, "open")
    assert record["author"] == "mcp:local"
    [listed] = [each for each in ground.order("proposals").json()["proposals"] if each["id"] == made["id"]]
    assert (listed["title"], listed["rationale"]) == (text, text)


@pytest.mark.parametrize(
    "paths", [pytest.param(["x.md", "x.md"], id="P06-1"), pytest.param(["x.md", "X.MD"], id="P06-2")]
)
def test_a_path_twice_is_refused(ground: Ground, unchanged: None, paths: list[str]) -> None:
    said = propose(ground, *paths)
    assert (said.is_error, said.text) == (True, f"'{paths[1]}' is listed twice.")


@pytest.mark.parametrize(
    ("count", "size"), [pytest.param(101, 1, id="P07-101 files"), pytest.param(10, 1 << 20, id="P07-10 MiB")]
)
def test_more_than_a_proposal_may_be_is_refused(ground: Ground, unchanged: None, count: int, size: int) -> None:
    said = propose(ground, files=[{"path": f"{number}.md", "content": "x" * size} for number in range(count)])
    assert (said.is_error, said.text) == (True, "files: at most 100 files, 1 MiB each and 4 MiB in all.")


@pytest.mark.parametrize("row", ["P08"])
def test_proposals_at_once_are_all_whole(ground: Ground, row: str) -> None:
    before = set(folders(ground))
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: json.loads(propose(ground, f"P08/{number}.md").text), range(40)))
    ids = {each["id"] for each in made}
    assert len(ids) == 40
    assert set(folders(ground)) - before == ids
    for number, each in enumerate(made):
        assert json.loads((ground.vault / each["dir"] / "proposal.json").read_bytes())["files"] == [f"P08/{number}.md"]
        assert f"+++ b/P08/{number}.md" in (ground.vault / each["dir"] / "changes.patch").read_text()


@pytest.mark.parametrize("row", ["P10"])
def test_what_is_proposed_is_not_found(ground: Ground, row: str) -> None:
    content = "proboscis3391 proboscis3391\n"
    made = json.loads(propose(ground, files=[{"path": "P10.md", "content": content}]).text)
    write(ground.vault, "P10-later.md", "proboscis3391 in a note\n")
    ground.until_found("proboscis3391", ["P10-later.md"])
    ranked = ground.admin("search?k=100&mode=keyword&q=proboscis3391")["results"]
    assert [row["path"] for row in ranked] == ["P10-later.md"]
    assert not any(path.startswith(".kp") or path == "P10.md" for path in ground.listed())
    assert ground.call("read_note", path=f"{made['dir']}/proposal.json").is_error
    (ground.vault / "P10-later.md").unlink()


# what a tool may be called with, so that it does all it can
CALLS: dict[str, dict[str, Any]] = {
    "list_notes": {"folder": "a"},
    "read_note": {"path": "a.md"},
    "search_notes": {"query": "inside"},
    "semantic_search": {"query": "inside"},
    "kp_search": {"query": "inside"},
    "kp_get_note": {"id": "path:a.md"},
    "kp_related": {"id": "path:a.md"},
    "kp_recent": {"days": 7},
    "kp_propose": {"title": "P11", "rationale": "", "files": [{"path": "a.md", "content": SUGGESTED}]},
    "kp_digest_latest": {},
}


@pytest.mark.parametrize("row", ["P11"])
def test_no_tool_that_is_listed_changes_a_note(ground: Ground, row: str) -> None:
    before = outside_of_proposals(ground)
    listed = ground.post(wire.call("tools/list")).json()["result"]["tools"]
    names = {tool["name"] for tool in listed}
    assert {"kp_propose", "read_note"} <= names and "write_note" not in names
    for name in names & set(CALLS):
        said = ground.call(name, **CALLS[name])
        assert not said.is_error, said
    assert outside_of_proposals(ground) == before
    assert {each["status"] for each in ground.order("proposals", all=True).json()["proposals"]} == {"open"}


def test_no_tool_decides_on_a_proposal() -> None:
    """Only the owner's routes do, and they are closed to every token."""
    names = {tool.name for surface in SURFACES for tool in surface.tools}
    assert not {name for name in names if "apply" in name or "reject" in name}


@pytest.mark.parametrize("target", ["", "/show", "/apply", "/reject"])
def test_the_owners_routes_do_not_exist_for_a_token(ground: Ground, unchanged: None, target: str) -> None:
    made = folders(ground)[0] if folders(ground) else "01ARYZ6S410000000000000000"
    body = json.dumps({"id": made, "by": "console"}).encode()
    assert wire.post(ground.port, ground.token, body, f"/admin/proposals{target}").status == 404


# controls


def test_with_writing_allowed_a_tool_does_change_a_note(tmp_path: Path) -> None:
    """The control of P11."""
    write(tmp_path / "base/vault", "a.md")
    with served(tmp_path / "base", tmp_path / "state", env=WRITES) as (ground, _):
        before = outside_of_proposals(ground)
        assert not ground.call("write_note", path="new.md", content="x").is_error
        assert outside_of_proposals(ground) != before
