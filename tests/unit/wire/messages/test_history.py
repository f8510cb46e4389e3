"""The bytes of history reads: brokers of the next version read them."""

from __future__ import annotations

from brokerd.wire import versioned
from brokerd.wire.messages.history import HistoryReadRequestData, HistoryReadResponseData


def test_the_bytes_of_a_history_read_request_are_stable() -> None:
    query = HistoryReadRequestData(9, 3, -2, 7, 2)
    numbers = (9).to_bytes(8, "big") + b"\x03" + (-2).to_bytes(8, "big", signed=True) + (7).to_bytes(8, "big")
    assert versioned.encode(query, 0) == b"\0\0" + numbers + (2).to_bytes(8, "big") + b"\0"


def test_the_bytes_of_a_history_read_response_are_stable() -> None:
    numbers = (5).to_bytes(8, "big") + (1_000).to_bytes(8, "big") + (3).to_bytes(4, "big")
    assert versioned.encode(HistoryReadResponseData(5, 1_000, 3), 0) == b"\0\0" + numbers + b"\0"
