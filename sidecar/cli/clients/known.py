"""The clients there are: one record each."""

from __future__ import annotations

from sidecar.cli.clients import places
from sidecar.cli.clients.client import Client

_ALL = (
    Client(
        "claude-code",
        "Claude Code",
        places.claude_code,
        http={"type": "http"},
        stdio={"type": "stdio"},
        variable="${NAME}",
        writes=True,
        locks=True,
    ),
    # its connectors want a public HTTPS address, and its file knows commands only
    Client("claude-desktop", "Claude Desktop", places.claude_desktop, http=None, writes=True),
    Client("cursor", "Cursor", places.cursor, variable="${env:NAME}", writes=True),
    Client(
        "vscode",
        "VS Code",
        places.vscode,
        at=("servers",),
        http={"type": "http"},
        stdio={"type": "stdio"},
        variable="${env:NAME}",
        asks="${input:vault-sidecar-token}",
        writes=True,
    ),
    # it refuses a bearer_token written into the file, and passes over `headers`
    Client(
        "codex",
        "Codex",
        places.codex,
        at=("mcp_servers",),
        syntax="toml",
        headers="http_headers",
        variable_key="bearer_token_env_var",
        writes=True,
    ),
    # `url` would mean the older transport
    Client("gemini", "Gemini CLI", places.gemini, url="httpUrl", variable="${NAME}"),
    Client("zed", "Zed", places.zed, at=("context_servers",)),
    Client("windsurf", "Windsurf", places.windsurf, url="serverUrl", variable="${env:NAME}"),
    # the servers of version 1 stand in `mcp` itself; 1.18 reads both forms
    Client(
        "opencode",
        "opencode",
        places.opencode,
        at=("mcp", "servers"),
        http={"type": "remote", "oauth": False},
        stdio={"type": "local"},
        in_one_list=True,
        environment="environment",
        variable="{env:NAME}",
    ),
    Client("lmstudio", "LM Studio", places.lmstudio),
)

CLIENTS: dict[str, Client] = {client.name: client for client in _ALL}
"""By the name on the command line."""
