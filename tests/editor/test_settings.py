"""What the tab gives, as settings among all others."""

from __future__ import annotations

import pytest

from sidecar.config import Source, load
from sidecar.editor import settings
from sidecar.editor.shapes import SettingsGiven
from sidecar.errors import BadArguments

KNOWN = ["notes", "library"]


def test_an_address_needs_a_provider_and_none_needs_none() -> None:
    config = load([])
    with pytest.raises(BadArguments, match="choose a provider first"):
        settings.values(SettingsGiven(baseUrl="http://127.0.0.1:9/v1"), config, KNOWN)
    assert settings.values(SettingsGiven(baseUrl=None), config, KNOWN) == {}
    chosen = load([Source("here", {"providers": {"openai": {"kind": "openai", "base_url": "https://example.com/v1"}}})])
    assert settings.values(SettingsGiven(baseUrl=None), chosen, KNOWN) == {
        "providers": {"openai": {"kind": "openai", "base_url": None}}
    }
