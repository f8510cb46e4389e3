"""The loop that runs a broker's iterations: errors that no component handles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.runtime.broker import BrokerServer
from brokerd.storage.disk import DiskFailed


def test_an_io_error_that_ends_the_process_is_recorded_first() -> None:
    doubts: list[str] = []

    def raise_disk_failed() -> None:
        raise DiskFailed("truncating: Input/output error")

    broker: Any = SimpleNamespace(
        stopped=False,
        loop=SimpleNamespace(begin=lambda: None, run_iteration=raise_disk_failed),
        identity=SimpleNamespace(tail_in_doubt=lambda: doubts.append("in doubt")),
        _watchdog=SimpleNamespace(start=lambda: None),
    )
    with pytest.raises(DiskFailed):
        BrokerServer.run(broker)
    assert doubts == ["in doubt"]
