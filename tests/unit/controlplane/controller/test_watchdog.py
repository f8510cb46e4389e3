"""The watchdog of a controller: a loop that hangs ends the process, a suspended process does not."""

from __future__ import annotations

import os
from typing import Any

import pytest

from controlplane.controller import watchdog
from controlplane.controller.watchdog import WAKE_SECONDS, WatchedController


def run_watch(monkeypatch: pytest.MonkeyPatch, iterations: list[int], limit_s: float) -> list[int]:
    """The exit statuses after these counts of iterations, one per wake-up."""
    controller: Any = object.__new__(WatchedController)
    controller._stopping, controller.iterations = False, 0
    exits: list[int] = []
    left = list(iterations)

    def sleep(seconds: float) -> None:
        assert seconds == WAKE_SECONDS
        controller.iterations = left.pop(0)
        controller._stopping = not left

    def end(status: int) -> None:
        exits.append(status)
        controller._stopping = True

    monkeypatch.setattr(watchdog.time, "sleep", sleep)
    monkeypatch.setattr(watchdog.faulthandler, "dump_traceback", lambda **_: None)
    monkeypatch.setattr(os, "_exit", end)
    controller._watch(limit_s)
    return exits


@pytest.mark.parametrize(
    ("iterations", "exits"),
    [([1, 1, 1, 1, 1], [70]), ([1, 1, 1, 1], []), ([1, 1, 1, 2, 2, 2, 2], []), ([1, 2, 3, 4, 5, 6], [])],
)
def test_a_loop_without_turns_for_the_limit_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, iterations: list[int], exits: list[int]
) -> None:
    assert run_watch(monkeypatch, iterations, 4 * WAKE_SECONDS) == exits


@pytest.mark.parametrize(("iterations", "messages"), [([1, 2, 3, 4, 5, 6, 7], 2), ([1, 2, 2, 2, 2, 2, 2], 0)])
def test_the_service_manager_is_notified_while_the_loop_turns(
    monkeypatch: pytest.MonkeyPatch, iterations: list[int], messages: int
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(watchdog, "WAKES_PER_MESSAGE", 3)
    monkeypatch.setattr(watchdog, "notify_watchdog", lambda: sent.append(1))
    run_watch(monkeypatch, iterations, 10)
    assert len(sent) == messages


def test_each_turn_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    controller: Any = object.__new__(WatchedController)
    monkeypatch.setattr(watchdog.Controller, "run_iteration", lambda self: None)
    controller.run_iteration()
    controller.run_iteration()
    assert controller.iterations == 2
