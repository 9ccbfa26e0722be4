from __future__ import annotations

import pytest

from sidecar.errors import BadPath, NotFound
from sidecar.vault.paths import VaultPath, echo, is_hidden, is_note_name, printable

NO_PATH = "' is not a path inside the vault; use one like 'Folder/Note.md'."
NO_NOTE = "' is not a note; notes end in .md."
NO_FOLDER = "' is not a folder inside the vault; use one like 'Projects'."

REFUSED = [
    pytest.param("../canary.md", id="J01"),
    pytest.param("a/../../canary.md", id="J02"),
    pytest.param("a/../b.md", id="J03"),
    pytest.param("./a.md", id="J04-dot"),
    pytest.param("a/./b.md", id="J04-inner-dot"),
    pytest.param("a//b.md", id="J04-empty"),
    pytest.param("a/", id="J04-slash"),
    pytest.param("/srv/canary.md", id="J05"),
    pytest.param("//etc/hosts", id="J07-two"),
    pytest.param("///x", id="J07-three"),
    pytest.param("C:\\x.md", id="J09-backslash"),
    pytest.param("C:x.md", id="J09-bare"),
    pytest.param("c:/x.md", id="J09-slash"),
    pytest.param("\\\\server\\share\\x.md", id="J10"),
    pytest.param("//server/share/x.md", id="J10-slash"),
    pytest.param("\\\\?\\C:\\x.md", id="J11-verbatim"),
    pytest.param("\\\\.\\pipe\\x", id="J11-pipe"),
    pytest.param("..\\canary.md", id="J12"),
    pytest.param("a\\..\\..\\canary.md", id="J12-inner"),
    pytest.param("a/..\\..\\canary.md", id="J12-mixed"),
    pytest.param("a.md\0.txt", id="J14"),
    pytest.param("\0", id="J14-alone"),
    pytest.param("file:///etc/hosts", id="J15"),
    pytest.param("", id="J16-empty"),
    pytest.param(".", id="J16-dot"),
    pytest.param("..", id="J16-dots"),
    pytest.param("/", id="J16-slash"),
    pytest.param("  \u3000", id="J16-blanks"),
    pytest.param("../vault-secret/x.md", id="J17"),
    pytest.param(".obsidian/app.json", id="J27"),
    pytest.param(".obsidian/plugins/p/data.json", id="J27-plugin"),
    pytest.param(".git/config", id="J28-git"),
    pytest.param(".trash/x.md", id="J28-trash"),
    pytest.param(".env", id="J28-env"),
    pytest.param(".hidden.md", id="J28-note"),
    pytest.param("a/.b/c.md", id="J28-inner"),
    pytest.param("..md", id="J28-suffix-alone"),
    pytest.param(".OBSIDIAN/x.md", id="J29"),
    pytest.param(".Git/config", id="J29-git"),
    pytest.param(".ob\u200csidian/x.md", id="J30"),
    pytest.param("\u200c.obsidian/x.md", id="J30-before-the-dot"),
    pytest.param("a/\u202e\u200d.b.md", id="J30-inner"),
    pytest.param("x" * 253 + ".md", id="J34-segment"),
    pytest.param("é" * 127 + ".md", id="J34-segment-in-bytes"),
    pytest.param("/".join(["x" * 250] * 20) + ".md", id="J34-path"),
    pytest.param("/".join(["x"] * 300) + ".md", id="J34-segments"),
    pytest.param("\ud800.md", id="J35"),
    pytest.param("a/\udcff.md", id="J35-byte"),
    *(pytest.param(f"a{c}b.md", id=f"control-{ord(c):02x}") for c in "\n\r\t\x1b\x7f\x85"),
]

NO_NOTES = [
    pytest.param("note.md:stream", id="J32"),
    pytest.param("note.md::$DATA", id="J32-data"),
    pytest.param("image.png", id="J33-png"),
    pytest.param("main.js", id="J33-js"),
    pytest.param("x.md.exe", id="J33-exe"),
    pytest.param("x", id="J33-bare"),
    pytest.param("path:/etc/hosts", id="J15-id"),
    pytest.param("path:../x", id="J15-id-dots"),
    pytest.param("~/x", id="J08-no-suffix"),
]

ACCEPTED = [
    pytest.param("Plan.md", id="plain"),
    pytest.param("Projects/Plan.md", id="folder"),
    pytest.param("SHOUT.MD", id="upper-suffix"),
    pytest.param("~/x.md", id="J08-home"),
    pytest.param("$HOME/x.md", id="J08-variable"),
    pytest.param("%2e%2e/canary.md", id="J13"),
    pytest.param("..%2fcanary.md".replace("..", "a.."), id="J13-slash"),
    pytest.param("OBSIDI~1/x.md", id="J31"),
    pytest.param("a/．．/x.md", id="J37-fullwidth-dots"),
    pytest.param("a／..／x.md", id="J37-fullwidth-slash"),
    pytest.param("a..b/c.. .md", id="double-dots"),
    pytest.param(" lead  double .md", id="blanks"),
    pytest.param("12:30 meeting.md", id="colon"),
    pytest.param("a/c:x.md", id="colon-inside"),
    pytest.param("# Monster 50% [x] ^y?.md", id="marks"),
    pytest.param("\u202egpj.evil.md", id="rtl"),
    pytest.param("法" * 80 + ".md", id="long"),
    pytest.param("\U0001f468\u200d\U0001f4bb dev.md", id="emoji"),
    pytest.param("/".join(["x"] * 256) + ".md", id="deep"),
    pytest.param("x" * 252 + ".md", id="longest"),
    pytest.param("folder.md/inside.md", id="folder-like-a-note"),
]


