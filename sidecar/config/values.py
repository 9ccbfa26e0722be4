"""What the value of a setting has to look like. Each check ends in words that follow the name of the key."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from pydantic import SecretStr


def _text(form: str, complaint: str) -> Callable[[str], str]:
    """The check of a text that has to match a form as a whole."""

    def check(value: str) -> str:
        if not re.fullmatch(form, value):
            raise ValueError(complaint)
        return value

    return check


# no name is that long, but a token put here by mistake is, and later messages would show it
variable = _text(r"[A-Za-z_][A-Za-z0-9_]{0,47}", "must be the name of an environment variable, not the token itself")
host = _text(
    r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+",
    "must be the name or the address of a computer, without 'http://' and port",
)
header_name = _text(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "must have names of HTTP headers as its keys")
clock = _text(r"([01][0-9]|2[0-3]):[0-5][0-9]", "must be a time of day such as '06:00'")
provider_name = _text(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", "must have names of 1 to 40 letters, digits, '-' and '_' as its tables"
)


def port(value: int) -> int:
    if value != 0 and not 1024 <= value <= 65535:
        raise ValueError("must be 0 (a random port at each start) or a port from 1024 to 65535")
    return value


def origin(value: str) -> str:
    """Origins are compared as whole strings, so a pattern can only be a mistake; `null` is every sandboxed page."""
    if "*" in value or value.strip().lower() == "null":
        raise ValueError('must list exact origins; "*" and "null" would let any web page in')
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", value):
        raise ValueError("must list origins such as 'app://obsidian.md', without a path or a final '/'")
    return value


_BUILT_IN = ("auto", "e5", "use", "hash", "openai")
_FROM_A_HUB = ("fastembed", "sentence-transformers")


def embedder(name: str) -> str:
    kind, _, model = name.partition(":")
    # a model's name never leads out of the models folder
    is_model = re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", model)
    if name in _BUILT_IN or (kind in _FROM_A_HUB and is_model):
        return name
    raise ValueError(f"must be one of {', '.join([*_BUILT_IN, *(f'{hub}:MODEL' for hub in _FROM_A_HUB)])}")


def server_port(value: int) -> int:
    if not 1 <= value <= 65535:
        raise ValueError("must be a port from 1 to 65535")
    return value


def filled(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("must be a name, not an empty text")
    return value


def header_value(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]([ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("must have values of visible ASCII characters, and of blanks between them")
    return value


def base_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, fits = urlsplit(""), False
    if not fits or parts.username is not None or parts.query or parts.fragment or not value.isprintable():
        raise ValueError("must be a URL such as 'http://127.0.0.1:11434/v1', without a name, a password and a '?'")
    return value.rstrip("/")


def vault_path(value: str) -> str:
    parts = value.split("/")
    if not value.isprintable() or "\\" in value or any(not part.strip() or part.startswith(".") for part in parts):
        raise ValueError("must be a path inside the vault, such as 'Folder' or 'Folder/Note.md'")
    return value


def provider_url(value: str) -> str:
    """Keys and texts of notes go there, so it is this computer or an encrypted connection."""
    url = base_url(value)
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_here(parts.hostname or ""):
        raise ValueError("must begin with https, because it is on another computer")
    return url


def is_here(host: str) -> bool:
    """Whether a host of a URL is this computer."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
