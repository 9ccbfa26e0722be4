"""The conversation of one run with a model, over the library that speaks the providers' protocols.

Slow to import, by the seconds that the provider's own library takes: only a run
does, in a thread. What the library would do by itself is switched off here: it
neither retries, follows redirects, looks for keys or hosts in the environment,
nor sends anything but the request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx2
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from sidecar import __version__
from sidecar.services.agents.definition import Definition, flat
from sidecar.services.agents.provider import Target
from sidecar.services.agents.secrets import scrub
from sidecar.services.agents.toolbox import ToolAnswer, ToolCall, ToolSpec
from sidecar.services.agents.turns import Trouble, Turn

if TYPE_CHECKING:
    from httpx2 import Request, Response

logger = logging.getLogger(__name__)

MOST_ANSWER_BYTES: Final = 8 << 20
_MOST_MESSAGE: Final = 300
# Anthropic wants a limit with every request; an answer that is given out in whole fits in this one
_ANTHROPIC_TOKENS: Final = 16_000
_NO_KEY: Final = "none"  # the libraries insist on one; it is not sent
_SENT: Final = frozenset(
    {"host", "connection", "accept", "content-type", "content-length", "anthropic-version", "anthropic-beta"}
)
"""The headers that a request keeps. The libraries add what they find in the environment, and facts of this computer."""

_CONNECT_S: Final = 10.0


class Conversation:
    """Open one with the persona and the task, and close it. Blocks while it is made."""

    def __init__(self, target: Target, agent: Definition, task: str) -> None:
        self._target = target
        self._wire = _Wire(target)
        self._model = _openai(target, self._wire) if target.kind == "openai" else _anthropic(target, self._wire)
        # each library has a variable by which it would log whole requests
        logging.getLogger(target.kind).setLevel(logging.WARNING)
        self._settings = ModelSettings()
        if agent.temperature is not None:
            self._settings["temperature"] = agent.temperature
        if agent.max_tokens is not None or target.kind == "anthropic":
            self._settings["max_tokens"] = agent.max_tokens or _ANTHROPIC_TOKENS
        self._said: list[ModelMessage] = [
            ModelRequest(parts=[SystemPromptPart(content=agent.persona), UserPromptPart(content=task)])
        ]

    async def ask(self, tools: Sequence[ToolSpec]) -> Turn:
        """Send all that was said and the tools; what the model says to it is part of the conversation from then on.

        Raises:
            Trouble: no answer came.
        """
        definitions = [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=dict(tool.schema),
                strict=False,  # the strict mode of some providers allows only part of what our schemas say
            )
            for tool in tools
        ]
        parameters = ModelRequestParameters(function_tools=definitions, allow_text_output=True)
        self._wire.refusal = None
        try:
            answer = await model_request(
                self._model, self._said, model_settings=self._settings, model_request_parameters=parameters
            )
        except (AgentRunError, UserError) as failed:
            raise self._trouble(failed) from None  # its text may hold all of the request
        except Exception as failed:  # the library's own mistakes, when an answer is of no form that it expects
            logger.warning("an answer of a provider can't be understood: %s", type(failed).__name__)
            raise Trouble("the provider's answer can't be understood") from None
        self._said.append(answer)
        text = "".join(part.content for part in answer.parts if isinstance(part, TextPart))
        calls = tuple(_call(part) for part in answer.parts if isinstance(part, ToolCallPart))
        return Turn(text, calls, answer.usage.input_tokens, answer.usage.output_tokens)

    def give(self, answers: Sequence[tuple[ToolCall, ToolAnswer]]) -> None:
        """What came of the calls of the last turn; each one must have its answer."""
        self._said.append(
            ModelRequest(
                parts=[
                    ToolReturnPart(
                        tool_name=call.name,
                        content=answer.text,
                        tool_call_id=call.call_id,
                        outcome="failed" if answer.failed else "success",
                    )
                    for call, answer in answers
                ]
            )
        )

    async def close(self) -> None:
        """End the connection."""
        await self._wire.client.aclose()

    def _trouble(self, failed: AgentRunError | UserError) -> Trouble:
        if self._wire.refusal is not None:
            return Trouble(self._wire.refusal)
        if isinstance(failed, ModelHTTPError):
            status = failed.status_code
            message = self._message(failed.body)
            text = f"the provider answered {status}" + (f" ({message})" if message else "")
            return Trouble(text, may_pass=status in (408, 429) or status >= 500, retry_after_s=failed.retry_after)
        if isinstance(failed, ModelConnectionError):
            reached = failed.phase != "connect"
            text = "the connection to the provider broke" if reached else "the provider can't be reached"
            return Trouble(text, may_pass=True)
        if isinstance(failed, ModelAPIError):
            message = self._message(failed.body)
            return Trouble("the provider reports an error" + (f" ({message})" if message else ""))
        return Trouble("the provider's answer can't be understood")

    def _message(self, body: object) -> str:
        """The short message in the body of an error, whatever the provider wraps it in."""
        for key in ("error", "message"):
            if isinstance(body, Mapping) and key in body:
                body = cast("Mapping[str, object]", body)[key]
        if not isinstance(body, str) or body.lstrip().startswith("<"):  # a page for a browser
            return ""
        key = self._target.key
        return flat(scrub(body, [key.value] if key is not None else ()))[:_MOST_MESSAGE].rstrip(" .")


def _call(part: ToolCallPart) -> ToolCall:
    given: Any = part.args
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            given = None
    elif given is None:
        given = {}
    arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else None
    return ToolCall(part.tool_call_id, part.tool_name, arguments)


class _Wire:
    """The HTTP client of a conversation, and what it refused by itself."""

    def __init__(self, target: Target) -> None:
        self.refusal: str | None = None
        self._target = target
        self.client = httpx2.AsyncClient(
            trust_env=target.use_proxy,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),  # the turn has a limit of its own
            event_hooks={"request": [self._before], "response": [self._after]},
        )

    async def _before(self, request: Request) -> None:
        for name in [name for name in request.headers if name.lower() not in _SENT]:
            del request.headers[name]
        request.headers["User-Agent"] = f"vault-sidecar/{__version__}"
        request.headers["Accept-Encoding"] = "identity"
        if self._target.key is None:
            return
        if self._target.kind == "anthropic":  # behind "Bearer" it takes tokens of another kind alone
            request.headers["X-Api-Key"] = self._target.key.value
        else:
            request.headers["Authorization"] = f"Bearer {self._target.key.value}"

    async def _after(self, response: Response) -> None:
        if response.is_redirect:
            self.refusal = f"the provider answered {response.status_code} (redirects are not followed)"
        if response.headers.get("content-encoding", "identity") != "identity":
            self.refuse("the provider's answer is compressed, which was not asked for")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        response.stream = _Limited(stream, self)

    def refuse(self, reason: str) -> None:
        """End the request for a reason of ours."""
        self.refusal = reason
        raise httpx2.ReadError(reason)


class _Limited(httpx2.AsyncByteStream):
    """A body that ends in an error where it is longer than any answer."""

    def __init__(self, stream: httpx2.AsyncByteStream, wire: _Wire) -> None:
        self._stream = stream
        self._wire = wire

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > MOST_ANSWER_BYTES:
                self._wire.refuse(f"the provider's answer is larger than {MOST_ANSWER_BYTES >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stream.aclose()


def _openai(target: Target, wire: _Wire) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    key = target.key.value if target.key is not None else _NO_KEY
    client = AsyncOpenAI(api_key=key, base_url=target.base_url, http_client=wire.client, max_retries=0)
    # OpenAI's own name for the limit of tokens is newer than what most of the others understand
    is_openai = urlsplit(target.base_url).hostname == "api.openai.com"
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=is_openai)
    provider = OpenAICompatibleProvider(target.provider, openai_client=client, profile=profile)
    return OpenAIChatModel(target.model, provider=provider)


def _anthropic(target: Target, wire: _Wire) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    key = target.key.value if target.key is not None else _NO_KEY
    client = AsyncAnthropic(api_key=key, base_url=target.base_url, http_client=wire.client, max_retries=0)
    return AnthropicModel(target.model, provider=AnthropicProvider(anthropic_client=client))
