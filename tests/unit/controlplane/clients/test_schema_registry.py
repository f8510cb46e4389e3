"""The client of the registry in the settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.clients.schema_registry import registry


def test_the_client_of_the_setting_is_kept(settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, schema_registry_url="")
    assert registry() is None
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:1")
    assert registry() is not None and registry() is registry()
