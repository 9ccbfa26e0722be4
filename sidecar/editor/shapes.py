"""Parameters of the methods. A test holds them against the protocol's schema."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sidecar.arguments import Shape


class Nothing(Shape):
    """No parameters."""


class SurfacesGiven(Shape):
    """Of `SettingsGiven`. What is not set in it stays as it is."""

    notes: bool = True
    library: bool = True
    databases: bool = True
    knowledge: bool = True


class SettingsGiven(Shape):
    """What a person changed in the editor; only what is set in it counts."""

    port: int | None = None
    allowWrites: bool = False
    surfaces: SurfacesGiven = SurfacesGiven()
    agentsFolder: str = Field(default="Agents", min_length=1, max_length=1024)
    provider: Literal["anthropic", "openai"] = "anthropic"
    baseUrl: str | None = Field(default=None, max_length=2048)
    model: str | None = Field(default=None, max_length=200)


class Start(Shape):
    """Of `start`."""

    settings: SettingsGiven = SettingsGiven()


class ConnectGet(Shape):
    """Of `connect/get`."""

    client: str = Field(max_length=64)
    transport: Literal["http", "stdio"] | None = None


class SetRemote(Shape):
    """Of `agents/setRemote`."""

    name: str = Field(min_length=1, max_length=200)
    on: bool


class RunAgent(Shape):
    """Of `agents/run`."""

    name: str = Field(min_length=1, max_length=200)
    task: str = Field(min_length=1, max_length=100_000)
    maxTurns: int | None = None
    client: str | None = Field(None, max_length=64)


class RunsList(Shape):
    """Of `runs/list`."""

    limit: int = Field(20, ge=1, le=500)


class SetKey(Shape):
    """Of `provider/setKey`."""

    provider: str = Field(min_length=1, max_length=64)
    key: str | None = Field(min_length=1, max_length=4096, repr=False)


class ProposalsList(Shape):
    """Of `proposals/list`."""

    all: bool = False


class OfId(Shape):
    """Of a method about one proposal or run: its id, or an ending of it."""

    id: str = Field(min_length=6, max_length=64)


class Apply(OfId):
    """Of `proposals/apply`."""

    seen: str


class Reject(OfId):
    """Of `proposals/reject`."""

    reason: str = Field("", max_length=2000)


class LogTail(Shape):
    """Of `log/tail`."""

    lines: int = Field(200, ge=1, le=1000)
