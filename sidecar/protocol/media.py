"""What a client says about the kinds of content it sends and takes."""

from __future__ import annotations

from aiohttp import web


def is_json(content_type: str) -> bool:
    """Exactly JSON in UTF-8, which is all that `json_body` reads."""
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    return kind == "application/json" and all(part in ("", "charset=utf-8", 'charset="utf-8"') for part in parameters)


def accepted(request: web.BaseRequest) -> tuple[bool, bool]:
    """Whether the client takes (JSON, event streams). Without the header it takes anything (RFC 9110, 12.5.1)."""
    values = request.headers.getall("Accept", None)
    if values is None:
        return True, True
    kinds: set[str] = set()
    for part in ",".join(values).lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if not any(_is_zero(parameter) for parameter in parameters):
            kinds.add(kind)
    takes_json = not kinds.isdisjoint(("application/json", "application/*", "*/*"))
    return takes_json, not kinds.isdisjoint(("text/event-stream", "text/*", "*/*"))


def _is_zero(parameter: str) -> bool:
    """`q=0`, which means: not this one."""
    name, _, value = parameter.partition("=")
    return name == "q" and value.strip("0.") == ""
