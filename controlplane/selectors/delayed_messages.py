"""Pending delayed messages of a topic, read from the leaders of its front partitions, because no other process knows them.

Invariants: a read waits at most some seconds, and names the partitions that are missing. Rows have offsets and times, no keys or values: no permission
to read records is needed. Does not contain: permissions for look-ups by key, cancellations (`services.delayed_messages`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from brokerd.cluster.configs import DELAY_TOPIC, delay_topic_name
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients import delayed_messages as client
from controlplane.clients.connection import KafkaConnection
from controlplane.domain import delayed_messages as domain
from controlplane.domain.delayed_messages import HistogramBar
from controlplane.domain.errors import Rejected
from controlplane.domain.times import utc_of_ms
from controlplane.selectors.front_leaders import (
    LeaderProblem,
    MissingPartition,
    front_of,
    leader_responses,
    leaders_of,
    topic_with_front,
)
from weir_common.phrases import sentence

ROWS_MAX = 500
"""Maximum number of rows of one look-up."""
ROWS_FIRST = 50
KEY_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a key in a query."""
DURATION_MS = 2_000
"""Time of one look-up in one partition."""


@dataclass(frozen=True, slots=True)
class DelayedPartition:
    """`pending`: records that are not due yet; cancelled ones count until their time. `delivered`, `cancelled`, `discarded`: since the current leader
    leads. `blocked`: the error of the last delivery, if it was not accepted."""

    partition: int
    pending: int
    earliest_at: datetime | None
    delivered: int
    cancelled: int
    discarded: int
    blocked: str = ""
    due: int = 0
    """Records whose time has come and that are not delivered yet."""
    overdue_ms: int = 0
    """Time since the delivery time of the first record that is not delivered; 0 before that time."""


