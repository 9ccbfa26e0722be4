"""What the models say about the type of a setting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel

from sidecar.config.tables import Config


def plain_types(annotation: Any) -> Iterable[Any]:
    """The members of a union, without what `Annotated` adds."""
    if get_origin(annotation) is Annotated:
        yield from plain_types(get_args(annotation)[0])
    elif get_origin(annotation) not in (None, list, dict, Literal):
        for member in get_args(annotation):
            yield from plain_types(member)
    else:
        yield annotation


def section_model(section: str) -> type[BaseModel]:
    """The model of a section's table, or of each of its tables."""
    annotation = Config.model_fields[section].annotation
    return cast("type[BaseModel]", get_args(annotation)[1] if has_named_tables(section) else annotation)


def has_named_tables(section: str) -> bool:
    """Whether a section is made of tables with names of a person's own: `[section.NAME]`."""
    return section in Config.model_fields and get_origin(Config.model_fields[section].annotation) is dict
