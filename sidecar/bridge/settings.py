"""The two settings files of a state folder, as raw tables.

`config.toml` is the person's file: read only, and it may be a link into their
own collection. `settings.json` is ours: private, and replaced as a whole. What
the values mean is `sidecar.config`'s business.
"""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from sidecar.bridge import private_files
from sidecar.errors import BadConfig

CONFIG_FILE = "config.toml"
SETTINGS_FILE = "settings.json"

_MAX_BYTES = 1 << 20
_DAMAGED = f"{SETTINGS_FILE}: is damaged; delete it, and set again what you had changed"

_turn = threading.Lock()  # a change reads, and writes all of it; two at once would lose one


def read_config_file(state_dir: Path) -> dict[str, Any]:
    """The tables of `config.toml`; empty where there is no such file. Blocks.

    Raises:
        BadConfig: it can't be read or isn't TOML.
    """
    try:
        with (state_dir / CONFIG_FILE).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise BadConfig(f"{CONFIG_FILE}: is larger than {_MAX_BYTES >> 20} MiB")
        return tomllib.loads(content.decode("utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{CONFIG_FILE}: {error}") from error
    except RecursionError as error:
        raise BadConfig(f"{CONFIG_FILE}: is nested too deep") from error
    except UnicodeDecodeError as error:
        raise BadConfig(f"{CONFIG_FILE}: must be saved as UTF-8") from error
    except OSError as error:
        raise BadConfig(f"{CONFIG_FILE}: can't be read: {error.strerror}") from error


def read_settings(state_dir: Path) -> dict[str, Any]:
    """The tables of `settings.json`; empty where there is no such file. Blocks.

    Raises:
        BadConfig: it is damaged.
        Unreadable: it can't be believed, by the rule of `private_files`.
    """
    content = private_files.read(state_dir / SETTINGS_FILE, max_bytes=_MAX_BYTES)
    try:
        raw = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadConfig(_DAMAGED) from error
    if not isinstance(raw, dict):
        raise BadConfig(_DAMAGED)
    return cast("dict[str, Any]", raw)


def set_setting(state_dir: Path, section: str, key: str, value: str | int | bool | None) -> None:
    """As `set_settings`, of one setting."""
    set_settings(state_dir, {section: {key: value}})


def set_settings(state_dir: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Change settings of `settings.json`, `{section: {key: value}}`, in one step, and keep the others.

    Blocks; only the holder of the vault's lock may call it, in whatever threads.

    Raises:
        BadConfig, Unreadable: as `read_settings`, or the disk refused.
    """
    with _turn:
        settings = read_settings(state_dir)
        for section, values in changes.items():
            there: Any = settings.get(section) or {}
            if not isinstance(there, dict):
                raise BadConfig(_DAMAGED)
            settings[section] = {**there, **values}
        private_files.write(state_dir / SETTINGS_FILE, json.dumps(settings, indent=2).encode() + b"\n")
