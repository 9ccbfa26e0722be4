"""Arguments and results of the databases tools. Clients that exist know these names: they must not change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, StringConstraints, model_serializer

from sidecar.arguments import Query, Shape

Mode = Literal["keyword", "semantic"]

_ABSENT: Any = None
"""Stands for what was not given, and is neither shown in a schema nor allowed as a value."""


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class ListRag(Shape):
    """list_rag"""


class RegisteredDatabase(Shape):
    """One entry of the registry."""

    db: str
    createAt: str


class ListRagResult(Shape):
    """list_rag"""

    loaded: list[str]
    registered: list[RegisteredDatabase]


class SearchRag(Shape):
    """search_rag"""

    db: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        description="Name of a loaded database, as list_rag gives it."
    )
    q: Query = Field(description="What to look for.")
    mode: Mode = Field(
        _ABSENT,
        description="keyword: by words alone. semantic: by meaning alone. Left out: both.",
        json_schema_extra=_without_default,
    )
    limit: int = Field(10, description="How many passages of each kind at most, 1 to 100; beyond, it is 10.")


class ChunkMatch(Shape):
    """A passage; numbers begin at 1 in each file."""

    chunk: int
    content: str


class SourceMatches(Shape):
    """A file, by its absolute path, and its passages."""

    source: str
    matches: list[ChunkMatch]


class SearchRagResult(Shape):
    """search_rag: the branches that ran."""

    keyword: list[SourceMatches] = Field(_ABSENT, json_schema_extra=_without_default)
    semantic: list[SourceMatches] = Field(_ABSENT, json_schema_extra=_without_default)

    @model_serializer(mode="wrap")
    def _those_that_ran(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: found for name, found in handler(self).items() if found is not None}


class BothBranches(Shape):
    """search over REST: both branches; one that did not run is empty."""

    keyword: list[SourceMatches]
    semantic: list[SourceMatches]
