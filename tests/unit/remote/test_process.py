"""The broker's side of a real helper process: responses, a killed helper, a time-out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerd.net.loop import Loop
from brokerd.remote.frames import HelperError
from brokerd.remote.process import HelperProcess


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def turn_until(loop: Loop, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        loop.run_iteration()


def test_a_killed_helper_is_started_again_and_every_request_is_answered_once(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    settings = {
        "url": f"file://{tmp_path}/store",
        "cache": str(tmp_path / "cache"),
        "cache_bytes": 1 << 20,
        "copy_rate": 1 << 40,
        "fetch_rate": 1 << 40,
    }
    helper = HelperProcess(loop, lambda: settings)
    responses: list[tuple[HelperError, Any]] = []

    def request_names(timeout_ms: int = 60_000) -> None:
        helper.request("names", {"prefix": "a/"}, timeout_ms, lambda error, value: responses.append((error, value)))

    request_names()
    turn_until(loop, lambda: responses)
    assert responses[0][0] is HelperError.NO_RESPONSE, "the process is not started yet"
    turn_until(loop, lambda: helper.starts == 1)
    request_names()
    turn_until(loop, lambda: len(responses) == 2)
    assert responses[1] == (HelperError.NONE, [])
    assert helper.process is not None
    os.kill(helper.process.pid, signal.SIGSTOP)
    request_names(timeout_ms=1)
    turn_until(loop, lambda: len(responses) == 3)
    assert responses[2] == (HelperError.NO_RESPONSE, "time-out")
    request_names()
    os.kill(helper.process.pid, signal.SIGKILL)
    turn_until(loop, lambda: len(responses) == 4)
    assert responses[3][0] is HelperError.NO_RESPONSE
    turn_until(loop, lambda: helper.starts == 2)
    request_names()
    turn_until(loop, lambda: len(responses) == 5)
    assert responses[4] == (HelperError.NONE, [])
    last = helper.process
    helper.close()
    last.wait(30)
