"""Where the clients keep their settings, by the rules of each system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.errors import NotFound


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where a file lies. `platform` is spelled as `sys.platform`."""

    platform: str
    home: Path
    environ: Mapping[str, str] = field(repr=False)

    def folder(self, variable: str, default: Path) -> Path:
        """The folder an environment variable names, else `default`."""
        return Path(self.environ.get(variable) or default)

    def settings(self) -> Path:
        """Where programs with windows keep their settings."""
        if self.platform == "win32":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.unix_settings()

    def unix_settings(self) -> Path:
        """Where programs keep them that follow the rules of Linux on every Unix."""
        return self.folder("XDG_CONFIG_HOME", self.home / ".config")

    def shown(self, path: Path) -> str:
        """A path for people: the home folder is `~`."""
        return f"~/{path.relative_to(self.home).as_posix()}" if path.is_relative_to(self.home) else str(path)


def claude_code(machine: Machine) -> Path:
    """The file beside the folder of settings, or in it if the person moved that."""
    return machine.folder("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json"


def claude_desktop(machine: Machine) -> Path:
    """On Windows the store's package has a folder of its own, and reads no other. Blocks.

    Raises:
        NotFound: several packages have one.
    """
    name = "claude_desktop_config.json"
    if machine.platform == "win32":
        packages = machine.folder("LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
        found = sorted(packages.glob("Claude_*/LocalCache/Roaming/Claude"))
        found = [folder for folder in found if (folder / name).exists()] or found
        if len(found) > 1:
            raise NotFound(
                "Claude Desktop is here more than once; paste the entry into the file that its settings open"
            )
        if found:
            return found[0] / name
    return machine.settings() / "Claude" / name


def cursor(machine: Machine) -> Path:
    """The same everywhere."""
    return machine.home / ".cursor" / "mcp.json"


def vscode(machine: Machine) -> Path:
    """Of the default profile."""
    return machine.settings() / "Code" / "User" / "mcp.json"


def codex(machine: Machine) -> Path:
    """The same everywhere."""
    return machine.folder("CODEX_HOME", machine.home / ".codex") / "config.toml"


def gemini(machine: Machine) -> Path:
    """The same everywhere."""
    return machine.home / ".gemini" / "settings.json"


def zed(machine: Machine) -> Path:
    """macOS as Linux."""
    if machine.platform == "win32":
        return machine.settings() / "Zed" / "settings.json"
    return machine.unix_settings() / "zed" / "settings.json"


def windsurf(machine: Machine) -> Path:
    """The same everywhere."""
    return machine.home / ".codeium" / "windsurf" / "mcp_config.json"


def opencode(machine: Machine) -> Path:
    """As Linux, on every system."""
    return machine.unix_settings() / "opencode" / "opencode.json"


def lmstudio(machine: Machine) -> Path:
    """The same everywhere."""
    return machine.home / ".lmstudio" / "mcp.json"