@pytest.mark.parametrize("raw", REFUSED)
def test_what_can_not_be_inside_the_vault_is_refused_with_the_sentence(raw: str) -> None:
    with pytest.raises(BadPath) as refused:
        VaultPath.note(raw)
    assert str(refused.value) == f"'{echo(raw)}{NO_PATH}"
    str(refused.value).encode()


@pytest.mark.parametrize("raw", NO_NOTES)
def test_another_suffix_is_refused_as_no_note(raw: str) -> None:
    with pytest.raises(BadPath) as refused:
        VaultPath.note(raw)
    assert str(refused.value) == f"'{raw}{NO_NOTE}"


@pytest.mark.parametrize("raw", ACCEPTED)
def test_odd_but_possible_names_are_taken_literally(raw: str) -> None:
    assert VaultPath.note(raw).text == raw
    assert VaultPath.found(raw).text == raw


@pytest.mark.parametrize("raw", [case for case in REFUSED if case.id not in ("J16-empty", "J04-slash")])
def test_a_folder_that_can_not_be_inside_is_no_folder(raw: str) -> None:
    with pytest.raises((BadPath, NotFound)) as refused:
        VaultPath.folder(raw)
    assert str(refused.value).encode()


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param("..", f"'..{NO_FOLDER}", id="J41-up"),
        pytest.param("/", f"'/{NO_FOLDER}", id="J41-root"),
        pytest.param("a//", f"'a//{NO_FOLDER}", id="two-slashes"),
        pytest.param("../x", f"'../x{NO_FOLDER}", id="J41-sibling"),
        pytest.param(".obsidian", "There is no folder '.obsidian' in the vault.", id="J41-hidden"),
        pytest.param("a/.git/", "There is no folder 'a/.git' in the vault.", id="J41-hidden-inside"),
    ],
)
def test_folder_sentences(raw: str, sentence: str) -> None:
    with pytest.raises((BadPath, NotFound)) as refused:
        VaultPath.folder(raw)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("raw", "text"),
    [("", ""), ("Projects", "Projects"), ("Projects/", "Projects"), ("a/b.md/", "a/b.md"), ("Ü ü", "Ü ü")],
)
def test_a_folder_may_end_in_a_slash_and_empty_is_the_vault(raw: str, text: str) -> None:
    assert VaultPath.folder(raw).text == text


def test_a_path_met_on_disk_may_be_one_that_nobody_can_ask_for() -> None:
    for text in ("new\nline.md", "back\\slash.md", "C:x.md", "", "x" * 300):
        assert VaultPath.found(text).text == text
    deep = "x/" * 255 + "a.md"
    assert VaultPath.found(deep).text == deep == VaultPath.note(deep).text
    for text in (".hidden/x.md", "a/.b.md", "a//b.md", "../x.md", "/a.md", "a/", f"x/{deep}", "\udcff" * 1366):
        with pytest.raises(BadPath):
            VaultPath.found(text)


def test_parts_of_a_path() -> None:
    path = VaultPath.note("Projects/2026/Plan.v2.md")
    assert (path.parts, path.name, path.stem) == (("Projects", "2026", "Plan.v2.md"), "Plan.v2.md", "Plan.v2")
    assert path.parent == VaultPath.folder("Projects/2026")
    assert (path.parent.name, path.parent.stem, path.parent.parent.parent) == ("2026", "2026", VaultPath.root())
    assert (VaultPath.root().parts, VaultPath.root().name, VaultPath.root().parent.text) == ((), "", "")
    assert VaultPath.note("SHOUT.MD").stem == "SHOUT"
    assert f"{path}" == path.text


def test_paths_are_ordered_by_code_points_of_the_whole_text() -> None:
    texts = ["B.md", "a.md", "a/b.md", "a b.md", "Z/z.md", "é.md", "Ω.md"]
    assert [path.text for path in sorted(map(VaultPath, texts))] == sorted(texts)


def test_an_echo_is_cut_at_80_characters_and_stays_on_one_line() -> None:
    with pytest.raises(BadPath) as refused:
        VaultPath.note("../" + "x" * 1000 + ".md")
    assert str(refused.value) == f"'../{'x' * 77}…{NO_PATH}"
    with pytest.raises(BadPath) as refused:
        VaultPath.note("a\n\r\t\x1b[31m\x00\u2028\ud800.md")
    assert str(refused.value) == f"'a\\n\\r\\t\\u001b[31m\\u0000\\u2028\\ud800.md{NO_PATH}"


def test_printable_changes_control_characters_only() -> None:
    plain = "Ü \u202e\u200d\u00a0\U0001f5c2\ufe0f\\n"
    assert printable(plain) == plain
    assert printable("new\nline\x85\x7f") == "new\\nline\\u0085\\u007f"


def test_note_names_and_hidden_names() -> None:
    assert all(map(is_note_name, ["a.md", "a.MD", "a.Md", ".md", "a/b.md"]))
    assert not any(map(is_note_name, ["md", "a.md~", "a.md.tmp", "a.markdown", "", "a.mđ", "board.canvas"]))
    assert all(map(is_hidden, [".", "..", ".a", ".Plan.md.icloud", "\u200c.a", "\u200b\u202e.a"]))
    assert not any(map(is_hidden, ["a.", "a", "\u202egpj.evil.md", "\u200d", "…"]))
