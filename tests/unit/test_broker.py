"""The loop around a broker's turns: what no part of it answers for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.broker import Broker
from brokerd.storage.disk import DiskFailed


def test_an_io_error_that_ends_the_process_puts_the_tail_in_doubt_first() -> None:
    doubts: list[str] = []

    def turn() -> None:
        raise DiskFailed("truncating: Input/output error")

    broker: Any = SimpleNamespace(
        stopped=False,
        loop=SimpleNamespace(turn=turn),
        identity=SimpleNamespace(tail_in_doubt=lambda: doubts.append("in doubt")),
        _watchdog=lambda: None,
    )
    with pytest.raises(DiskFailed):
        Broker.run(broker)
    assert doubts == ["in doubt"]
