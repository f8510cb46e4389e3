"""History reads as messages: `HistoryReadRequestData` and `HistoryReadResponseData` in tagged fields of Fetch.

Invariants: a broker of the previous version knows only the older format, a JSON list. So a request contains both formats, and a response has the
format of its request. An invalid request leads to an error code. Does not contain: the reads themselves (`history_reads`).
"""

from __future__ import annotations

import json

from brokerd.replication.history_reads import HistoryOperation, HistoryPosition, HistoryReadRequest
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.history import HistoryReadRequestData, HistoryReadResponseData

VERSION = 0
"""Version of the request and of the response."""
JSON_OPERATIONS = {
    HistoryOperation.READ: "read",
    HistoryOperation.TIME: "time",
    HistoryOperation.EPOCH: "epoch",
    HistoryOperation.RETAINED: "kept",
}


def put_request(part: FetchRequest.FetchPartition, q: HistoryReadRequest) -> None:
    """Write the request into the partition of a Fetch request, in both formats."""
    query = HistoryReadRequestData(q.handover_offset, q.operation, q.target, q.end_offset, q.log_start_floor)
    part.history_read = versioned.encode(query, VERSION)
    part.history_json = json.dumps(
        [q.handover_offset, JSON_OPERATIONS[q.operation], q.target, q.end_offset, q.log_start_floor]
    ).encode()


def request_of(part: FetchRequest.FetchPartition) -> HistoryReadRequestData | ErrorCode:
    """The history read in a partition of a Fetch request; its `operation` is a HistoryOperation. An invalid request returns the error code
    UNSUPPORTED_VERSION or INVALID_REQUEST."""
    try:
        if part.history_read:
            query = versioned.decode(HistoryReadRequestData, part.history_read, VERSION)
            query.operation = HistoryOperation(query.operation)
            return query
        return _from_json(part.history_json)
    except versioned.UnknownVersion:
        return ErrorCode.UNSUPPORTED_VERSION
    except (ValueError, RecursionError):
        return ErrorCode.INVALID_REQUEST


def _from_json(data: bytes) -> HistoryReadRequestData:
    values = json.loads(data)
    if not isinstance(values, list) or len(values) != 5:
        raise ValueError("no history read")
    handover_offset, word, target, end_offset, floor = values
    operation = next((o for o, w in JSON_OPERATIONS.items() if w == word), None)
    if operation is None or any(type(v) is not int for v in (handover_offset, target, end_offset, floor)):
        raise ValueError("no history read")
    return HistoryReadRequestData(handover_offset, operation, target, end_offset, floor)


def put_position(
    data: FetchResponse.PartitionData, requested: FetchRequest.FetchPartition, position: HistoryPosition
) -> None:
    """Write the found position into the response, in the format of the request."""
    if requested.history_read:
        data.history_read = versioned.encode(HistoryReadResponseData(*position), VERSION)
    else:
        data.history_json = json.dumps(position).encode()


def position_of(data: FetchResponse.PartitionData) -> HistoryPosition | None:
    """The position in the response of a history replica. None: the history replica found no position. Raises ValueError for invalid bytes."""
    if data.history_read:
        response = versioned.decode(HistoryReadResponseData, data.history_read, VERSION)
        return HistoryPosition(response.offset, response.timestamp, response.leader_epoch)
    if not data.history_json:
        return None
    values = json.loads(data.history_json)
    if not isinstance(values, list) or len(values) != 3 or any(type(v) is not int for v in values):
        raise ValueError("no position")
    return HistoryPosition(*values)
