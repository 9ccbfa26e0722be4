"""The tools that the conformance suites look for by name: content of every kind, notifications, questions.

Names, texts and schemas are the suites'. Results are wire dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    TextContent,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

Context = ServerRequestContext[Any, Any]
Wire = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of a tool, and the two things the tools can change about the server."""

    context: Context
    params: CallToolRequestParams
    tools_changed: Callable[[], Awaitable[None]]
    prompts_changed: Callable[[], Awaitable[None]]

    def answer(self, key: str) -> Any:
        """The client's answer to a question of an earlier round; None if it has not come."""
        return (self.params.input_responses or {}).get(key)

    def knows(self, **capability: Any) -> bool:
        """Whether the client declared a capability."""
        return self.context.session.check_client_capability(ClientCapabilities.model_validate(capability))

    async def log(self, line: str) -> None:
        """A log message on this call's own stream."""
        params = LoggingMessageNotificationParams(level="info", data=line)
        message = LoggingMessageNotification(params=params)
        await self.context.session.send_notification(message, related_request_id=self.context.request_id)


@dataclass(frozen=True)
class Tool:
    """What is listed, and what runs."""

    description: str
    run: Callable[[Call], Awaitable[Wire]]
    schema: Wire


TOOLS: dict[str, Tool] = {}


def tool(schema: Wire | None = None, **properties: Wire) -> Callable[[Callable[[Call], Awaitable[Wire]]], Any]:
    """Register a function as the tool of its name. `properties` are required arguments."""

    def register(run: Callable[[Call], Awaitable[Wire]]) -> Callable[[Call], Awaitable[Wire]]:
        own: Wire = {"type": "object", "properties": properties}
        if properties:
            own["required"] = list(properties)
        TOOLS[run.__name__] = Tool(run.__doc__ or "", run, schema or own)
        return run

    return register


def text(words: str) -> Wire:
    return {"type": "text", "text": words}


def content(*blocks: Wire) -> Wire:
    return {"content": list(blocks)}


def resource(uri: str, mime: str, words: str) -> Wire:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


# --- content ---

IMAGE: Wire = {"type": "image", "data": PNG, "mimeType": "image/png"}


@tool()
async def test_simple_text(call: Call) -> Wire:
    """A line of text."""
    return content(text("This is a simple text response for testing."))


@tool()
async def test_image_content(call: Call) -> Wire:
    """A picture."""
    return content(IMAGE)


