"""Surface `databases`: search in registered folders of documents, read-only, over MCP with sessions and over REST."""

from sidecar.contract import Route, Surface, Tool
from sidecar.surfaces.databases.shapes import BothBranches, ListRag, ListRagResult, SearchRag, SearchRagResult
from sidecar.surfaces.databases.tools import health, list_rag, search_both, search_rag

SURFACE = Surface(
    name="databases",
    instructions=(
        "search_rag and list_rag: Read-only retrieval over static files that the user placed in watched folders. Use it"
        " whenever an answer depends on the content of those files rather than on general knowledge. Call list_rag"
        " first if you don't know the database. It stores no conversation history, no session memory and no user"
        " profile."
    ),
    tools=(
        Tool(
            "list_rag",
            "The databases: those that are registered, and those that can be searched now.",
            ListRag,
            ListRagResult,
            list_rag,
        ),
        Tool(
            "search_rag",
            "Search the files of one database, by words, by meaning, or by both as two separate lists. Passages come"
            " grouped by their file, best first.",
            SearchRag,
            SearchRagResult,
            search_rag,
        ),
    ),
    sessions="required",
    routes=(
        Route("/databases/api/health", ListRag, None, health),
        Route("/databases/api/list", ListRag, ListRagResult, list_rag),
        Route("/databases/api/search", SearchRag, BothBranches, search_both),
    ),
    alias="/databases/mcp",
)
