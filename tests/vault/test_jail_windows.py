"""The parts of the Windows door that are pure, on every system."""

from __future__ import annotations

import pytest

from sidecar.vault.jail_windows import final_segments, is_openable, leads_elsewhere, lies_at, verbatim

ROOT = "\\\\?\\C:\\Users\\me\\Vault"


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("\\\\?\\C:\\Users\\me", ("C:", "Users", "me")),
        ("C:\\Users\\me\\", ("C:", "Users", "me")),
        ("\\\\?\\UNC\\server\\share\\x", ("\\\\", "server", "share", "x")),
        ("\\\\server\\share\\x", ("\\\\", "server", "share", "x")),
        ("\\\\?\\Volume{1-2}\\x", ("Volume{1-2}", "x")),
    ],
)
def test_a_final_path_is_cut_into_segments(path: str, segments: tuple[str, ...]) -> None:
    assert final_segments(path) == segments


@pytest.mark.parametrize(
    ("opened", "parts"),
    [
        pytest.param(ROOT + "\\a.md", ["a.md"], id="note"),
        pytest.param(ROOT + "\\Projects\\Plan.md", ["Projects", "Plan.md"], id="folder"),
        pytest.param(ROOT, [], id="root"),
        pytest.param("C:\\Users\\me\\Vault\\x.md", ["x.md"], id="without-prefix"),
    ],
)
def test_what_lies_where_it_was_asked_for_is_accepted(opened: str, parts: list[str]) -> None:
    assert lies_at(ROOT, opened, parts)


@pytest.mark.parametrize(
    ("opened", "parts"),
    [
        pytest.param("\\\\?\\C:\\Users\\me\\canary.md", ["canary.md"], id="J18-parent"),
        pytest.param("\\\\?\\C:\\Users\\me\\Vault-secret\\x.md", ["x.md"], id="J17-sibling"),
        pytest.param("\\\\?\\D:\\Users\\me\\Vault\\x.md", ["x.md"], id="J39-drive"),
        pytest.param("\\\\?\\UNC\\C:\\Users\\me\\Vault\\x.md", ["x.md"], id="J10-share"),
        pytest.param(ROOT + "\\.obsidian\\x.md", ["OBSIDI~1", "x.md"], id="J31-short-name"),
        pytest.param(ROOT + "\\Plan.md", ["plan.md"], id="other-case"),
        pytest.param(ROOT + "\\b\\x.md", ["a", "x.md"], id="J20-junction-inside"),
        pytest.param(ROOT + "\\x.md", ["x.md."], id="final-dot"),
        pytest.param(ROOT + "\\x.md:stream", ["x.md"], id="J32-stream"),
        pytest.param(ROOT + "\\a\\x.md", ["x.md"], id="deeper"),
        pytest.param(ROOT, ["x.md"], id="root"),
    ],
)
def test_what_lies_anywhere_else_is_refused(opened: str, parts: list[str]) -> None:
    assert not lies_at(ROOT, opened, parts)


@pytest.mark.parametrize(
    "part", ["", ".", "..", "x.md:stream", "x.md::$DATA", "a\\b", "a/b", "a\0", "a?", "a*", "<", "|"]
)
def test_segments_that_windows_takes_for_something_else_are_refused(part: str) -> None:
    assert not is_openable(["a", part])


def test_odd_segments_that_are_plain_names_are_opened() -> None:
    assert is_openable(["NUL.md", "x.md.", "OBSIDI~1", "Über 50%.md", " lead.md"])


@pytest.mark.parametrize(
    ("tag", "elsewhere"),
    [
        pytest.param(0, False, id="none"),
        pytest.param(0xA000000C, True, id="symbolic-link"),
        pytest.param(0xA0000003, True, id="junction"),
        pytest.param(0xA000001D, True, id="wsl-link"),
        pytest.param(0x9000601A, False, id="cloud-file"),
        pytest.param(0x80000013, False, id="deduplicated"),
    ],
)
def test_links_and_junctions_are_told_by_their_tag(tag: int, elsewhere: bool) -> None:
    assert leads_elsewhere(tag) == elsewhere


@pytest.mark.parametrize(
    ("root", "parts", "path"),
    [
        (ROOT, ["a", "NUL.md"], ROOT + "\\a\\NUL.md"),
        (ROOT, [], ROOT + "\\"),
        ("C:\\", ["x.md"], "\\\\?\\C:\\x.md"),
        ("\\\\?\\UNC\\server\\share\\v", ["x.md"], "\\\\?\\UNC\\server\\share\\v\\x.md"),
    ],
)
def test_paths_are_opened_in_the_form_that_is_not_rewritten(root: str, parts: list[str], path: str) -> None:
    assert verbatim(root, parts) == path
