"""The write profile: which texts may become the name of a note."""

from __future__ import annotations

import unicodedata

import pytest

from sidecar.errors import BadPath, Protected
from sidecar.vault.names import differ_in_case, folded, is_ready_for_all, twin_in, writable
from sidecar.vault.temporary import is_temporary, name_within, temporary_name

OUTSIDE = "is not a path inside the vault"
HIDDEN = "is protected"
BAD_NAME = "is not a name every system can store"
NO_NOTE = "is not a note; notes end in .md."

REFUSED = [
    pytest.param("../x.md", OUTSIDE, id="J01"),
    pytest.param("/x.md", OUTSIDE, id="J05"),
    pytest.param("C:\\x.md", OUTSIDE, id="J09"),
    pytest.param("a\\b.md", OUTSIDE, id="J12"),
    pytest.param("a.md\0", OUTSIDE, id="J14"),
    pytest.param("", OUTSIDE, id="J16"),
    pytest.param(".obsidian/plugins/x/main.js", HIDDEN, id="W04"),
    pytest.param(".obsidian/community-plugins.json", HIDDEN, id="W05"),
    pytest.param("a/.b/c.md", HIDDEN, id="J28"),
    pytest.param(".ob\u200csidian/x.md", HIDDEN, id="J30"),
    pytest.param("\u200c.obsidian/x.md", HIDDEN, id="J30-2"),
    *(
        pytest.param(name, NO_NOTE, id=f"W06-{name}")
        for name in ("x.js", "x.sh", "x.desktop", "x.lnk", "x.url", "x.html", "x", "x.md.exe")
    ),
    *(
        pytest.param(name, BAD_NAME, id=f"W07-{name}")
        for name in (
            *("CON.md", "nul.md", "aux", "COM1.md", "lpt9.txt", "CONIN$.md", "COM\u00b9.md", "CON .md", "NUL.tar.md"),
            *("prn.md", "Conout$.md", "com0.md"),
        )
    ),
    pytest.param("a/NUL/b.md", BAD_NAME, id="W08"),
    *(
        pytest.param(name, BAD_NAME, id=f"W09-{number}")
        for number, name in enumerate(("x.md.", "x.md ", "dir./x.md", "dir /x.md", "dir\u3000/x.md", "dir\u00a0/x.md"))
    ),
    *(
        pytest.param(name, BAD_NAME, id=f"W10-{number}")
        for number, name in enumerate(("a<b.md", "a>b.md", 'a"b.md', "a|b.md", "a?b.md", "a*b.md", "ab:c.md", "é?.md"))
    ),
    *(
        pytest.param(f"a{letter}b.md", OUTSIDE, id=f"W11-{ord(letter):02x}")
        for letter in ("\n", "\r", "\t", "\x1b", "\x7f", "\x85")
    ),
    *(
        pytest.param(f"a{letter}b.md", BAD_NAME, id=f"W12-{ord(letter):04x}")
        for letter in ("\u202e", "\u200b", "\u2066", "\ufeff", "\u00ad", "\u3164", "\u2800", "\u2028", "\U000e0041")
    ),
    pytest.param("a\uffffb.md", BAD_NAME, id="W12-no character"),
    pytest.param("x" * 253 + ".md", OUTSIDE, id="J34-1"),
    pytest.param("/".join(["x" * 200] * 6) + ".md", BAD_NAME, id="J34-2"),
    pytest.param("a/" * 32 + "x.md", BAD_NAME, id="J34-3"),
    pytest.param("\ud800.md", OUTSIDE, id="J35"),
]


@pytest.mark.parametrize("raw, why", REFUSED)
def test_what_no_note_may_be_called_is_refused(raw: str, why: str) -> None:
    with pytest.raises(BadPath if why != HIDDEN else Protected) as refused:
        writable(raw, by="written by a client")
    assert why in str(refused.value)
    assert not any(unicodedata.category(letter) == "Cc" for letter in str(refused.value))


