"""The watchdog's thread: a hanging event loop ends the process; a stopping broker is left alone."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.runtime import watchdog_thread
from brokerd.runtime.watchdog import Watchdog, WatchdogVerdict
from brokerd.runtime.watchdog_thread import EXIT_STATUS, WatchdogThread


def run_watch(
    patch: pytest.MonkeyPatch, verdicts: list[WatchdogVerdict], *, stopping: bool = False
) -> tuple[list[int], list[str]]:
    """Run the watch with these verdicts. Returns the exit statuses and the logged phrases."""
    life_cycle: Any = SimpleNamespace(stopping=stopping, stopped=False)
    exits: list[int] = []
    logged: list[str] = []
    left = iter(verdicts)

    def check(self: Watchdog, now_ms: int, progress: int, cpu_ms: int) -> WatchdogVerdict:
        verdict = next(left)
        life_cycle.stopped = len(checked) + 1 == len(verdicts)
        checked.append(verdict)
        return verdict

    checked: list[WatchdogVerdict] = []
    patch.setattr(Watchdog, "check", check)
    patch.setattr(time, "sleep", lambda seconds: None)
    patch.setattr(os, "_exit", exits.append)
    for level in ("warning", "critical"):
        patch.setattr(watchdog_thread.log, level, lambda message, *a: logged.append(message.partition(":")[0]))
    loop: Any = SimpleNamespace(progress=1)
    WatchdogThread(loop, life_cycle, 30_000)._watch(threading.get_ident())
    return exits, logged


def test_a_hanging_loop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    exits, logged = run_watch(monkeypatch, [WatchdogVerdict.WORKS, WatchdogVerdict.HANGS])
    assert exits == [EXIT_STATUS]
    assert logged == ["event loop iteration is slow", "event loop hangs, process exits"]


def test_a_slow_turn_is_reported_once_until_the_loop_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, works = WatchdogVerdict.SLOW, WatchdogVerdict.WORKS
    exits, logged = run_watch(monkeypatch, [slow, slow, slow, works, slow])
    assert not exits and logged == ["event loop iteration is slow"] * 2


def test_a_controlled_shutdown_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_watch(monkeypatch, [WatchdogVerdict.HANGS] * 2, stopping=True) == ([], [])
