"""Time limits of the processes that the control plane starts for one response. A busy machine must not make a test fail."""

from __future__ import annotations

import pytest

from controlplane.clients import json_schema_checks, lake


@pytest.fixture(autouse=True)
def time_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test fails for a wrong response, never because a process waits for a processor."""
    monkeypatch.setattr(lake, "SECONDS_MAX", 300.0)
    monkeypatch.setattr(lake, "HISTORY_SECONDS_MAX", 300.0)
    monkeypatch.setattr(json_schema_checks, "RESPONSE_SECONDS", 300.0)