@dataclass(frozen=True, slots=True)
class DelayedMessages:
    """The values of the partitions that answered. `histogram`: pending records by the time until their delivery; its times after the first minutes
    are rounded to ten minutes."""

    topic: str
    front_topic: str
    pending: int = 0
    earliest_at: datetime | None = None
    histogram: list[HistogramBar] = field(default_factory=list)
    partitions: list[DelayedPartition] = field(default_factory=list)
    missing: list[MissingPartition] = field(default_factory=list)
    overdue_ms: int = 0
    """The greatest of the partitions."""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A pending delayed record. `due_in_ms`: negative if it is overdue. `cancelled`: a tombstone cancels it; it is removed at its time."""

    partition: int
    offset: int
    deliver_at_ms: int
    deliver_at: datetime
    due_in_ms: int
    cancelled: bool

    @property
    def overdue_ms(self) -> int:
        """Time since its delivery time, 0 before."""
        return max(0, -self.due_in_ms)


@dataclass(frozen=True, slots=True)
class PendingList:
    """Pending records in the order of delivery. `token`: continues the look-up. `complete`: there are no more rows in the partitions that answered."""

    topic: str
    front_topic: str
    rows: list[PendingRow] = field(default_factory=list)
    complete: bool = True
    token: str = ""
    missing: list[MissingPartition] = field(default_factory=list)


def front_topic(topic: str) -> str | None:
    """The front topic of delayed messages of this topic, if it has one."""
    return front_of(topic, delay_topic_name(topic), DELAY_TOPIC)


def topic_of(topic: str) -> str | None:
    """The topic whose delayed messages an operator looks for at this topic: itself, or that of this front topic."""
    return topic_with_front(topic, delay_topic_name, DELAY_TOPIC)


def delayed_messages(topic: str) -> DelayedMessages | None:
    """Return None if the topic has no front topic of delayed messages."""
    front = front_topic(topic)
    if front is None:
        return None
    bounds = domain.histogram_bounds(_now_ms())

    def call(connection: KafkaConnection, index: int) -> DelayedMessagesResponse:
        return client.fetch_pending(connection, front, index, DelayedMessagesRequest(bounds_ms=bounds))

    parts: list[DelayedPartition] = []
    counts: list[list[int]] = []
    missing: list[MissingPartition] = []
    for index, response in leader_responses(leaders_of(front), call).items():
        if isinstance(response, LeaderProblem):
            missing.append(MissingPartition(index, response.problem))
            continue
        counts.append(response.counts)
        parts.append(
            DelayedPartition(
                partition=index,
                pending=response.pending,
                earliest_at=None if response.earliest_ms < 0 else utc_of_ms(response.earliest_ms),
                delivered=response.delivered,
                cancelled=response.cancelled,
                discarded=response.discarded,
                blocked=ErrorCode(response.blocked).name if response.blocked else "",
                due=response.due,
                overdue_ms=_overdue_ms(response),
            )
        )
    return DelayedMessages(
        topic=topic,
        front_topic=front,
        pending=sum(p.pending for p in parts),
        earliest_at=min((p.earliest_at for p in parts if p.earliest_at is not None), default=None),
        histogram=domain.histogram(bounds, counts),
        partitions=parts,
        missing=missing,
        overdue_ms=max((p.overdue_ms for p in parts), default=0),
    )


def _overdue_ms(response: DelayedMessagesResponse) -> int:
    times = [response.earliest_ms] if response.earliest_ms >= 0 else []
    if response.due and response.last_due_ms >= 0:
        times.append(response.last_due_ms)
    return max(0, _now_ms() - min(times)) if times else 0


class PendingFilter(TypedDict, total=False):
    """Keyword arguments of `look_up`, without the key."""

    partition: int | None
    from_ms: int | None
    to_ms: int | None
    limit: int
    token: str


def look_up(
    topic: str,
    *,
    key: bytes | None = None,
    partition: int | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    limit: int = ROWS_FIRST,
    token: str = "",
) -> PendingList | None:
    """Pending records with this key (None: each), delivery times from `from_ms` to below `to_ms`. None: the topic has no delayed messages. Raises
    Rejected for invalid arguments."""
    front = front_topic(topic)
    if front is None:
        return None
    if not 1 <= limit <= ROWS_MAX:
        raise Rejected(sentence("{limit} rows is out of range; use 1 to {max}.", limit=limit, max=ROWS_MAX), "limit")
    if key is not None and len(key) > KEY_BYTES_MAX:
        raise Rejected(
            sentence("The key has {count} bytes; the maximum is {max}.", count=len(key), max=KEY_BYTES_MAX), "key"
        )
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise Rejected("The start of the time range is not before its end.", "from_ms")
    place = domain.place_of(token)
    leaders = leaders_of(front, partition)
    if not leaders:
        raise Rejected(
            sentence("Partition {front}-{partition} does not exist.", front=front, partition=partition), "partition"
        )

    def call(connection: KafkaConnection, index: int) -> DelayedMessagesResponse:
        after_ms, after_offset = domain.continue_after(place, index)
        query = DelayedMessagesRequest(
            bounds_ms=[],
            records_max=limit,
            key=key,
            from_ms=-1 if from_ms is None else from_ms,
            to_ms=-1 if to_ms is None else to_ms,
            after_ms=after_ms,
            after_offset=after_offset,
            duration_ms_max=DURATION_MS,
        )
        return client.fetch_pending(connection, front, index, query)

    cancelled: dict[domain.Place, bool] = {}
    following: dict[int, tuple[int, int]] = {}
    missing: list[MissingPartition] = []
    for index, response in leader_responses(leaders, call).items():
        if isinstance(response, LeaderProblem):
            missing.append(MissingPartition(index, response.problem))
            continue
        cancelled |= {(r.deliver_at_ms, index, r.offset): r.cancelled for r in response.records}
        if response.next_ms >= 0:
            following[index] = response.next_ms, response.next_offset
    shown, next_place = domain.page(cancelled, following, limit)
    now_ms = _now_ms()
    return PendingList(
        topic=topic,
        front_topic=front,
        rows=[
            PendingRow(index, offset, at, utc_of_ms(at), at - now_ms, cancelled[at, index, offset])
            for at, index, offset in shown
        ],
        complete=next_place is None,
        token=domain.token_of(next_place),
        missing=missing,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
