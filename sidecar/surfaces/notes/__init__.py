"""Surface `notes`: the live vault as text tools."""

from sidecar.contract import Surface, Tool
from sidecar.surfaces.notes.agents import get_memory, list_agents, record_refused, run_agent
from sidecar.surfaces.notes.shapes import (
    ListNotes,
    Nothing,
    ReadNote,
    RunAgent,
    SearchNotes,
    SemanticSearch,
    WriteNote,
)
from sidecar.surfaces.notes.tools import list_notes, read_note, search_notes, semantic_search, write_note

SURFACE = Surface(
    name="notes",
    instructions=(
        "The notes of one vault on this computer. List, read and search them; use paths exactly as listed. "
        "Writing works only if write_note is listed."
    ),
    tools=(
        Tool(
            "list_notes",
            "Paths of the notes, alphabetically, optionally under a folder. Long lists come in pages.",
            ListNotes,
            None,
            list_notes,
        ),
        Tool(
            "read_note",
            "The full text of one note, frontmatter included. A long note is cut, with a marker that says so.",
            ReadNote,
            None,
            read_note,
        ),
        Tool(
            "search_notes",
            "Find notes that hold a text, without regard to case: excerpts with line numbers. The query is plain text.",
            SearchNotes,
            None,
            search_notes,
        ),
        Tool(
            "semantic_search",
            "Find passages by meaning and by keywords, in any language, best first. Use it for questions.",
            SemanticSearch,
            None,
            semantic_search,
            offered=lambda core: core.rag,
        ),
        Tool(
            "get_memory",
            "What the user wants remembered about them: lasting preferences, and what their projects are about.",
            Nothing,
            None,
            get_memory,
        ),
        Tool(
            "write_note",
            "Create a note, replace its text, or add to its end. To change a note, read it first and pass its checksum"
            " as expected.",
            WriteNote,
            None,
            write_note,
            read_only=False,
            offered=lambda core: core.switches.allow_writes,
        ),
        Tool(
            "list_agents",
            "The user's named agents: name, description and model of each. Call it before run_agent.",
            Nothing,
            None,
            list_agents,
        ),
        Tool(
            "run_agent",
            "Let one of the user's agents do a task, and get its final answer. It knows the task and its own"
            " instructions, nothing else, and may take minutes. Only agents that the user allowed can be run, two at"
            " once at most.",
            RunAgent,
            None,
            run_agent,
            read_only=False,
            on_refused=record_refused,
        ),
    ),
    numbers="clamp",
)
