"""`connect`: what it prints, and how it edits the clients' files. The real check is in test_connect_check.py."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.bridge import endpoint, settings
from sidecar.bridge.keyring_store import KeyringStore
from sidecar.bridge.token import new_token
from sidecar.bridge.token_store import FileStore
from sidecar.cli.clients import jsonc, settings_file
from sidecar.cli.clients.known import CLIENTS
from sidecar.cli.clients.places import Machine
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]

PRINTS = Path(__file__).parent / "prints"
WRITABLE = [name for name, client in CLIENTS.items() if client.writes]
JSON_WRITABLE = [name for name in WRITABLE if CLIENTS[name].syntax == "json"]


@pytest.fixture
def token(place: Place) -> str:
    """A vault that was served once: it has a port and a token."""
    token = new_token()
    KeyringStore(place.state, place.keyring).store(token)
    settings.set_setting(place.state, "http", "port", 24790)
    return token


def file_of(place: Place, client: str) -> Path:
    """Where the client's file lies on this system, in the scratch home."""
    return CLIENTS[client].file(Machine(sys.platform, place.home, {}))


def servers(client: str, path: Path) -> dict[str, Any]:
    """The servers in a client's file, read by another reader than the editor's where there is one."""
    text = path.read_bytes().decode("utf-8-sig")
    found = tomllib.loads(text) if CLIENTS[client].syntax == "toml" else jsonc.read(text)
    for key in CLIENTS[client].at:
        found = found[key]
    return found


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(path.name + ".*.bak"))


def files_beside(path: Path) -> set[str]:
    return {found.name for found in path.parent.iterdir()}


# print

FORMS = [
    (name, way) for name in CLIENTS for way in ("http", "stdio") if way == "stdio" or CLIENTS[name].http is not None
]


@pytest.mark.parametrize(("client", "way"), FORMS, ids="-".join)
def test_what_is_printed_for_a_client_is_held(run: Run, place: Place, token: str, client: str, way: str) -> None:
    said = run("connect", client, f"--{way}")
    assert said.code == 0
    program = str(Path(sys.executable).with_name("vault-sidecar"))
    printed = said.out.replace(token, "TOKEN").replace(program, "PROGRAM")
    printed = printed.replace(str(place.root), "STATE").replace(str(place.vault), "VAULT")
    held = PRINTS / f"{client}-{way}.txt"
    if os.environ.get("UPDATE_PRINTS"):
        held.write_text(printed)
    assert printed == held.read_text("utf-8")


def test_nothing_is_held_that_is_not_printed() -> None:
    assert {path.stem for path in PRINTS.iterdir()} == {f"{client}-{way}" for client, way in FORMS}


def test_the_default_is_http_where_the_client_can(run: Run, token: str) -> None:
    for name, client in CLIENTS.items():
        facts = json.loads(run("connect", name, "--json").out)
        assert facts["transport"] == ("stdio" if client.http is None else "http")
        assert facts["secret"] is (client.http is not None)
        assert (token in json.dumps(facts["entry"])) is facts["secret"]


def test_a_client_that_can_send_no_header_is_refused_http(run: Run, token: str) -> None:
    said = run("connect", "claude-desktop", "--http")
    assert (said.code, said.out) == (2, "")
    assert "it is set up with --stdio" in said.err


@pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if client.http is not None])
def test_l16_the_form_with_the_key_is_marked_and_one_without_is_offered(run: Run, token: str, client: str) -> None:
    said = run("connect", client)
    assert "holds the key to your notes" in said.err
    assert sum(token in line for line in said.out.splitlines()) == 1
    facts = json.loads(run("connect", client, "--json").out)
    assert facts["secret"] is True
    if client not in ("zed", "lmstudio"):  # they know no variables
        assert token not in json.dumps(facts["entry_without_secret"])


def test_stdio_holds_no_key_and_is_not_marked(run: Run, token: str) -> None:
    for name in CLIENTS:
        said = run("connect", name, "--stdio")
        assert token not in said.out
        assert said.err == ""


