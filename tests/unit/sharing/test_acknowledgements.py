"""The ranges of the acknowledgements of a request, and the requests that are invalid."""

from __future__ import annotations

import pytest

from brokerd.sharing.acknowledgements import AcknowledgedRange, acknowledged_ranges
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType
from brokerd.wire.errors import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def test_adjacent_offsets_with_the_same_type_are_one_range() -> None:
    given = [Acknowledgement(3, 6, (ACCEPT, ACCEPT, RELEASE, ACCEPT)), Acknowledgement(8, 9, (REJECT,))]
    assert acknowledged_ranges(given, 0, 10, renew=False) == [
        AcknowledgedRange(3, 4, ACCEPT),
        AcknowledgedRange(5, 5, RELEASE),
        AcknowledgedRange(6, 6, ACCEPT),
        AcknowledgedRange(8, 9, REJECT),
    ]


def test_offsets_below_the_floor_have_no_range() -> None:
    assert acknowledged_ranges([Acknowledgement(0, 4, (ACCEPT,))], 3, 10, renew=False) == [
        AcknowledgedRange(3, 4, ACCEPT)
    ]
    assert acknowledged_ranges([Acknowledgement(0, 2, (ACCEPT,))], 3, 10, renew=False) == []


@pytest.mark.parametrize(
    "wrong",
    [
        [Acknowledgement(4, 3, (ACCEPT,))],
        [Acknowledgement(3, 4, (ACCEPT,)), Acknowledgement(4, 5, (ACCEPT,))],
        [Acknowledgement(3, 5, (ACCEPT, ACCEPT))],
        [Acknowledgement(3, 10, (ACCEPT,))],
        [Acknowledgement(3, 4, (7,))],
        [Acknowledgement(3, 4, (RENEW,))],
    ],
    ids=["empty range", "overlap", "number of types", "beyond the end", "unknown type", "renewal"],
)
def test_an_invalid_request_has_no_ranges(wrong: list[Acknowledgement]) -> None:
    assert acknowledged_ranges(wrong, 0, 10, renew=False) is ErrorCode.INVALID_REQUEST


def test_a_request_that_may_renew_has_a_range_for_it() -> None:
    assert acknowledged_ranges([Acknowledgement(3, 4, (RENEW,))], 0, 10, renew=True) == [AcknowledgedRange(3, 4, RENEW)]
