"""Where each client keeps its file, on each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from sidecar.errors import NotFound

HOME = Path("/h")
PLACES = {
    "claude-code": (".claude.json",) * 3,
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "codex": (".codex/config.toml",) * 3,
    "gemini": (".gemini/settings.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
    "lmstudio": (".lmstudio/mcp.json",) * 3,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_file_of_a_client_by_system(client: str) -> None:
    for platform, place in zip(("linux", "darwin", "win32"), PLACES[client], strict=True):
        assert CLIENTS[client].file(Machine(platform, HOME, {})) == HOME / place


@pytest.mark.parametrize(
    ("client", "platform", "variable", "place"),
    [
        ("claude-code", "linux", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "darwin", "CODEX_HOME", "config.toml"),
        ("vscode", "linux", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("zed", "darwin", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("opencode", "win32", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("vscode", "win32", "APPDATA", "Code/User/mcp.json"),
    ],
)
def test_a_variable_moves_the_file(client: str, platform: str, variable: str, place: str) -> None:
    assert CLIENTS[client].file(Machine(platform, HOME, {variable: "/x"})) == Path("/x") / place
    assert HOME in CLIENTS[client].file(Machine(platform, HOME, {variable: ""})).parents


def test_claude_desktop_from_the_windows_store_has_a_folder_of_its_own(tmp_path: Path) -> None:
    machine = Machine(
        "win32", tmp_path, {"LOCALAPPDATA": str(tmp_path / "Local"), "APPDATA": str(tmp_path / "Roaming")}
    )
    find = CLIENTS["claude-desktop"].file
    name = "claude_desktop_config.json"
    assert find(machine) == tmp_path / "Roaming" / "Claude" / name
    first, second = (tmp_path / "Local" / "Packages" / f"Claude_{n}" / "LocalCache/Roaming/Claude" for n in "ab")
    first.mkdir(parents=True)
    assert find(machine) == first / name
    second.mkdir(parents=True)
    with pytest.raises(NotFound, match="more than once"):
        find(machine)
    (second / name).touch()
    assert find(machine) == second / name


def test_a_path_is_shown_from_the_home_folder() -> None:
    machine = Machine("linux", HOME, {})
    assert machine.shown(HOME / "a" / "b") == "~/a/b"
    assert machine.shown(Path("/elsewhere")) == "/elsewhere"
