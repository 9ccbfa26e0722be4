"""Which vault a command is about, where its state lies, and which settings hold for it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar.bridge import settings
from sidecar.bridge.places import nearest_vault, refuse_inside, state_dir_of, true_path
from sidecar.errors import BadConfig

if TYPE_CHECKING:
    from sidecar.config import Config


@dataclass(frozen=True, slots=True)
class Where:
    """A vault and its state folder; neither need exist."""

    vault: Path
    state_dir: Path


def find(args: Namespace) -> Where:
    """By the command line, else the environment, else the present folder. Blocks.

    Raises:
        BadConfig: no vault is named and none is near, or its state would lie inside it.
    """
    vault = vault_of(args)
    where = Where(vault, state_dir_of(vault, state_root(args)))
    refuse_inside(where.state_dir, where.vault)
    return where


def vault_of(args: Namespace) -> Path:
    """The folder that is meant, without links; it need not exist. Blocks.

    Raises:
        BadConfig: no vault is named and none is near.
    """
    folder = getattr(args, "folder", None)
    if folder and args.vault and true_path(_path(folder)) != true_path(_path(args.vault)):
        raise BadConfig("two different vaults are named; name one")
    named = args.vault or folder or os.environ.get("VAULT_SIDECAR_VAULT")
    if named:
        return true_path(_path(named))
    try:
        found = nearest_vault(Path.cwd())
    except OSError:  # the present folder was deleted
        found = None
    if found is None:
        raise BadConfig(
            "which vault? Name its folder with --vault DIR or VAULT_SIDECAR_VAULT,"
            " or run the command inside a folder that holds .obsidian"
        )
    return true_path(found)


def models_dir(where: Where) -> Path:
    """Where the embedding models of all vaults are kept."""
    return where.state_dir.parent / "models"


def load_config(
    where: Where, surfaces: Collection[str] | None = None, *, over: Mapping[str, Mapping[str, Any]] | None = None
) -> Config:
    """The settings of a vault, with those of the editor `over` all others. Blocks.

    Raises:
        BadConfig, Unreadable: a setting or a settings file is wrong.
    """
    from sidecar import config  # takes longer to import than most commands take

    files = [
        config.Source(settings.CONFIG_FILE, settings.read_config_file(where.state_dir)),
        config.Source(settings.SETTINGS_FILE, settings.read_settings(where.state_dir)),
    ]
    variable = config.load(files).http.bearer_token_env
    environment = config.from_environment(os.environ, tokens=[variable] if variable else [])
    editor = [config.Source("the editor", over)] if over else []
    return config.load([*files, environment, *editor], surfaces=surfaces)


def token_variable(where: Where) -> str | None:
    """The name of the environment variable that holds the token, if the settings name one. Blocks.

    Raises:
        BadConfig, Unreadable: a setting or a settings file is wrong.
    """
    mentioned = "VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV" in os.environ or any(
        "bearer_token_env" in str(table)
        for table in (settings.read_config_file(where.state_dir), settings.read_settings(where.state_dir))
    )
    # where nothing mentions it, the settings need not be checked, which saves a short command most of its time
    return load_config(where).http.bearer_token_env if mentioned else None


def named_root(args: Namespace) -> str | None:
    """The state root as a whole path, if one was named; commands for other programs have to name it too."""
    named = args.state or os.environ.get("VAULT_SIDECAR_STATE")
    return str(state_root(args).absolute()) if named else None


def state_root(args: Namespace) -> Path:
    """The folder that holds the state folders of all vaults; it need not exist."""
    named = args.state or os.environ.get("VAULT_SIDECAR_STATE")
    if named:
        return _path(named)
    import platformdirs

    return platformdirs.user_state_path("vault-sidecar", appauthor=False)


def _path(text: str) -> Path:
    """Shells leave a `~` behind an equals sign as it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user: then it is a folder's name
        return Path(text)
