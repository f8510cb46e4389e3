"""The stored forms of an offset reset. (The property test of all forms of a partition is in `test_offset_reset`.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset_json import (
    differences_from_json,
    differences_to_json,
    errors_from_json,
    errors_to_json,
    rows_from_json,
    rows_to_json,
)
from controlplane.domain.offset_reset_types import (
    CommittedOffset,
    LimitedBy,
    PartitionReset,
    ReportedDifference,
    RowProblem,
)

ROWS = (
    PartitionReset(
        "orders", 0, CommittedOffset(50, 3, "m"), CommittedOffset(10), 10, 99, LimitedBy.LOG_START, replayed=40
    ),
    PartitionReset("orders", 1, None, None, problem=RowProblem.NO_LEADER),
)
DIFFERENCES = (ReportedDifference("orders", 0, 50, 60), ReportedDifference("orders", 1, None, 7))
ERRORS = {("a-b", 10): ErrorCode.OFFSET_METADATA_TOO_LARGE, ("a-b", 9): ErrorCode.GROUP_ID_NOT_FOUND}


def json_round_trip(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_a_stored_reset_reads_back() -> None:
    assert rows_from_json(json_round_trip(rows_to_json(ROWS))) == ROWS
    assert differences_from_json(json_round_trip(differences_to_json(DIFFERENCES))) == DIFFERENCES
    assert errors_from_json(json_round_trip(errors_to_json(ERRORS))) == ERRORS


def test_stored_forms_are_short_and_readable() -> None:
    assert rows_to_json(ROWS)[1] == ["orders", 1, None, None, None, None, "", "no_leader", None, None, 0, None, False]
    assert differences_to_json(DIFFERENCES) == [["orders", 0, 50, 60], ["orders", 1, None, 7]]
    assert list(errors_to_json(ERRORS).items()) == [
        ("a-b-9", "GROUP_ID_NOT_FOUND"),
        ("a-b-10", "OFFSET_METADATA_TOO_LARGE"),
    ]


@pytest.mark.parametrize("data", [[["orders", 0, 1]], [["orders", 0, *[None] * 4, "sideways", *[None] * 6]]])
def test_a_partition_that_does_not_fit_is_a_value_error(data: Any) -> None:
    with pytest.raises(ValueError):
        rows_from_json(data)


@pytest.mark.parametrize("data", [{"orders-0": "NO_SUCH_CODE"}, {"orders": "NONE"}])
def test_an_unknown_error_or_partition_is_a_value_error(data: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        errors_from_json(data)
