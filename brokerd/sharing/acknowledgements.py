"""The acknowledgements of a request as ranges of offsets with one type each, after their checks. Pure. Does not contain: their effect (`share_partition`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType
from brokerd.wire.errors import ErrorCode

KINDS = {int(kind): kind for kind in AcknowledgeType}


class AcknowledgedRange(NamedTuple):
    """Offsets `first` to `last` (inclusive) with the same type."""

    first: int
    last: int
    kind: AcknowledgeType


def acknowledged_ranges(
    acknowledgements: Sequence[Acknowledgement], floor: int, end: int, *, renew: bool
) -> list[AcknowledgedRange] | ErrorCode:
    """The ranges from offset `floor` on. INVALID_REQUEST if the acknowledgements are not in the order of their offsets, reach `end`, have an unknown type,
    or renew locks without `renew`."""
    ranges: list[AcknowledgedRange] = []
    after = -1
    for a in acknowledgements:
        if a.first > a.last or a.first <= after or len(a.types) not in (1, a.last - a.first + 1):
            return ErrorCode.INVALID_REQUEST
        after = a.last
        if a.last >= end:
            return ErrorCode.INVALID_REQUEST
        for first, last, number in _ranges(a):
            kind = KINDS.get(number)
            if kind is None or (kind is AcknowledgeType.RENEW and not renew):
                return ErrorCode.INVALID_REQUEST
            if last >= floor:
                ranges.append(AcknowledgedRange(max(first, floor), last, kind))
    return ranges


def _ranges(acknowledgement: Acknowledgement) -> Iterator[tuple[int, int, int]]:
    """Offsets with the same type, as (first, last, type)."""
    if len(acknowledgement.types) == 1:
        yield acknowledgement.first, acknowledgement.last, acknowledgement.types[0]
        return
    since = 0
    for i in range(1, len(acknowledgement.types) + 1):
        if i == len(acknowledgement.types) or acknowledgement.types[i] != acknowledgement.types[since]:
            yield acknowledgement.first + since, acknowledgement.first + i - 1, acknowledgement.types[since]
            since = i
