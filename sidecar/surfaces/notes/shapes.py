"""Arguments of the notes tools: contracts of names, types and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sidecar.arguments import Query, Shape


class ListNotes(Shape):
    """list_notes"""

    folder: str = Field("", description="A folder of the vault, like 'Projects'. Empty: the whole vault.")
    limit: int = Field(200, ge=1, le=1000, description="How many paths at most.")
    offset: int = Field(0, ge=0, description="How many paths to pass over.")


class ReadNote(Shape):
    """read_note"""

    path: Annotated[str, Field(min_length=1, description="Path of the note in the vault, like 'Folder/Note.md'.")]
    max_chars: int = Field(20_000, ge=200, le=200_000, description="How many characters at most.")


class SearchNotes(Shape):
    """search_notes"""

    query: Query = Field(description="The text to find.")
    limit: int = Field(20, ge=1, le=100, description="How many notes at most.")


class SemanticSearch(Shape):
    """semantic_search"""

    query: Query = Field(description="A question or a topic, in any language.")
    top_k: int = Field(8, ge=1, le=25, description="How many passages at most.")


class Nothing(Shape):
    """get_memory, list_agents"""


class WriteNote(Shape):
    """write_note"""

    path: Annotated[str, Field(min_length=1, description="Path of the note in the vault, like 'Folder/Note.md'.")]
    content: str = Field(description="The text, at most 2 MiB; written exactly as given.")
    mode: Literal["create", "overwrite", "append"] = Field(
        "create",
        description="create: a new note. overwrite: replace the whole note. append: add at its end.",
    )
    expected: str = Field(
        "",
        description=(
            "For overwrite and append: the checksum that the note must have now, as read_note gave it."
            " If the note has changed since, nothing is written."
        ),
    )


def _without_default(schema: dict[str, Any]) -> None:
    """The agent's own number takes its place."""
    schema.pop("default", None)


class RunAgent(Shape):
    """run_agent"""

    name: Annotated[str, Field(min_length=1, description="Name of the agent, as list_agents gives it.")]
    task: Annotated[
        str, Field(min_length=1, max_length=100_000, description="What to do. The agent is told this and nothing else.")
    ]
    max_turns: int = Field(
        0,
        ge=1,
        le=20,
        description="How often the agent may ask its model at most. Left out: as the agent's file says.",
        json_schema_extra=_without_default,
    )
    """0: not given."""
