"""The command `monitor`: it monitors until a signal ends it, or until it has lost its lock."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError

from controlplane.management.commands import monitor as command
from controlplane.monitoring import monitor
from tests.unit.controlplane.management.commands.local_cluster import run


@pytest.mark.django_db  # the lock is in the database, where that is PostgreSQL
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_monitor_is_stopped_by_a_signal(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[[], None]] = {}
    calls: list[str] = []

    def start() -> None:
        calls.append("start")
        handlers[number]()

    monkeypatch.setattr(command, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=handlers.__setitem__))
    fake = SimpleNamespace(start=start, stop=lambda: calls.append("stop"), iterations=0)
    monkeypatch.setattr(monitor, "build", lambda address, hub: fake)
    run("monitor", "--skip-checks")
    assert calls == ["start", "stop"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    fake = SimpleNamespace(start=lambda: done.append("start"), stop=lambda: done.append("stop"), iterations=0)
    monkeypatch.setattr(command, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=lambda *_: None))
    monkeypatch.setattr(command, "LOCK_SECONDS", 0.001)
    monkeypatch.setattr(monitor, "build", lambda address, hub: fake)
    return done


def test_a_standby_process_starts_when_it_acquires_the_lock_and_ends_when_it_loses_the_lock(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    responses = {"acquire": [False, False, True], "is_held": [True, False]}

    def respond(name: str) -> bool:
        calls.append(name)
        return responses[name].pop(0)

    monkeypatch.setattr(command.ProcessLock, "acquire", lambda lock: respond("acquire"))
    monkeypatch.setattr(command.ProcessLock, "is_held", lambda lock: respond("is_held"))
    with pytest.raises(CommandError, match="lock in the database was lost"):
        run("monitor", "--skip-checks")
    assert calls == ["acquire"] * 3 + ["start", "is_held", "is_held", "stop"]


def test_a_process_on_standby_ends_by_a_signal(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[[], None]] = {}
    monkeypatch.setattr(command, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=handlers.__setitem__))

    def reject(lock: object) -> bool:
        handlers[15]()
        return False

    monkeypatch.setattr(command.ProcessLock, "acquire", reject)
    run("monitor", "--skip-checks")
    assert calls == []


def test_the_service_manager_is_notified_on_standby_and_while_the_monitor_makes_progress(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations = iter([1, 2, 2, 2])
    acquired = iter([False, True])

    class Progress:
        start = stop = staticmethod(lambda: None)
        iterations = 0

    progress = Progress()

    def is_held(lock: object) -> bool:
        progress.iterations = next(iterations, 0)
        calls.append("is_held")
        return progress.iterations > 0

    monkeypatch.setattr(monitor, "build", lambda address, hub: progress)
    monkeypatch.setattr(command.ProcessLock, "acquire", lambda lock: next(acquired))
    monkeypatch.setattr(command.ProcessLock, "is_held", is_held)
    monkeypatch.setattr(command, "notify_watchdog", lambda: calls.append("notified"))
    with pytest.raises(CommandError):
        run("monitor", "--skip-checks")
    assert calls == [
        "notified",
        "is_held",
        "notified",
        "is_held",
        "notified",
        "is_held",
        "is_held",
        "is_held",
        "notified",
    ]