def test_stdio_needs_no_daemon_that_ever_ran(run: Run, place: Place) -> None:
    entry = json.loads(run("connect", "cursor", "--stdio", "--json").out)["entry"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"] == ["mcp", "--vault", str(place.vault), "--state", str(place.root)]


def test_http_before_the_first_start_says_what_to_do(run: Run, place: Place) -> None:
    for argv in (["claude-code"], ["cursor", "--write"]):
        said = run("connect", *argv)
        assert (said.code, said.out) == (1, "")
        assert "start the daemon with 'vault-sidecar serve'" in said.err


def test_the_printed_command_is_taken_apart_by_a_shell_as_meant(run: Run, place: Place, token: str) -> None:
    lines = run("connect", "claude-code", "--name", "my-notes").out.splitlines()
    words = ["claude", "mcp", "add", "--transport", "http", "my-notes", "http://127.0.0.1:24790/mcp", "--header"]
    assert shlex.split(lines[0]) == [*words, f"Authorization: Bearer {token}"]
    assert f'"Authorization: Bearer {token}"' in lines[0], "double quotes work in every shell"
    assert shlex.split(lines[4]) == [*words, "Authorization: Bearer $VAULT_SIDECAR_TOKEN"]
    assert shlex.split(lines[-1]) == [*words, "Authorization: Bearer ${VAULT_SIDECAR_TOKEN}"]
    show = shlex.split(lines[3].partition('"$(')[2].removesuffix(')"'))
    assert show == ["vault-sidecar", "token", "show", "--vault", str(place.vault), "--state", str(place.root)]


def test_a_persons_own_token_is_quoted(run: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    own = 'it\'s-$HOME-`id`-"quoted"-!!-and-long-enough'
    monkeypatch.setenv("VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV", "MY_TOKEN")
    monkeypatch.setenv("VAULT_SIDECAR_HTTP_PORT", "24799")
    monkeypatch.setenv("MY_TOKEN", own)
    said = run("connect", "claude-code")
    assert shlex.split(said.out.splitlines()[0])[-1] == f"Authorization: Bearer {own}"
    assert "export MY_TOKEN=" in run("connect", "gemini").out, "the variable the person chose"


def test_the_port_the_daemon_listens_on_goes_first(run: Run, place: Place, token: str) -> None:
    endpoint.write(place.state, endpoint.of_this_process(24791, "x", "0"))
    said = run("connect", "claude-code")
    assert "http://127.0.0.1:24791/mcp " in said.out
    assert "The daemon listens on 24791 in this run only; the vault's port is 24790." in said.err


def test_a_port_that_changes_at_each_start_is_printed_with_a_remark_and_never_written(
    run: Run, place: Place, token: str
) -> None:
    settings.set_setting(place.state, "http", "port", 0)
    endpoint.write(place.state, endpoint.of_this_process(24791, "x", "0"))
    assert "'vault-sidecar port set N' pins one" in run("connect", "cursor").err
    said = run("connect", "cursor", "--write")
    assert said.code == 2
    assert "use --stdio" in said.err
    assert not file_of(place, "cursor").exists()


@pytest.mark.parametrize("name", ["", "my notes", "a/b", "x" * 65, "a\n", "é"])
def test_a_name_that_some_client_would_refuse_is_a_usage_error(run: Run, place: Place, name: str) -> None:
    assert run("connect", "cursor", "--name", name).code == 2


# write: what is there stays

OTHERS: Mapping[str, Any] = {"command": "npx", "args": ["-y", "other"], "env": {"A": "1"}}


def shapes(at: str) -> dict[str, bytes]:
    """Files a person may have, with another server and settings of their own; `at` is the client's word for servers."""
    other = '"other": {"command": "npx", "args": ["-y", "other"], "env": {"A": "1"}}'
    pretty = json.dumps({"first": [1, 2], at: {"other": OTHERS}, "last": {"deep": {"a": None}}}, indent=2) + "\n"
    commented = (
        "// mine\n{\n  /* servers */\n"
        f'  "{at}": {{ // here\n    {other} // the other one\n    // "old": {{}}\n  }},\n'
        '  "url": "http://x//y", // no comment inside\n}\n'
    )
    return {
        "empty": b"",
        "blank": b" \n\n",
        "an empty object": b"{}",
        "an empty object on two lines": b"{\n}\n",
        "no servers": b'{\n  "theme": "dark"\n}\n',
        "empty servers": f'{{"{at}": {{}}}}'.encode(),
        "pretty": pretty.encode(),
        "tabs": pretty.replace("  ", "\t").encode(),
        "one line": f'{{"{at}": {{{other}}}, "z": 1}}'.encode(),
        "comments": commented.encode(),
        "trailing commas": f'{{\n    "{at}": {{\n        {other},\n    }},\n}}\n'.encode(),
        "CRLF": commented.replace("\n", "\r\n").encode(),
        "BOM": b"\xef\xbb\xbf" + pretty.encode(),
        "BOM and CRLF": b"\xef\xbb\xbf" + pretty.replace("\n", "\r\n").encode(),
        "no last line end": pretty.rstrip().encode(),
        "text beyond ASCII": f'{{"{at}": {{{other}}}, "Straße": "\\u00e9 潮音町 \\ud83d\\ude00 😀"}}'.encode(),
        "same keys elsewhere": f'{{"projects": {{"/x": {{"{at}": {{{other}}}}}}}, "{at}": {{{other}}}}}'.encode(),
    }


SHAPES = list(shapes("x"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("client", "way"), [form for form in FORMS if form[0] in JSON_WRITABLE], ids="-".join)
def test_writing_keeps_every_other_entry(run: Run, place: Place, token: str, client: str, shape: str, way: str) -> None:
    path = file_of(place, client)
    before = shapes(CLIENTS[client].at[0])[shape]
    put(path, before)
    assert run("connect", client, "--write", f"--{way}").code == 0
    after = path.read_bytes()
    old, new = jsonc.read(before.decode("utf-8-sig")), jsonc.read(after.decode("utf-8-sig"))
    ours = servers(client, path).pop("vault-sidecar")
    assert (token in json.dumps(ours)) is (way == "http")
    old.setdefault(CLIENTS[client].at[0], {})["vault-sidecar"] = ours
    assert new == old
    assert list(new) == list(old), "the order of keys"
    assert after.startswith(b"\xef\xbb\xbf") is before.startswith(b"\xef\xbb\xbf")
    if b"\r\n" in before:
        assert after.count(b"\n") == after.count(b"\r\n")
    for word in (
        b"// mine",
        b"/* servers */",
        b"// here",
        b"// the other one",
        b'// "old": {}',
        b"// no comment inside",
    ):
        assert (word in before) is (word in after)
    # all that was there is still there, in its order: only commas and our lines came in between
    rest = iter(after)
    assert all(byte in rest for byte in before.rstrip())
    assert [kept.read_bytes() for kept in backups(path)] == [before]


@pytest.mark.parametrize("client", WRITABLE)
def test_a_second_time_changes_nothing(run: Run, place: Place, token: str, client: str) -> None:
    path = file_of(place, client)
    assert run("connect", client, "--write").code == 0
    first, there = path.stat(), files_beside(path)
    said = run("connect", client, "--write")
    assert said.code == 0
    assert "already; nothing was changed" in said.out
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert files_beside(path) == there


@pytest.mark.parametrize("client", WRITABLE)
def test_a_missing_file_is_made_for_its_owner_alone(run: Run, place: Place, token: str, client: str) -> None:
    path = file_of(place, client)
    facts = json.loads(run("connect", client, "--write", "--json").out)
    assert facts["written"] is True and facts["backup"] is None
    assert list(servers(client, path)) == ["vault-sidecar"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files_beside(path) == {path.name}, "no temporary file and no lock stays"


@pytest.mark.parametrize("client", [name for name in WRITABLE if CLIENTS[name].http is not None])
def test_a_file_that_gets_the_key_is_closed_to_others_and_one_that_does_not_keeps_its_mode(
    run: Run, place: Place, token: str, client: str
) -> None:
    path = file_of(place, client)
    put(path, b"", 0o640)
    run("connect", client, "--write", "--stdio")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert token.encode() not in path.read_bytes()
    run("connect", client, "--write")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token.encode() in path.read_bytes()
    assert {stat.S_IMODE(kept.stat().st_mode) for kept in backups(path)} == {0o600}


@pytest.mark.parametrize("client", WRITABLE)
def test_a_link_is_followed_and_stays(run: Run, place: Place, token: str, client: str, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings"
    put(real, b"")
    path = file_of(place, client)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(real)
    said = run("connect", client, "--write")
    assert said.code == 0
    assert path.is_symlink() and not real.is_symlink()
    assert "vault-sidecar" in servers(client, real)
    assert f"that is a link; what was written is {real}" in said.out


def test_a_link_into_the_vault_gets_no_key(run: Run, place: Place, token: str) -> None:
    """L08, for the copy that a client would hold."""
    real, path = place.vault / "mcp.json", file_of(place, "cursor")
    put(real, b"{}")
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    said = run("connect", "cursor", "--write")
    assert said.code == 2
    assert "lies in the vault" in said.err
    assert real.read_bytes() == b"{}"
    assert run("connect", "cursor", "--write", "--stdio").code == 0
    assert token.encode() not in real.read_bytes()


BROKEN = {
    "cut off": b'{"mcpServers": {"other": {',
    "no comma": b'{"a": 1 "b": 2}',
    "a list": b"[1, 2]",
    "two objects": b"{} {}",
    "single quotes": b"{'a': 1}",
    "servers are a list": b'{"mcpServers": [], "servers": []}',
    "servers twice": b'{"mcpServers": {}, "mcpServers": {}, "servers": {}, "servers": {}}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "Latin-1": '{"é": 1}'.encode("latin-1"),
    "a comment without end": b"{} /* x",
    "a bad escape": b'{"\\x": 1}',
    "nested too deeply": b'{"a":' * 5000,
    "a number without end": b'{"a": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("client", JSON_WRITABLE)
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_with_a_sentence_and_not_touched(
    run: Run, place: Place, token: str, client: str, content: bytes
) -> None:
    path = file_of(place, client)
    put(path, content)
    said = run("connect", client, "--write")
    assert (said.code, said.out) == (1, "")
    assert "nothing was changed" in said.err and said.err.count("\n") == 1
    assert path.read_bytes() == content
    assert files_beside(path) == {path.name}
    assert run("connect", client).code == 0, "printing needs no file"


@pytest.mark.parametrize(
    "content",
    [b"[mcp_servers", b"a = 1\na = 2\n", b"mcp_servers = 3\n", b'mcp_servers = {o = {url = "x"}}\n', b"\xff\xfe"],
    ids=["cut off", "twice", "no table", "an inline table", "no text"],
)
def test_a_broken_toml_file_is_refused_with_a_sentence_and_not_touched(
    run: Run, place: Place, token: str, content: bytes
) -> None:
    path = file_of(place, "codex")
    put(path, content)
    said = run("connect", "codex", "--write")
    assert said.code == 1
    assert "~/.codex/config.toml: " in said.err and "nothing was changed" in said.err
    assert path.read_bytes() == content
    assert files_beside(path) == {path.name}


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        'model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "a" # b\n\n[tui]\ntheme = "dark"\n',
        '[mcp_servers]\n[mcp_servers.other]\nurl = "http://x"\n[[list]]\na = 1\n[mcp_servers.more]\ncommand = "c"',
        'mcp_servers.other.command = "a"\n[z]\n"quoted.key" = 0x10\n',
    ],
    ids=["empty", "comment", "usual", "out of order", "dotted"],
)
def test_writing_toml_adds_lines_at_the_end_only(
    run: Run, place: Place, token: str, text: str, newline: str, mark: bytes, way: str
) -> None:
    path = file_of(place, "codex")
    before = mark + text.replace("\n", newline).encode()
    put(path, before)
    assert run("connect", "codex", "--write", f"--{way}").code == 0
    after = path.read_bytes()
    assert after.startswith(before)
    if newline == "\r\n" and text.count("\n"):
        assert after.count(b"\n") == after.count(b"\r\n")
    assert set(servers("codex", path)) >= {"vault-sidecar"}
    assert [kept.read_bytes() for kept in backups(path)] == [before]


# write: our own entry


@pytest.mark.parametrize("client", [name for name in WRITABLE if CLIENTS[name].http is not None])
def test_our_entry_is_brought_up_to_date_and_keeps_what_the_person_added(
    run: Run, place: Place, token: str, client: str
) -> None:
    path, at = file_of(place, client), CLIENTS[client].at[0]
    old = "http://127.0.0.1:24790/mcp"
    if client == "codex":
        text = f'[{at}.vault-sidecar]\nurl = "{old}" # mine\nenabled = true\n'
        text += f'[{at}.vault-sidecar.http_headers]\nAuthorization = "Bearer old"\nX = "y"\n[z]\na = 1\n'
    else:
        text = f'{{"{at}": {{\n  "vault-sidecar": {{ // mine\n    "enabled": true,\n    "url": "{old}",\n'
        text += '    "headers": {"X": "y", "Authorization": "Bearer old"}\n  }\n}}'
    put(path, text.encode())
    assert run("connect", client, "--write").code == 0
    entry = servers(client, path)["vault-sidecar"]
    assert entry[CLIENTS[client].headers] == {"X": "y", "Authorization": f"Bearer {token}"}
    assert entry["enabled"] is True
    assert " mine\n" in path.read_text(), "the comment"
    settings.set_setting(place.state, "http", "port", 24999)
    assert run("connect", client, "--write").code == 0
    assert servers(client, path) == {"vault-sidecar": entry | {"url": "http://127.0.0.1:24999/mcp"}}


@pytest.mark.parametrize("client", [name for name in WRITABLE if CLIENTS[name].http is not None])
def test_our_entry_is_known_though_port_and_token_have_changed(run: Run, place: Place, token: str, client: str) -> None:
    path = file_of(place, client)
    run("connect", client, "--write")
    for port in ("24999", "25000"):  # the second time, by the token before the last one
        assert run("token", "rotate").code == 0
        assert run("token", "rotate").code == 0
        assert run("port", "set", port).code == 0
        assert run("connect", client, "--write").code == 0
        [(name, entry)] = servers(client, path).items()
        assert (name, entry["url"]) == ("vault-sidecar", f"http://127.0.0.1:{port}/mcp")
        assert entry[CLIENTS[client].headers]["Authorization"] == f"Bearer {run('token', 'show').out.strip()}"


def test_an_entry_with_a_token_that_was_never_ours_is_another_vaults(run: Run, place: Place, token: str) -> None:
    path = file_of(place, "cursor")
    other = {"url": "http://127.0.0.1:24783/mcp", "headers": {"Authorization": f"Bearer {new_token()}"}}
    put(path, json.dumps({"mcpServers": {"vault-sidecar": other}}).encode())
    run("token", "rotate")
    run("connect", "cursor", "--write")
    found = servers("cursor", path)
    assert found["vault-sidecar"] == other
    assert set(found) == {"vault-sidecar", "vault-sidecar-my-notes"}


@pytest.mark.parametrize("client", [name for name in WRITABLE if CLIENTS[name].http is not None])
def test_the_transport_can_be_changed_there_and_back(run: Run, place: Place, token: str, client: str) -> None:
    path = file_of(place, client)
    run("connect", client, "--write")
    http = path.read_bytes()
    run("connect", client, "--write", "--stdio")
    entry = servers(client, path)["vault-sidecar"]
    assert not {"url", "headers", "http_headers"} & set(entry)
    assert entry["args"][:3] == ["mcp", "--vault", str(place.vault)]
    run("connect", client, "--write", "--http")
    assert path.read_bytes() == http


@pytest.mark.parametrize(
    ("client", "secretless"),
    [
        ("claude-code", {"headers": {"Authorization": "Bearer ${MINE}"}}),
        ("cursor", {"headers": {"Authorization": "Bearer ${env:MINE}"}}),
        ("vscode", {"headers": {"Authorization": "Bearer ${input:vault-sidecar-token}"}}),
        ("codex", {"bearer_token_env_var": "MINE"}),
    ],
)
def test_a_token_that_the_person_keeps_elsewhere_stays_there(
    run: Run, place: Place, token: str, client: str, secretless: dict[str, Any]
) -> None:
    path, known = file_of(place, client), CLIENTS[client]
    entry = {**(known.http or {}), "url": "http://127.0.0.1:24790/mcp", **secretless}
    if client == "codex":
        text = "[mcp_servers.vault-sidecar]\n" + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in entry.items()
        )
    else:
        text = json.dumps({known.at[0]: {"vault-sidecar": entry}})
    put(path, text.encode())
    said = run("connect", client, "--write")
    assert "already; nothing was changed" in said.out
    assert path.read_text() == text
    settings.set_setting(place.state, "http", "port", 24999)
    put(path, text.replace("24790/mcp", "24999/mcp/notes").encode())
    said = run("connect", client, "--write")
    assert "now has the entry" in said.out and "holds the key" not in said.out
    assert path.read_text() == text.replace("24790", "24999")


def test_a_taken_name_gets_the_vaults_name_added(run: Run, place: Place, token: str) -> None:
    path = file_of(place, "cursor")
    taken = '{"mcpServers": {"vault-sidecar": {"url": "http://127.0.0.1:24783/mcp"}}}'
    put(path, taken.encode())
    assert '"vault-sidecar-my-notes": {' in run("connect", "cursor").out
    for _ in range(2):
        facts = json.loads(run("connect", "cursor", "--write", "--json").out)
        assert facts["name"] == "vault-sidecar-my-notes"
    found = servers("cursor", path)
    assert list(found) == ["vault-sidecar", "vault-sidecar-my-notes"]
    assert found["vault-sidecar"] == {"url": "http://127.0.0.1:24783/mcp"}


def test_an_entry_of_something_else_is_never_replaced(run: Run, place: Place, token: str) -> None:
    path = file_of(place, "cursor")
    text = json.dumps({"mcpServers": {"vault-sidecar": OTHERS, "vault-sidecar-my-notes": OTHERS, "mine": OTHERS}})
    put(path, text.encode())
    for more in ([], ["--name", "mine"]):
        said = run("connect", "cursor", "--write", *more)
        assert said.code == 2
        assert "choose another with --name" in said.err
    assert path.read_text() == text
    assert run("connect", "cursor", "--write", "--name", "free").code == 0


def test_a_vault_whose_name_has_no_plain_letters_still_gets_a_name_of_its_own(
    run: Run, place: Place, token: str, tmp_path: Path
) -> None:
    path, vault = file_of(place, "cursor"), tmp_path / "潮音町"
    (vault / ".obsidian").mkdir(parents=True)
    put(path, json.dumps({"mcpServers": {"vault-sidecar": OTHERS}}).encode())
    facts = json.loads(run("connect", "cursor", "--write", "--stdio", "--json", "--vault", str(vault)).out)
    assert facts["name"].removeprefix("vault-sidecar-").isalnum()
    assert "潮音町" in path.read_text(), "the path as it is"


@pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if not client.writes])
def test_a_file_that_is_not_known_well_enough_is_not_written(run: Run, place: Place, token: str, client: str) -> None:
    said = run("connect", client, "--write")
    assert (said.code, said.out) == (2, "")
    assert "prints what to paste" in said.err
    assert not file_of(place, client).exists()


def test_a_client_that_is_writing_its_file_is_waited_for(
    run: Run, place: Place, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code re-reads its file under this lock, so an edit under it is not lost."""
    monkeypatch.setattr(settings_file, "_LOCK_STALE_S", 3600.0)  # no pause of this test makes the lock so old
    path = file_of(place, "claude-code")
    put(path, b"{}")
    lock = path.with_name(".claude.json.lock")
    lock.mkdir()
    said = run("connect", "claude-code", "--write")
    assert said.code == 1
    assert "another program is writing .claude.json" in said.err
    assert path.read_bytes() == b"{}" and lock.is_dir()
    os.utime(lock, (1, 1))
    assert run("connect", "claude-code", "--write").code == 0, "a lock left by a crash holds nobody up"
    assert not lock.exists()


def test_the_key_of_a_write_is_not_shown(run: Run, place: Place, token: str) -> None:
    for client in WRITABLE:
        said = run("connect", client, "--write")
        assert token not in said.out + said.err


def test_a_token_in_a_file_is_found_as_well(run: Run, place: Place) -> None:
    token = new_token()
    FileStore(place.state, place.vault).store(token)
    settings.set_setting(place.state, "http", "port", 24790)
    run("connect", "cursor", "--write")
    assert token in file_of(place, "cursor").read_text()
