"""Every odd file of the generator's catalogue: what the daemon lists, reads, finds and skips."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from sidecar.vault.notes import Note, parse_note
from sidecar.vault.paths import VaultPath, printable
from tests.conftest import REPOSITORY
from tests.e2e.served import Served, serve

CORPORA = Path(os.environ.get("VAULT_SIDECAR_CORPORA", REPOSITORY.parent / "shared" / "corpora"))


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_vault", CORPORA / "make_vault.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Odd:
    """The served odd files."""

    served: Served
    vault: Path
    paths: dict[str, str]

    def path(self, case: str) -> str:
        return self.paths[case]

    def note(self, case: str) -> Note:
        path = self.paths[case]
        return parse_note(VaultPath.found(path), (self.vault / path).read_bytes())

    def is_listed(self, case: str) -> bool:
        return printable(self.paths[case]) in self.served.listed

    def text(self, case: str) -> str:
        answer = self.served.call("read_note", path=self.paths[case], max_chars=200_000)
        assert not answer.is_error, answer.text
        return answer.text

    def refusal(self, case: str) -> str:
        answer = self.served.call("read_note", path=self.paths[case])
        assert answer.is_error
        return answer.text

    def found(self, query: str) -> list[str]:
        return self.served.found(query)

    def ranked(self, query: str) -> list[str]:
        return [hit["path"] for hit in self.served.admin(f"search?k=100&q={query}")["results"]]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    if not CORPORA.is_dir():
        pytest.skip("the shared corpora are not here; VAULT_SIDECAR_CORPORA may name their folder")
    scratch = tmp_path_factory.mktemp("odd")
    vault = scratch / "vault"
    vault.mkdir()
    maker().oddities(str(scratch), str(vault), random.Random(1))
    rows = json.loads((scratch / "oddities.json").read_text())["cases"]
    with serve(vault, scratch / "state") as served:
        yield Odd(served, vault, {row["case"]: row["path"] for row in rows})


def listed(odd: Odd, case: str) -> None:
    """An ordinary note: listed, read as it is on disk, found by its path."""
    assert odd.is_listed(case)
    raw = (odd.vault / odd.path(case)).read_bytes()
    text = raw.decode("utf-8-sig", "replace")
    assert odd.text(case)[:200_000] == text[:200_000]


def titled(title: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        listed(odd, case)
        assert odd.note(case).title == title

    return look


def tagged(*tags: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        listed(odd, case)
        assert list(odd.note(case).tags) == list(tags)

    return look


def body_kept(needle: str = "body", *, warned: bool = True) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        listed(odd, case)
        note = odd.note(case)
        assert needle in note.body
        assert bool(note.warnings) == warned
        assert odd.path(case) in odd.found(needle)

    return look


def hidden(needle: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        assert not odd.is_listed(case)
        assert not [path for path in odd.found(needle) if path == odd.path(case)]
        assert odd.refusal(case)

    return look


def skipped(reason: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        assert not odd.is_listed(case)
        assert reason in odd.served.skipped[odd.path(case)]
        assert odd.refusal(case)

    return look


def links(*targets: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        listed(odd, case)
        assert [link.target for link in odd.note(case).links] == list(targets)

    return look


def chunk_texts(odd: Odd, case: str) -> str:
    return "\n".join(odd.served.chunks(odd.path(case)))


def without(*hidden_text: str, kept: str) -> Callable[[Odd, str], None]:
    """The whole text is readable; the index leaves some of it out."""

    def look(odd: Odd, case: str) -> None:
        listed(odd, case)
        indexed = chunk_texts(odd, case)
        assert kept in indexed
        for text in hidden_text:
            assert text not in indexed

    return look


def yaml_date(odd: Odd, case: str) -> None:
    listed(odd, case)
    note = odd.note(case)
    assert json.loads(json.dumps(note.frontmatter)) == note.frontmatter
    assert (note.created, note.updated) == ("2026-04-05T00:00:00Z", "2026-04-05T10:00:00Z")


def duplicate_keys(odd: Odd, case: str) -> None:
    titled("two")(odd, case)
    assert odd.note(case).warnings


def second_block_is_body(odd: Odd, case: str) -> None:
    listed(odd, case)
    note = odd.note(case)
    assert note.frontmatter == {"permalink": "x"}
    assert "title: second" in note.body


def no_properties(odd: Odd, case: str) -> None:
    listed(odd, case)
    assert odd.note(case).frontmatter == {}


def crlf(odd: Odd, case: str) -> None:
    titled("CRLF")(odd, case)
    assert list(odd.note(case).tags) == ["a", "b"]
    assert "\r\n" in odd.text(case)


def nested_tag(odd: Odd, case: str) -> None:
    tagged("project/alpha/one")(odd, case)
    assert odd.path(case) in odd.ranked("project/alpha/one")
    assert odd.path(case) in odd.ranked("alpha")


def no_text(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    assert not [text for text in odd.served.embedded(odd.path(case)) if not text.strip()]
    assert odd.served.embedded(odd.path(case)) == []


def marked(odd: Odd, case: str) -> None:
    titled("BOM")(odd, case)
    assert "\ufeff" not in odd.text(case) + chunk_texts(odd, case)


def decoded(needle: str) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        assert odd.is_listed(case)
        assert odd.path(case) in odd.found(needle)

    return look


def nul(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    assert odd.path(case) in odd.ranked("beforeafter")
    assert "\0" not in chunk_texts(odd, case)


def headings(count: int) -> Callable[[Odd, str], None]:
    def look(odd: Odd, case: str) -> None:
        from sidecar.vault.blocks import lines

        listed(odd, case)
        assert len([line for line in lines(odd.note(case).body) if line.kind == "heading" and line.level]) == count

    return look


def rule_first(odd: Odd, case: str) -> None:
    listed(odd, case)
    assert "more" in chunk_texts(odd, case)
    assert odd.path(case) in odd.found("A rule, not frontmatter")


def both_forms(odd: Odd, case: str) -> None:
    listed(odd, case)
    for form in ("NFC", "NFD"):
        answer = odd.served.call("read_note", path=unicodedata.normalize(form, odd.path(case)))
        assert not answer.is_error and answer.text == odd.text(case)


def line_end_in_name(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    assert "\\n" in odd.refusal(case) and "\n" not in odd.refusal(case)
    assert odd.served.log_has_only_whole_lines()


def backslash(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    assert "is not a path inside the vault" in odd.refusal(case)


def not_a_note(odd: Odd, case: str) -> None:
    assert not odd.is_listed(case)
    assert odd.refusal(case)


def keeps_id(odd: Odd, case: str) -> None:
    listed(odd, case)
    assert odd.note(case).note_id == "kp:0190a5c4-7f3b-7d11-8a52-3f1f6f0a9b21"


def canvas(odd: Odd, case: str) -> None:
    not_a_note(odd, case)
    assert odd.found("canvasneedle") == []


def bounded(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    texts = odd.served.chunks(odd.path(case))
    assert len(texts) > 1
    assert max(map(len, texts)) <= 2_000  # 1,400 of text, and the breadcrumb


def walked_folder(odd: Odd, case: str) -> None:
    listed(odd, case)
    answer = odd.served.call("read_note", path=odd.path(case).rsplit("/", 1)[0])
    assert answer.is_error


def loop(odd: Odd, case: str) -> None:
    assert not [path for path in odd.served.listed if path.startswith(odd.path(case) + "/")]


def unreadable(odd: Odd, case: str) -> None:
    assert odd.is_listed(case)
    if os.geteuid() == 0:
        listed(odd, case)  # permissions do not bind root
    else:
        assert "permission denied" in odd.refusal(case)
        assert "permission" in odd.served.skipped[odd.path(case)]


LOOK: dict[str, Callable[[Odd, str], None]] = {
    "yaml-date": yaml_date,
    "yaml-date-title": titled("2026-05-26"),
    "yaml-int-title": titled("20240425"),
    "yaml-norway": titled("no"),
    "yaml-tab": body_kept(),
    "yaml-dup-key": duplicate_keys,
    "yaml-at": body_kept(),
    "yaml-template": body_kept(),
    "yaml-unterminated": body_kept("title: never closed", warned=False),
    "yaml-eof": titled("EOF"),
    "yaml-crlf": crlf,
    "yaml-double": second_block_is_body,
    "yaml-nondict": no_properties,
    "yaml-huge-anchor": body_kept(),
    "tags-comma": tagged("alpha", "beta"),
    "tags-space": tagged("alpha", "beta"),
    "tags-hash": tagged("alpha", "beta/sub"),
    "tags-null": tagged(),
    "tags-number": lambda odd, case: (listed(odd, case), "ok" in odd.note(case).tags or pytest.fail("ok is lost"))[0],
    "tags-nested": nested_tag,
    "tags-inline-code": tagged("real"),
    "only-frontmatter": no_text,
    "empty": no_text,
    "whitespace": no_text,
    "bom": marked,
    "utf16": decoded("body"),
    "latin1": decoded("caf\ufffd"),
    "nul": nul,
    "lone-cr": decoded("three"),
    "fence-hash": headings(1),
    "setext": headings(2),
    "hr-first": rule_first,
    "dataview": without("TABLE file.name", kept="status:: open"),
    "comment": without("%%", kept="visible"),
    "blockid": without("^abc123", kept="inside"),
    "table-link": links("setext"),
    "code-link": links("setext"),
    "dup-basename-a": listed,
    "dup-basename-b": listed,
    "name-nfc": both_forms,
    "name-nfd": both_forms,
    "name-both": listed,
    "name-both2": listed,
    "name-case-1": listed,
    "name-case-2": listed,
    "name-emoji": listed,
    "name-hash": listed,
    "name-percent": listed,
    "name-dots": hidden("dot"),
    "name-double-dot": listed,
    "name-space": listed,
    "name-colon": listed,
    "name-backslash": backslash,
    "name-long": listed,
    "name-rtl": listed,
    "name-newline": line_end_in_name,
    "name-sync": listed,
    "name-dropbox": keeps_id,
    "id-original": keeps_id,
    "icloud": not_a_note,
    "trash": hidden("trashneedle"),
    "obsidian-dir": hidden("configneedle"),
    "hidden": hidden("hiddenneedle"),
    "swap": not_a_note,
    "tmp": not_a_note,
    "backup": not_a_note,
    "uppercase-ext": listed,
    "canvas": canvas,
    "canvas-empty": not_a_note,
    "excalidraw": without("compressed-json", kept="hello drawing"),
    "base64": without("iVBORw0KGgo", kept="after"),
    "long-line": bounded,
    "no-space": bounded,
    "fake-md-dir": walked_folder,
    "symlink-in": skipped("link"),
    "symlink-out": skipped("link"),
    "symlink-loop": loop,
    "symlink-dangling": skipped("link"),
    "fifo": skipped("regular file"),
    "unreadable": unreadable,
}


@pytest.mark.parametrize("case", LOOK)
def test_an_odd_file_is_served_as_its_row_says(odd: Odd, case: str) -> None:
    if case not in odd.paths:
        pytest.skip("this file system can't hold the file")
    LOOK[case](odd, case)


def test_every_row_of_the_catalogue_has_a_test(odd: Odd) -> None:
    assert set(odd.paths) <= set(LOOK)


def test_files_on_disk_are_indexed_or_skipped_with_a_reason(odd: Odd) -> None:
    odd.served.every_file_is_accounted_for(odd.vault)