@pytest.mark.parametrize(
    "raw",
    [
        "Plan.md",
        "Projects/Winter plan.md",
        "Recipes/Tarte aux prunes.md",
        "Console.md",
        "COM10.md",
        "SHOUT.MD",
        "潮音町の三日間.md",
        "☀️ Weather.md",
        "a.b.c.md",
        " leading.md",
        "%2e%2e/canary.md",
        "~/x.md",
        "$HOME/x.md",
        "a\uff0f..\uff0fx.md",
        "x" * 252 + ".md",
        "a/" * 31 + "x.md",
    ],
)
def test_ordinary_names_of_all_scripts_are_accepted(raw: str) -> None:
    assert writable(raw, by="written by a client").text == raw


def test_the_sentences_are_those_of_the_contract() -> None:
    for raw, sentence in {
        ".a/b.md": "'.a/b.md' is protected: agent files, the memory note and dot folders can't be written by a client.",
        "a?b.md": "'a?b.md' is not a name every system can store;"
        ' avoid < > : " | ? *, final dots and blanks, and reserved names.',
        "x.js": "'x.js' is not a note; notes end in .md.",
    }.items():
        with pytest.raises((BadPath, Protected)) as refused:
            writable(raw, by="written by a client")
        assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "name, ready",
    [
        pytest.param("OBSIDI~1", False, id="J31-1"),
        pytest.param("GIT~1", False, id="J31-2"),
        pytest.param("PLAN~12.md", False, id="J31-3"),
        pytest.param("~", True, id="J08"),
        pytest.param("about ~10 things.md", True, id="no short name"),
        pytest.param(unicodedata.normalize("NFD", "Ünï.md"), False, id="W14"),
        pytest.param("Ünï.md", True, id="NFC"),
    ],
)
def test_new_names_are_in_one_form_and_not_like_short_names(name: str, ready: bool) -> None:
    assert is_ready_for_all(name) is ready


@pytest.mark.parametrize(
    "wanted, names, twin",
    [
        pytest.param("Readme.md", ["a.md", "README.md"], "README.md", id="W13"),
        pytest.param(unicodedata.normalize("NFD", "Ü.md"), ["Ü.md"], "Ü.md", id="W14"),
        pytest.param("Ü.md", [unicodedata.normalize("NFD", "ü.md")], unicodedata.normalize("NFD", "ü.md"), id="both"),
        pytest.param("Maße.md", ["Masse.md"], None, id="two words"),
        pytest.param("x.md", ["x.md"], None, id="itself"),
        pytest.param("ΣΊΣΥΦΟΣ.md", ["σίσυφος.md"], "σίσυφος.md", id="sigma"),
    ],
)
def test_twins_differ_in_case_or_form_only(wanted: str, names: list[str], twin: str | None) -> None:
    assert twin_in(names, wanted) == twin


def test_a_twin_says_what_differs() -> None:
    assert differ_in_case("a.md", "A.md")
    assert not differ_in_case("Ü.md", unicodedata.normalize("NFD", "Ü.md"))


def test_all_spellings_of_a_path_fold_to_one() -> None:
    spellings = ["Agents/Ü.md", "AGENTS/ü.md", unicodedata.normalize("NFD", "agents/ü.MD")]
    assert len({folded(spelling) for spelling in spellings}) == 1
    assert folded("Straße") == folded("STRASSE")


@pytest.mark.parametrize("name", ["x.md", "ü" * 126 + ".md", "x" * 252 + ".md"])
def test_temporary_names_are_hidden_and_short_enough_and_told_apart(name: str) -> None:
    """W32."""
    first, second = temporary_name(name), temporary_name(name)
    assert first != second
    assert first.startswith(".") and len(first.encode()) <= 255
    assert is_temporary(first)
    assert name.startswith(name_within(first))
    assert not is_temporary(name)
    assert not is_temporary(".x.md.tmp") and not is_temporary(".syncthing.x.md.tmp") and not is_temporary(".x.swp")
