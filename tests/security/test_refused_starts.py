"""Rows D01, D17, T18 to T20, O30 and the names of surfaces: a wrong setting stops a real start, and is named.

Each start must end with code 2 and one sentence on stderr, before it has
opened, bound or printed anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.surfaces import SURFACES
from tests.security.starts import Site

HTTP = "[http] port, [http] bearer_token_env, [http] allowed_origins, [http] max_body_mib"
SECTIONS = "[http], [surfaces], [index], [vectors], [openai], [notes], [agents], [digest], [providers], [log]"
PREFIX = "VAULT_SIDECAR_"
VARIABLES = ", ".join(f"{PREFIX}HTTP_{key}" for key in ("PORT", "BEARER_TOKEN_ENV", "ALLOWED_ORIGINS", "MAX_BODY_MIB"))
NEAR_TOKEN = "s3cr3tpart-of-just-31-letters.."
ORIGINS = 'allowed_origins must list exact origins; "*" and "null" would let any web page in'
NAMES = ", ".join(surface.name for surface in SURFACES)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        yield made


def is_refused(site: Site, sentence: str, **env: str) -> None:
    """The start ends with code 2 and this sentence, and has neither listened nor written."""
    before = site.left()
    ended = site.refused(**site.write_down(), **env)
    assert (ended.code, ended.out, ended.err) == (2, "", f"vault-sidecar: {sentence}\n")
    assert site.events("socket.bind", "os.rename") == []
    assert site.left() == before


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        pytest.param(f'[http]\nhost = "{host}"', f"[http] host is not a known setting; there are {HTTP}", id=f"D01-{n}")
        for n, host in (
            ("any", "0.0.0.0"),
            ("any-v6", "::"),
            ("lan", "192.168.1.10"),
            ("name", "notes.example"),
            ("loopback", "127.0.0.1"),
        )
    ]
    + [
        pytest.param('host = "0.0.0.0"', f"host is not a known setting; there are {SECTIONS}", id="D01-outside"),
        pytest.param('[http]\nbind = "::"', f"[http] bind is not a known setting; there are {HTTP}", id="D01-bind"),
        pytest.param(
            '[server]\nhost = "::"', f"[server] is not a known setting; there are {SECTIONS}", id="D01-server"
        ),
        pytest.param('[http]\nport = "0.0.0.0:24783"', "[http] port must be a whole number", id="D01-in-port"),
        pytest.param("[http]\nprot = 1", "[http] prot is not a known setting; did you mean [http] port?", id="D17-key"),
        pytest.param("[htpp]\nport = 1", "[htpp] is not a known setting; did you mean [http]?", id="D17-section"),
        pytest.param("port = 2000", "port is not a known setting; did you mean [http] port?", id="D17-outside"),
        pytest.param(
            '[index]\nlevel = "debug"',
            "[index] level is not a known setting; did you mean [log] level?",
            id="D17-moved",
        ),
        pytest.param('[http]\nport = "1"', "[http] port must be a whole number", id="D17-type"),
        pytest.param(
            "[http]\nport = 80",
            "[http] port must be 0 (a random port at each start) or a port from 1024 to 65535",
            id="D17-range",
        ),
        pytest.param('[notes]\nother_devices = "no"', "[notes] other_devices must be true or false", id="D17-truth"),
        pytest.param("[log]\nlevel = 3", "[log] level must be one of debug, info, warning, error", id="D17-choice"),
        pytest.param("http = 1", "http must be a table of settings", id="D17-table"),
        pytest.param("[http", "Expected ']' at the end of a table declaration (at end of document)", id="D17-no-toml"),
        pytest.param('[http]\nallowed_origins = ["*"]', f"[http] {ORIGINS}", id="O30-star"),
        pytest.param('[http]\nallowed_origins = ["null"]', f"[http] {ORIGINS}", id="O30-null"),
        pytest.param('[http]\nallowed_origins = ["app://obsidian.md", " NULL"]', f"[http] {ORIGINS}", id="O30-among"),
        pytest.param('[http]\nallowed_origins = ["https://*.example"]', f"[http] {ORIGINS}", id="O30-pattern"),
        pytest.param(
            '[surfaces]\nenabled = ["notez"]',
            f"[surfaces] enabled names 'notez'; the surfaces are {NAMES}",
            id="surfaces-enabled",
        ),
    ],
)
def test_a_wrong_line_of_the_persons_file_stops_the_start(site: Site, toml: str, sentence: str) -> None:
    site.put("config.toml", toml)
    is_refused(site, f"config.toml: {sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param('{"http": {"host": "::"}}', f"[http] host is not a known setting; there are {HTTP}", id="D01"),
        pytest.param(
            '{"http": {"prot": 1}}', "[http] prot is not a known setting; did you mean [http] port?", id="D17-key"
        ),
        pytest.param('{"htpp": {}}', "[htpp] is not a known setting; did you mean [http]?", id="D17-section"),
        pytest.param('{"http": {"port": "1"}}', "[http] port must be a whole number", id="D17-type"),
        pytest.param('{"http": [1]}', "http must be a table of settings", id="D17-table"),
        pytest.param("[]", "is damaged; delete it, and set again what you had changed", id="D17-no-object"),
        pytest.param("{", "is damaged; delete it, and set again what you had changed", id="D17-no-json"),
        pytest.param('{"http": {"allowed_origins": ["*"]}}', f"[http] {ORIGINS}", id="O30"),
    ],
)
def test_a_wrong_entry_of_our_own_file_stops_the_start(site: Site, text: str, sentence: str) -> None:
    site.put("settings.json", text)
    is_refused(site, f"settings.json: {sentence}")


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        pytest.param("HTTP_HOST", "0.0.0.0", f"is not a known setting; there are {VARIABLES}", id="D01-any"),
        pytest.param("HTTP_HOST", "::", f"is not a known setting; there are {VARIABLES}", id="D01-any-v6"),
        pytest.param("HTTP_PRT", "1", f"is not a known setting; did you mean {PREFIX}HTTP_PORT?", id="D17-key"),
        pytest.param("HTPP_PORT", "1", f"is not a known setting; did you mean {PREFIX}HTTP_PORT?", id="D17-section"),
        pytest.param("PORT", "2000", f"is not a known setting; did you mean {PREFIX}HTTP_PORT?", id="D17-outside"),
        pytest.param("HTTP_PORT", "first", "must be a whole number", id="D17-type"),
        pytest.param("LOG_LEVEL", "loud", "must be one of debug, info, warning, error", id="D17-choice"),
        pytest.param("HTTP_ALLOWED_ORIGINS", "app://obsidian.md,*", ORIGINS.partition(" ")[2], id="O30-star"),
        pytest.param("HTTP_ALLOWED_ORIGINS", "null", ORIGINS.partition(" ")[2], id="O30-null"),
        pytest.param("SURFACES_ENABLED", "notez", f"names 'notez'; the surfaces are {NAMES}", id="surfaces-enabled"),
    ],
)
def test_a_wrong_variable_stops_the_start(site: Site, variable: str, text: str, sentence: str) -> None:
    is_refused(site, f"the environment: {PREFIX}{variable} {sentence}", **{PREFIX + variable: text})


@pytest.mark.parametrize("source", ["config.toml", "the environment"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        pytest.param("", "the token in the environment variable MY_TOKEN needs at least 32 characters", id="T18-empty"),
        pytest.param(
            " " * 40, "the token in the environment variable MY_TOKEN needs at least 32 characters", id="T18-blanks"
        ),
        pytest.param(
            NEAR_TOKEN, "the token in the environment variable MY_TOKEN needs at least 32 characters", id="T19"
        ),
        pytest.param(
            "s3cr3tpart " * 4,
            "the token in the environment variable MY_TOKEN may hold ASCII letters and signs only",
            id="T19-blanks-inside",
        ),
        pytest.param(
            None,
            "[http] bearer_token_env names the environment variable MY_TOKEN, which is not set",
            id="T20",
        ),
    ],
)
def test_a_token_that_guards_nothing_stops_the_start(site: Site, source: str, value: str | None, sentence: str) -> None:
    env = {} if value is None else {"MY_TOKEN": value}
    if source == "config.toml":
        site.put("config.toml", '[http]\nbearer_token_env = "MY_TOKEN"\n')
    else:
        env[f"{PREFIX}HTTP_BEARER_TOKEN_ENV"] = "MY_TOKEN"
    is_refused(site, sentence, **env)


def test_a_token_in_the_place_of_its_variables_name_is_not_repeated(site: Site) -> None:
    """T20."""
    token = "0123456789abcdef" * 4
    site.put("config.toml", f'[http]\nbearer_token_env = "{token}"\n')
    is_refused(
        site, "config.toml: [http] bearer_token_env must be the name of an environment variable, not the token itself"
    )


def test_d01_variables_that_are_no_settings_move_it_nowhere(site: Site) -> None:
    """Control of all rows here as well: a start that is not refused binds, and replaces files."""
    elsewhere = dict.fromkeys(("HOST", "BIND", f"{PREFIX}HOST", f"{PREFIX}BIND", f"{PREFIX}SERVER_HOST"), "0.0.0.0")
    daemon = site.start(**site.write_down(), **elsewhere)
    assert daemon.stop() == 0
    *others, bound = site.events("socket.bind")
    assert bound == f"socket.bind ('127.0.0.1', {daemon.port})"
    assert all(other.startswith("socket.bind ('127.0.0.1', ") for other in others), "a random port may be taken"
    assert site.events("os.rename")
