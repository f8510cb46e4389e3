"""Messages with their version in front."""

from __future__ import annotations

import pytest

from brokerd.wire import versioned
from brokerd.wire.messages.history import HistoryReadResponseData


def test_a_message_is_read_as_it_was_written() -> None:
    data = versioned.encode(HistoryReadResponseData(5, 6, 7), 0)
    assert data[:2] == b"\0\0"
    assert versioned.decode(HistoryReadResponseData, data, 0) == HistoryReadResponseData(5, 6, 7)


@pytest.mark.parametrize("version", [-1, 1, 32_767])
def test_an_unknown_version_is_named(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + bytes(30)
    with pytest.raises(versioned.UnknownVersion, match=f"version {version}"):
        versioned.decode(HistoryReadResponseData, data, 0)


def test_a_truncated_message_is_a_value_error() -> None:
    data = versioned.encode(HistoryReadResponseData(5, 6, 7), 0)
    for length in range(len(data)):
        with pytest.raises(ValueError, match="cut off"):
            versioned.decode(HistoryReadResponseData, data[:length], 0)