@tool()
async def test_audio_content(call: Call) -> Wire:
    """A sound."""
    return content({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool()
async def test_embedded_resource(call: Call) -> Wire:
    """A resource."""
    return content(resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(call: Call) -> Wire:
    """Text, a picture and a resource."""
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return content(text("Multiple content types test:"), IMAGE, mixed)


@tool()
async def test_error_handling(call: Call) -> Wire:
    """Always fails."""
    return content(text("This tool intentionally returns an error for testing")) | {"isError": True}


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(call: Call) -> Wire:
    """Has a schema with keywords that are easily lost."""
    return content(text("called"))


# --- notifications while a call runs ---


@tool()
async def test_tool_with_logging(call: Call) -> Wire:
    """Sends three log messages."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(line)
    return content(text("Tool with logging executed successfully"))


@tool()
async def test_tool_with_progress(call: Call) -> Wire:
    """Reports progress three times."""
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100, f"Completed step {done} of 100")
    return content(text(str((call.context.meta or {}).get("progress_token", 0))))


@tool()
async def test_logging_tool(call: Call) -> Wire:
    """Has something to log, and keeps it to itself: nobody who calls it in the newest revision asked for logs."""
    return content(text("done"))


@tool()
async def test_trigger_tool_change(call: Call) -> Wire:
    """The list of tools has changed."""
    await call.tools_changed()
    return content(text("changed"))


@tool()
async def test_trigger_prompt_change(call: Call) -> Wire:
    """The list of prompts has changed."""
    await call.prompts_changed()
    return content(text("changed"))


# --- requests to the client, up to 2025-11-25 ---


async def elicit(call: Call, message: str, properties: Wire, required: list[str]) -> Wire:
    schema = {"type": "object", "properties": properties, "required": required}
    result = await call.context.session.elicit_form(message, schema, call.context.request_id)
    return content(text(f"Elicitation completed: action={result.action}, content={json.dumps(result.content)}"))


@tool(prompt={"type": "string", "description": "What to ask the model."})
async def test_sampling(call: Call) -> Wire:
    """Asks the client's model."""
    request = CreateMessageRequest.model_validate(sampling((call.params.arguments or {})["prompt"]))
    here = ServerMessageMetadata(related_request_id=call.context.request_id)
    result = await call.context.session.send_request(request, CreateMessageResult, metadata=here)
    assert isinstance(result.content, TextContent)
    return content(text(f"LLM response: {result.content.text}"))


@tool(message={"type": "string", "description": "What to show the person."})
async def test_elicitation(call: Call) -> Wire:
    """Asks the person."""
    fields = {"response": {"type": "string", "description": "User's response"}}
    return await elicit(call, (call.params.arguments or {})["message"], fields, ["response"])


@tool()
async def test_elicitation_sep1034_defaults(call: Call) -> Wire:
    """Asks with a default for every primitive type."""
    fields = {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    }
    return await elicit(call, "Please check these", fields, [])


@tool()
async def test_elicitation_sep1330_enums(call: Call) -> Wire:
    """Asks with every form of a choice."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit(call, "Please choose", fields, [])


# --- questions to the client as results, from 2026-07-28 on ---


def question(message: str, **properties: str) -> Wire:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sampling(words: str) -> Wire:
    message = {"role": "user", "content": text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


ROOTS: Wire = {"method": "roots/list", "params": {}}
NAME = question("What is your name?", name="string")


def more(state: str | None = None, **questions: Wire) -> Wire:
    """The result that asks for input first. `state` comes back with the answers."""
    return {"resultType": "input_required", "inputRequests": questions} | ({"requestState": state} if state else {})


def asking(name: str, doc: str, state: str | None, questions: Mapping[str, Wire], last: str) -> None:
    """Register a tool that asks once and is done when every answer is there."""

    async def run(call: Call) -> Wire:
        if any(call.answer(key) is None for key in questions) or (state and call.params.request_state != state):
            return more(state, **questions)
        return content(text(last))

    run.__name__, run.__doc__ = name, doc
    tool()(run)


asking("test_input_required_result_elicitation", "Asks for a name.", None, {"user_name": NAME}, "Hello!")
asking("test_streaming_elicitation", "Asks for a name.", None, {"user_name": NAME}, "Hello!")
asking(
    "test_input_required_result_sampling",
    "Asks the client's model.",
    None,
    {"capital_question": sampling("What is the capital of France?")},
    "Thanks.",
)
asking("test_input_required_result_list_roots", "Asks for the roots.", None, {"client_roots": ROOTS}, "Thanks.")
asking(
    "test_input_required_result_multiple_inputs",
    "Asks three things at once.",
    "three",
    {"user_name": NAME, "greeting": sampling("Generate a greeting"), "client_roots": ROOTS},
    "Thanks.",
)
for _name in ("test_input_required_result_request_state", "test_input_required_result_tampered_state"):
    _confirm = {"confirm": question("Please confirm", ok="boolean")}
    asking(_name, "Wants its own state back.", "confirming", _confirm, "state-ok")


@tool()
async def test_input_required_result_multi_round(call: Call) -> Wire:
    """Asks twice, one thing after the other."""
    match call.params.request_state:
        case "second" if call.answer("step2") is not None:
            return content(text("Thanks."))
        case "first" | "second" if call.answer("step1") is not None:
            return more("second", step2=question("Step 2: What is your favorite color?", color="string"))
        case _:
            return more("first", step1=question("Step 1: What is your name?", name="string"))


@tool()
async def test_input_required_result_capabilities(call: Call) -> Wire:
    """Asks only what the client said it can answer."""
    questions = {"user_name": NAME} if call.knows(elicitation={}) else {}
    if call.knows(sampling={}):
        questions["greeting"] = sampling("Generate a greeting")
    return more(**questions) if questions else content(text("Nothing to ask."))


@tool()
async def test_missing_capability(call: Call) -> Wire:
    """Can't work without the client's model."""
    if not call.knows(sampling={}):
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling.", needed)
    return content(text("done"))


@tool({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
async def test_custom_header(call: Call) -> Wire:
    """Wants an argument in a header as well."""
    return content(text("done"))
