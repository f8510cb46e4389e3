"""Merges the pending delayed messages of all partitions into one list and one histogram. Pure.

Invariant: pages are in the order (delivery time, partition, offset), without a gap between the first and the last row. Does not contain: the queries
to the leaders (`selectors.delayed_messages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from brokerd.delivery.delay_schedule import BUCKET_MS
from controlplane.domain.errors import Rejected
from controlplane.domain.times import utc_of_ms

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SPANS: tuple[tuple[str, int], ...] = (
    ("Within 1 minute", MINUTE_MS),
    ("Within about 10 minutes", 10 * MINUTE_MS),
    ("Within about 1 hour", HOUR_MS),
    ("Within about 6 hours", 6 * HOUR_MS),
    ("Within about 1 day", DAY_MS),
    ("Within about 7 days", 7 * DAY_MS),
    ("Within about 30 days", 30 * DAY_MS),
)
OVERDUE, LATER = "Due now", "Later"
OFFSET_MAX = 2**63 - 1
"""The maximum offset, and the maximum time: both are int64 in the protocol."""
Place = tuple[int, int, int]
"""(delivery time, partition, offset) of a row."""


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """Pending records with delivery times from `from_ms` to below `to_ms`. None: unbounded. `percent`: of the largest bar."""

    label: str
    from_ms: int | None
    to_ms: int | None
    records: int
    percent: int = 0

    @property
    def until(self) -> datetime | None:
        return None if self.to_ms is None else utc_of_ms(self.to_ms)


def histogram_bounds(now_ms: int) -> list[int]:
    """The ascending bounds of the histogram. They are whole seconds, and after the first minute whole buckets of the leaders' counts."""
    second = now_ms // 1000 * 1000
    first, *later = (span for _, span in SPANS)
    return [second, second + first, *(-(-(now_ms + span) // BUCKET_MS) * BUCKET_MS for span in later)]


def histogram(bounds: Sequence[int], counts: Iterable[Sequence[int]]) -> list[HistogramBar]:
    """`counts` are the counts of each partition: one number more than there are bounds."""
    totals = [sum(column) for column in zip(*counts, strict=True)] or [0] * (len(bounds) + 1)
    most = max(totals)
    labels = (OVERDUE, *(label for label, _ in SPANS), LATER)
    edges: list[int | None] = [None, *bounds, None]
    return [
        HistogramBar(label, low, high, records, _percent(records, most))
        for label, (low, high), records in zip(labels, pairwise(edges), totals, strict=True)
    ]


def _percent(records: int, most: int) -> int:
    """Return the height of a bar in per cent, at least 1 for a bar that is not empty."""
    return max(1, records * 100 // most) if records else 0


def token_of(place: Place | None) -> str:
    return "" if place is None else ".".join(map(str, place))


def place_of(token: str) -> Place | None:
    """Raises Rejected for a text that `token_of` did not return."""
    if not token:
        return None
    parts = token.split(".")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts):
        raise Rejected("The token is invalid; use the token of the previous response.", "token")
    at, partition, offset = map(int, parts)
    if max(at, offset) > OFFSET_MAX:
        raise Rejected("The token is invalid; use the token of the previous response.", "token")
    return at, partition, offset


def continue_after(place: Place | None, partition: int) -> tuple[int, int]:
    """The position in this partition after which its next rows follow: (delivery time, offset)."""
    if place is None:
        return -1, -1
    at, of, offset = place
    if partition == of:
        return at, offset
    return (at, OFFSET_MAX) if partition < of else (at, -1)


def page(
    rows: Iterable[Place], following: Mapping[int, tuple[int, int]], limit: int
) -> tuple[list[Place], Place | None]:
    """The first rows of all partitions, and the place that continues; None at the end. `following`: of the partitions that have more, the place after
    which their next rows are."""
    ends = [(at, partition, offset) for partition, (at, offset) in following.items()]
    bound = min(ends, default=None)
    shown = sorted(r for r in rows if bound is None or r <= bound)
    if len(shown) > limit:
        shown = shown[:limit]
        return shown, shown[-1]
    return shown, bound
