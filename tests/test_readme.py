"""README and demo vault against the code: names, defaults, limits and codes are read from both and compared."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import unicodedata
from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin
from urllib.parse import unquote

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import sidecar.web
from sidecar.arguments import Query, schema_of
from sidecar.bridge import named_tokens, ports
from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from sidecar.cli.doctor import CHECKS
from sidecar.cli.parser import build_parser
from sidecar.config import Config
from sidecar.config.kinds import has_named_tables, section_model
from sidecar.contract import Tool
from sidecar.editor import shapes as editor_shapes
from sidecar.errors import SidecarError
from sidecar.index import indexer, literal, note_rows, preparers, profile, snippets
from sidecar.index.embed.facts import FACTS
from sidecar.index.embed.weights import MODELS_FOLDER
from sidecar.index.patience import Patience
from sidecar.protocol import json_body
from sidecar.protocol.sessions import IDLE_S, MOST_SESSIONS, MOST_STREAMS
from sidecar.services import copies, library, memory, proposal_drafts, searching, writing
from sidecar.services.agents import agents, conversation, definition, engagement, records, roster, run
from sidecar.services.agents.provider import ALIASES
from sidecar.services.agents.turns import Pace
from sidecar.services.knowledge import skill_md, store, units
from sidecar.surfaces import SURFACES
from sidecar.surfaces.knowledge.shapes import ValidateUnit
from sidecar.surfaces.library.shapes import SearchArgs
from sidecar.surfaces.notes.shapes import RunAgent, SemanticSearch
from sidecar.surfaces.notes.tools import MOST_CHARS
from sidecar.vault import files, frontmatter, markdown, names, paths
from sidecar.vault.ignore import IGNORE_FILE, IgnoreRules
from sidecar.vault.notes import parse_note
from sidecar.vault.paths import VaultPath, is_note_name
from sidecar.web.answers import Refusal, not_allowed
from sidecar.web.app import Limits
from sidecar.web.connections import Deadlines

ROOT = Path(__file__).parent.parent
DEMO_VAULT = ROOT / "scripts" / "demo-vault"
README = (ROOT / "README.md").read_text("utf-8")

NOWHERE = "Seed swap list"
"""The one link of the demo vault that leads nowhere, on purpose: every real vault has some."""

Row = list[str]


def section(title: str) -> str:
    """README's text below a heading, down to the next one of the same or a higher level."""
    heading = re.search(rf"^(#+) {re.escape(title)}\n", README, re.MULTILINE)
    assert heading, f"README has no section {title!r}"
    rest = README[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def tables(text: str) -> list[list[Row]]:
    """The tables in a text, each as its rows; the first row is the head."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if "|---" not in line]
        for table in found
    ]


def table(title: str, *head: str) -> list[Row]:
    """The rows of the one table of a section that has this head."""
    (rows,) = [rows for rows in tables(section(title)) if tuple(rows[0]) == head]
    return rows[1:]


def in_code(cell: str) -> str:
    """What stands between backticks at the start of a cell."""
    found = re.match(r"`([^`]+)`", cell)
    assert found, f"{cell!r} does not begin with a name in backticks"
    return found[1]


# sections


def test_no_section_stands_there_twice() -> None:
    titles = re.findall(r"^#+ .*$", without_code(README), re.MULTILINE)
    assert len(titles) == len(set(titles))


# tools


def test_readme_lists_exactly_the_tools_there_are() -> None:
    listed = [in_code(row[0]) for row in table("Tools", "name", "arguments", "what it does")]
    assert listed == [tool.name for surface in SURFACES for tool in surface.tools]


@pytest.mark.parametrize("tool", [tool for surface in SURFACES for tool in surface.tools], ids=lambda tool: tool.name)
def test_readme_gives_a_tools_arguments_with_their_ranges_and_defaults(tool: Tool) -> None:
    (row,) = [row for row in table("Tools", "name", "arguments", "what it does") if in_code(row[0]) == tool.name]
    properties = schema_of(tool.args)["properties"]
    assert re.findall(r"`([a-z_]+)`", row[1]) == list(properties)
    for name, spec in properties.items():
        if spec["type"] == "integer" and "maximum" in spec:
            default = f" ({spec['default']:,})" if "default" in spec else ""
            assert f"`{name}` {spec['minimum']:,} to {spec['maximum']:,}{default}" in row[1]
        elif spec["type"] == "integer" and "minimum" not in spec:
            assert f"`{name}` ({spec['default']:,})" in row[1]
        elif spec["type"] == "integer":
            assert f"`{name}` from {spec['minimum']:,} ({spec['default']:,})" in row[1]


def test_readme_gives_the_addresses_of_all_surfaces() -> None:
    rows = table("Addresses", "address", "serves")
    assert [in_code(row[0]) for row in rows] == ["/mcp", *(f"/mcp/{surface.name}" for surface in SURFACES)]


# commands


def leaves(parser: ArgumentParser, name: str = "vault-sidecar") -> Iterator[tuple[str, ArgumentParser]]:
    """Every command that does something, by its words."""
    groups = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not groups:
        yield name, parser
    for group in groups:
        for word, inner in group.choices.items():
            yield from leaves(inner, f"{name} {word}")


LEAVES = list(leaves(build_parser()))


def words_of(command: str) -> str:
    """`vault-sidecar token show [--json]` without its arguments."""
    return " ".join(re.match(r"[a-z-]+(?: [a-z][a-z-]*)*", command)[0].split())


def test_readme_lists_exactly_the_commands_there_are() -> None:
    listed = {words_of(in_code(row[0])) for row in table("Commands", "command", "does")}
    assert listed == {name for name, _ in LEAVES}


@pytest.mark.parametrize(("name", "parser"), LEAVES, ids=[name for name, _ in LEAVES])
def test_readme_gives_a_commands_own_options(name: str, parser: ArgumentParser) -> None:
    (command,) = [c for row in table("Commands", "command", "does") if words_of(c := in_code(row[0])) == name]
    told = [action for action in parser._actions if action.help != SUPPRESS]
    known = {option for action in told for option in action.option_strings}
    common = {"-h", "--help", "--vault", "--state"}
    assert common <= known
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", command)) == known - common
    for action in told:
        if action.choices and action.option_strings:
            assert f"{action.option_strings[0]} {'|'.join(action.choices)}]" in command.replace("\\|", "|")


def test_readme_lists_exactly_the_clients_there_are() -> None:
    head = ("client", "`--write`", "transport", "file", "tried with")
    rows = table("Connecting a client", *head)
    listed = [(in_code(row[0]), row[1], row[2]) for row in rows]
    known = [(c.name, "yes" if c.writes else "no", "stdio" if c.http is None else "HTTP") for c in CLIENTS.values()]
    assert listed == known
    for row, client in zip(rows, CLIENTS.values(), strict=True):
        assert in_code(row[3]).rpartition("/")[2] == client.file(Machine("linux", Path("/"), {})).name


def test_readme_lists_exactly_the_checks_of_doctor() -> None:
    assert [in_code(row[0]) for row in table("When something is wrong", "check", "looks at")] == list(CHECKS)


def test_the_scripts_readme_names_can_be_run() -> None:
    named = set(re.findall(r"\bscripts/([a-z]+)\b(?!-)", README))
    assert {"serve", "test", "check", "bench", "lock"} <= named
    for name in named:
        assert os.access(ROOT / "scripts" / name, os.X_OK), name


# settings


def settings() -> dict[str, object]:
    """`section.key` of every setting, with its default."""
    found: dict[str, object] = {}
    for name, model in setting_tables().items():
        found |= {f"{name}.{key}": known.default for key, known in model.model_fields.items()}
    return found


def setting_tables() -> dict[str, type[BaseModel]]:
    """Every table of settings; one that is there for each of several names as `section.NAME`."""
    named = {section: has_named_tables(section) for section in Config.model_fields}
    return {f"{section}.NAME" if named[section] else section: section_model(section) for section in named}


def test_readme_lists_exactly_the_settings_there_are_with_their_defaults() -> None:
    listed = {in_code(row[0]): row[1].strip("`") for row in table("Settings", "setting", "default", "meaning")}
    words = {None: "none", PydanticUndefined: "required"}
    known = {
        key: words[value] if value in (None, PydanticUndefined) else json.dumps(value)
        for key, value in settings().items()
    }
    assert listed == known


def test_readme_names_every_choice_of_a_setting() -> None:
    meanings = {in_code(row[0]): row[2] for row in table("Settings", "setting", "default", "meaning")}
    for name, model in setting_tables().items():
        for key, known in model.model_fields.items():
            if get_origin(known.annotation) is Literal:
                named = re.findall(r"`([a-z0-9]+)`", meanings[f"{name}.{key}"])
                assert named == list(get_args(known.annotation)), key


def test_readme_says_what_each_embedder_is() -> None:
    head = ("`index.embedder`", "model", "numbers", "comes with", "share of words", "languages")
    listed = [(in_code(row[0]), int(row[2]), float(row[4]), row[5]) for row in table("Search by meaning", *head)]
    assert listed == [(name, one.dim, one.keyword_weight, one.languages) for name, one in FACTS.items()]


def test_readme_names_the_folder_of_the_models() -> None:
    assert f"`{MODELS_FOLDER}`" in section("The state folder")


def test_every_setting_named_anywhere_in_readme_exists() -> None:
    parts = "|".join(Config.model_fields)
    named = set(re.findall(rf"`((?:{parts})\.[a-z_]+)`", README))
    assert named <= set(settings()) | {"config.toml", "agents.json"}
    variables = set(re.findall(r"VAULT_SIDECAR_[A-Z_]+", README))
    own = {"VAULT_SIDECAR_VAULT", "VAULT_SIDECAR_STATE", "VAULT_SIDECAR_CORPORA", "VAULT_SIDECAR_"}
    assert variables - own <= {f"VAULT_SIDECAR_{key.replace('.', '_')}".upper() for key in settings()}


# errors


def kinds(base: type[SidecarError] = SidecarError) -> Iterator[type[SidecarError]]:
    """Every error class, also those defined beside the code that raises them."""
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def modules_of(package: str) -> Iterator[object]:
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
        yield importlib.import_module(found.name)


def test_readme_lists_exactly_the_error_codes_with_status_and_exit_code() -> None:
    listed = {
        in_code(row[0]): (int(row[2]), int(row[3])) for row in table("Errors", "code", "when", "status", "exit code")
    }
    assert listed == {kind.code: (kind.status, kind.exit_code) for kind in kinds()}


def test_readme_lists_exactly_the_refusals_of_the_http_server() -> None:
    listed = {(in_code(row[0]), int(row[2])) for row in table("Errors", "code", "when", "status")}
    refusals = [value for module in modules_of(sidecar.web.__name__) for value in vars(module).values()]
    found = {(value.code, value.status) for value in refusals if isinstance(value, Refusal)}
    never = not_allowed(frozenset())
    assert listed == found | {(never.code, never.status)}


def test_readme_gives_the_exit_codes_that_the_commands_print() -> None:
    printed = build_parser().epilog
    assert printed is not None
    codes = [part.split(" ", 1)[0] for part in printed.removeprefix("exit codes: ").split(", ")]
    sentence = re.search(r"^Exit codes: (.*)\.$", section("Commands"), re.MULTILINE)
    assert sentence
    assert [part.split(" ", 1)[0] for part in sentence[1].split(", ")] == codes
    assert {str(kind.exit_code) for kind in kinds()} <= set(codes)


# limits

_QUERY = Query.__metadata__[0]


@pytest.mark.parametrize(
    ("what", "limits"),
    [
        ("size of a note", [settings()["index.max_note_mib"]]),
        ("frontmatter that is read", [frontmatter.MAX_BYTES // 1024]),
        ("tags, links of one note", [markdown.MAX_TAGS]),
        ("path", [paths.MAX_PATH_BYTES, paths.MAX_SEGMENT_BYTES, paths.MAX_SEGMENTS]),
        ("query", [_QUERY.min_length, _QUERY.max_length]),
        ("notes in one `search_notes` answer", [literal.EXCERPT_LINES, literal.EXCERPT_CHARS]),
        (
            "passages in one `semantic_search` answer",
            [
                schema_of(SemanticSearch)["properties"]["top_k"]["maximum"],
                searching._MOST_PASSAGES,
                snippets.SNIPPET_CHARS,
            ],
        ),
        (
            "notes in one `kp_search` or `kp_related` answer",
            [schema_of(SearchArgs)["properties"]["k"]["maximum"], snippets.SNIPPET_CHARS],
        ),
        ("notes in one `kp_recent` answer", [library.MOST_RECENT]),
        ("`content` of one `write_note` call", [writing.MAX_CONTENT_BYTES >> 20]),
        (
            "files of one proposal",
            [
                proposal_drafts.MAX_FILES,
                proposal_drafts.MAX_FILE_BYTES >> 20,
                proposal_drafts.MAX_BYTES >> 20,
            ],
        ),
        ("path of a new note", [names.MAX_NEW_PATH_BYTES, names.MAX_NEW_SEGMENTS]),
        ("kept texts", [copies.MOST_COPIES]),
        ("agents", [roster.MOST_AGENTS, definition.MOST_PERSONA_BYTES >> 10]),
        ("runs of agents at once", [agents.MOST_RUNNING]),
        (
            "`task` of a run",
            [*(schema_of(shape)["properties"]["task"]["maxLength"] for shape in (RunAgent, editor_shapes.RunAgent))],
        ),
        (
            "turns of a run, calls of tools in one turn",
            [
                definition.MOST_TURNS,
                schema_of(RunAgent)["properties"]["max_turns"]["maximum"],
                engagement.MOST_CALLS,
            ],
        ),
        ("a result of a tool, as a model gets it", [engagement.MOST_RESULT_CHARS]),
        ("an agent's answer", [agents.MOST_ANSWER_CHARS]),
        ("a provider's answer", [conversation.MOST_ANSWER_BYTES >> 20]),
        ("a turn, a run", [Pace().turn_s, Pace().run_s / 60]),
        ("another try after a provider's failure that may pass", [len(Pace().delays_s), Pace().longest_wait_s]),
        ("records of runs", [records.MOST_RUNS, run.TASK_CHARS]),
        ("memory facts", [memory.MOST_FACTS, memory.MOST_CHARS]),
        ("a file that was replaced is watched for other programs' edits", [files.MOMENT_S]),
        ("any other text answer", [MOST_CHARS]),
        ("size of a document in a database", [profile.MOST_DOCUMENT_BYTES >> 20]),
        ("documents in a database", [profile.DOCUMENTS.most_files or 0]),
        ("sessions", [MOST_SESSIONS, IDLE_S / 60]),
        ("request body", [Limits().max_body_bytes >> 20, settings()["http.max_body_mib"], json_body.MAX_DEPTH]),
        ("tokens with names", [named_tokens.MOST]),
        (
            "a SKILL.md, a knowledge unit",
            [skill_md.MAX_BYTES >> 10, units.MAX_BYTES >> 20, units.MAX_DEPTH],
        ),
        ("`feedback` of a judgment", [schema_of(ValidateUnit)["properties"]["feedback"]["maxLength"]]),
        ("items in the registry", [store.MOST_ITEMS]),
        ("clients that listen, at each address", [MOST_STREAMS]),
        ("time until a connection has brought a valid token", [Deadlines().first_s]),
        ("time for a request body", [Deadlines().body_s]),
        ("time that a client may leave an answer unread", [Deadlines().unread_s]),
        ("answer of the vector index to a query", [Patience().answer_s]),
        ("silence of a vector worker that has work", [Patience().silent_s, Patience().start_s]),
        ("scan for missed changes", [indexer.SCAN_EVERY_S / 60]),
    ],
)
def test_readme_gives_the_limits_that_hold(what: str, limits: list[float]) -> None:
    (row,) = [row for row in table("Limits", "what", "limit") if row[0] == what]
    given = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", row[1])}
    assert set(map(float, limits)) <= given


def test_readme_says_of_agents_what_its_limits_say() -> None:
    section = README.partition("\n## Agents\n")[2].partition("\n## ")[0]
    assert (agents.MOST_RUNNING, Pace().run_s, Pace().turn_s) == (2, 300, 60)
    assert "Two runs at once at most" in section
    assert "ends after 5 minutes, when a turn takes longer than 60 s" in section
    assert f"the newest {records.MOST_RUNS}" in section
    assert f"the first {run.TASK_CHARS} characters" in section
    assert all(f"`{key}`" in section for key in ("provider", "max_turns", "temperature", "max_tokens"))
    assert all(f"`[{category}]`" in section for category in memory._CATEGORIES)
    assert all(f"`{alias}`" in section for alias in ALIASES)


def test_readme_says_when_notes_are_prepared_in_processes_of_their_own() -> None:
    assert preparers._MOST_PROCESSES == 4, "README says four"
    rows = [row for row in table("How it works", "process", "when", "has") if "up to four preparing" in row[0]]
    assert [re.findall(r"\d+", row[1]) for row in rows] == [[str(preparers._WORTH_IT)]]


def test_readme_says_which_passages_are_embedded_when_a_note_is_renamed() -> None:
    assert f"less than {note_rows._TITLE_MATTERS_BELOW} characters" in section("How it works")


def test_readme_names_the_first_port() -> None:
    assert str(ports.FIRST_PORT) in section("Settings")
    assert f"http://127.0.0.1:{ports.FIRST_PORT}/mcp" in section("Connecting a client")


def test_the_files_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_readme_names_the_conformance_suites_that_are_run() -> None:
    wanted = json.loads((ROOT / "tests" / "js" / "package.json").read_text("utf-8"))["dependencies"].values()
    suite = "@modelcontextprotocol/conformance"
    versions = [name.removeprefix(f"npm:{suite}@") for name in wanted if name.startswith(f"npm:{suite}@")]
    assert versions and f"`{suite}` {' and '.join(versions)} " in section("Development")


# demo vault


def demo_notes() -> dict[str, str]:
    """Path without suffix to text, both NFC."""
    found = (path for path in sorted(DEMO_VAULT.rglob("*")) if is_note_name(path.name))
    return {nfc(path.relative_to(DEMO_VAULT).as_posix()[:-3]): nfc(path.read_text("utf-8")) for path in found}


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def headings(text: str) -> set[str]:
    return {line.lstrip("#").strip() for line in without_code(text).splitlines() if re.match(r"#{1,6} ", line)}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def wikilinks(text: str) -> Iterable[tuple[str, str]]:
    """(note, heading or "") of every wikilink and embed."""
    for inner in re.findall(r"\[\[([^\[\]\n]+)\]\]", without_code(text)):
        note, _, heading = inner.partition("|")[0].partition("#")
        yield note, heading


def test_every_wikilink_of_the_demo_vault_resolves_but_one() -> None:
    notes = {path: text for path, text in demo_notes().items() if not path.startswith("Templates/")}
    by_name: dict[str, list[str]] = {}
    for path in notes:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    assert all(len(same) == 1 for same in by_name.values()), "two notes of one name make links ambiguous"
    lost = []
    for path, text in notes.items():
        for target, heading in wikilinks(text):
            place = target if target in notes else by_name.get(target, [""])[0]
            if not place or (heading and heading not in headings(notes[place])):
                lost.append((path, target, heading))
    assert [target for _, target, _ in lost] == [NOWHERE], lost


def test_every_markdown_link_of_the_demo_vault_resolves() -> None:
    links = 0
    for path, text in demo_notes().items():
        for target in re.findall(r"\]\((?!\w+:)([^()]+\.md)\)", without_code(text)):
            links += 1
            assert (DEMO_VAULT / path).parent.joinpath(unquote(target)).resolve().is_file(), (path, target)
    assert links


def test_the_notes_of_the_demo_vault_are_read_without_a_warning() -> None:
    rules = IgnoreRules.parse((DEMO_VAULT / IGNORE_FILE).read_text("utf-8"))
    seen = {"kp": 0, "curio": 0, "path": 0}
    for file in DEMO_VAULT.rglob("*"):
        path = VaultPath.found(file.relative_to(DEMO_VAULT).as_posix()) if is_note_name(file.name) else None
        if path is None or rules.ignores(path, is_folder=False):
            continue
        note = parse_note(path, file.read_bytes())
        assert not note.warnings, (path.text, note.warnings)
        assert note.tags or path.name == "PRINTER.MD", path.text
        seen[note.note_id.partition(":")[0]] += 1
    assert seen["kp"] == seen["curio"] == 1
    assert seen["path"] > 20


def test_the_demo_vault_keeps_its_templates_out_of_the_index() -> None:
    rules = IgnoreRules.parse((DEMO_VAULT / IGNORE_FILE).read_text("utf-8"))
    templates = [path for path in demo_notes() if path.startswith("Templates/")]
    assert templates
    assert all(rules.ignores(VaultPath(f"{path}.md"), is_folder=False) for path in templates)
