"""What the ways to start a daemon have in common: its secrets, taken out of the environment, and its options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.bridge.token import check_injected

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.cli.where import Where
    from sidecar.config import Config, Owner, ServeOptions


def take_token(config: Config) -> str | None:
    """The token, if the settings name a variable for it; no process that is started later inherits that.

    Raises:
        BadConfig: the variable holds no token.
    """
    variable = config.http.bearer_token_env
    return check_injected(variable, os.environ.pop(variable, None)) if variable else None


def options(
    config: Config,
    vault: Path,
    place: Where,
    instance: str,
    *,
    owner: Owner,
    token: str | None,
    conceal: Callable[[str], None],
    port: int | None = None,
    linger_s: float | None = None,
) -> ServeOptions:
    """For one run of the daemon. `conceal` is told what no log may show.

    Call it below the lock, which refuses a second one: what it imports takes a second.
    """
    from sidecar.cli import where
    from sidecar.config import Secret, ServeOptions
    from sidecar.index.vector_options import secret_variables
    from sidecar.services.agents.provider import key_variables

    environment = dict(os.environ)
    # who needs one gets it handed over; no other process inherits it
    for name in (*secret_variables(config), *key_variables(config)):
        conceal(os.environ.pop(name, ""))
    return ServeOptions(
        config,
        vault,
        place.state_dir,
        instance,
        port=port,
        owner=owner,
        linger_s=linger_s,
        models_dir=where.models_dir(place),
        environment=environment,
        home=Path.home(),
        injected_token=Secret(token) if token else None,
    )
