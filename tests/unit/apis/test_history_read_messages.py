"""History reads as messages: both forms, brokers of the version before, and bytes that cannot be read."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.apis.history_read_messages import JSON_OPERATIONS, position_of, put_position, put_request, request_of
from brokerd.cluster.model import TopicPartition
from brokerd.replication.history_reads import HistoryOperation, HistoryPosition, HistoryReadRequest
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.history import HistoryReadRequestData, HistoryReadResponseData

TP = TopicPartition(UUID(int=1), 0)
Part, Data = FetchRequest.FetchPartition, FetchResponse.PartitionData


def part_with_request(operation: HistoryOperation) -> Part:
    part = Part()
    put_request(part, HistoryReadRequest(TP, 9, 2, operation, -2, 7))
    return part


@pytest.mark.parametrize("operation", HistoryOperation)
def test_a_request_is_read_as_it_was_written_in_both_formats(operation: HistoryOperation) -> None:
    part = part_with_request(operation)
    expected = HistoryReadRequestData(9, operation, -2, 7, 2)
    assert request_of(part) == expected
    part.history_read = b""
    assert request_of(part) == expected


@pytest.mark.parametrize("operation", HistoryOperation)
def test_a_broker_of_the_previous_version_reads_its_own_format(operation: HistoryOperation) -> None:
    handover_offset, what, at, upto, floor = json.loads(part_with_request(operation).history_json)
    assert (handover_offset, at, upto, floor) == (9, -2, 7, 2)
    assert what == {"READ": "read", "TIME": "time", "EPOCH": "epoch", "RETAINED": "kept"}[operation.name]


def test_the_response_has_the_format_of_the_request() -> None:
    found, data = HistoryPosition(5, 1_000, 3), Data()
    put_position(data, part_with_request(HistoryOperation.TIME), found)
    assert position_of(data) == found and not data.history_json
    data = Data()
    put_position(data, Part(history_json=b'[9,"time",-2,7,2]'), found)
    assert data.history_json == b"[5, 1000, 3]" and not data.history_read
    assert position_of(data) == found
    assert position_of(Data()) is None


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (Part(history_read=b"\x00"), ErrorCode.INVALID_REQUEST),
        (Part(history_read=b"\x00\x00\x01"), ErrorCode.INVALID_REQUEST),
        (Part(history_read=versioned.encode(HistoryReadRequestData(9, 99, 0, 0, 0), 0)), ErrorCode.INVALID_REQUEST),
        (Part(history_read=b"\x00\x01" + bytes(40)), ErrorCode.UNSUPPORTED_VERSION),
        (Part(history_json=b"{}"), ErrorCode.INVALID_REQUEST),
        (Part(history_json=b"[1]"), ErrorCode.INVALID_REQUEST),
        (Part(history_json=b'[9,"dance",0,7,2]'), ErrorCode.INVALID_REQUEST),
        (Part(history_json=b'[9,"read",null,7,2]'), ErrorCode.INVALID_REQUEST),
        (Part(history_json=b"[" * 100_000), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unreadable_request_is_answered_with_an_error_code(part: Part, error: ErrorCode) -> None:
    assert request_of(part) is error


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_a_request_or_an_error_code(data: bytes, typed: bool) -> None:
    found = request_of(Part(history_read=data) if typed else Part(history_json=data))
    assert isinstance(found, HistoryReadRequestData | ErrorCode)


def test_a_field_of_a_later_version_is_skipped() -> None:
    data = versioned.encode(HistoryReadResponseData(5, 1_000, 3), 0)
    assert data[-1] == 0, "no tagged field"
    assert position_of(Data(history_read=data[:-1] + b"\x01\x07\x01x")) == (5, 1_000, 3)


@pytest.mark.parametrize("data", [Data(history_json=b"[1]"), Data(history_json=b"no"), Data(history_read=b"\x00\x00")])
def test_an_unreadable_response_is_a_value_error(data: Data) -> None:
    with pytest.raises(ValueError):
        position_of(data)


def test_every_operation_has_a_name_in_the_previous_format() -> None:
    assert set(JSON_OPERATIONS) == set(HistoryOperation)
