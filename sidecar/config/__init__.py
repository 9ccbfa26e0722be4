"""The settings the product knows, and how their sources are laid over each other.

`tables` is what there is to set, `values` what each may be, `reading` lays the
sources over each other, `mistakes` words what is wrong in one, `options` is what
one run of the daemon gets.
"""

from sidecar.config.options import Owner, Secret, ServeOptions
from sidecar.config.reading import from_environment, load
from sidecar.config.source import ENVIRONMENT_PREFIX, Source
from sidecar.config.tables import (
    AgentsConfig,
    Config,
    DigestConfig,
    FusionName,
    HttpConfig,
    IndexConfig,
    LogConfig,
    LogLevel,
    NotesConfig,
    OpenaiConfig,
    ProviderConfig,
    SurfacesConfig,
    VectorsConfig,
)

__all__ = [
    "ENVIRONMENT_PREFIX",
    "AgentsConfig",
    "Config",
    "DigestConfig",
    "FusionName",
    "HttpConfig",
    "IndexConfig",
    "LogConfig",
    "LogLevel",
    "NotesConfig",
    "OpenaiConfig",
    "Owner",
    "ProviderConfig",
    "Secret",
    "ServeOptions",
    "Source",
    "SurfacesConfig",
    "VectorsConfig",
    "from_environment",
    "load",
]
