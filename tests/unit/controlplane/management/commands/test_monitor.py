"""The command `monitor`: it monitors until a signal ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from controlplane.management.commands import monitor as command
from controlplane.monitoring import monitor
from tests.unit.controlplane.management.commands.local_cluster import run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_monitor_is_stopped_by_a_signal(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[[], None]] = {}
    calls: list[str] = []

    def start() -> None:
        calls.append("start")
        handlers[number]()

    monkeypatch.setattr(command, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=handlers.__setitem__))
    fake = SimpleNamespace(start=start, stop=lambda: calls.append("stop"))
    monkeypatch.setattr(monitor, "build", lambda address, hub: fake)
    run("monitor", "--skip-checks")
    assert calls == ["start", "stop"]
