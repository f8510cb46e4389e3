"""Undecided half messages of a topic, read from the leaders of its front partitions, because no other process knows them.

Invariants: a read waits at most a few seconds, and names the partitions that are missing. Does not contain: decisions (`services.half_messages`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from brokerd.cluster.configs import HALF_TOPIC, half_topic_name
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.half_messages import HalfMessagesResponse
from controlplane.clients import half_messages as client
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.times import utc_of_ms
from controlplane.selectors.front_leaders import (
    LeaderProblem,
    MissingPartition,
    front_of,
    leader_responses,
    leaders_of,
    topic_with_front,
)

ROWS_MAX = 500
"""Maximum number of messages of one response, the oldest of all partitions."""


@dataclass(frozen=True, slots=True)
class HalfMessageRow:
    """An undecided half message. `half_id`: as text; bytes that are no UTF-8 are replaced. `checks`: how many checks were sent to its producers."""

    partition: int
    offset: int
    half_id: str
    half_id_hex: str
    written_at: datetime
    age_ms: int
    checks: int
    expiring: bool
    target: str
    """The target of a proposal that decides it: topic-partition@offset."""


@dataclass(frozen=True, slots=True)
class HalfFilter:
    """`id_contains`: part of the id as text. `age_ms_min`, `checks_min`: from these values on. It selects from the oldest messages that were read."""

    id_contains: str = ""
    age_ms_min: int = 0
    checks_min: int = 0

    def matches(self, row: HalfMessageRow) -> bool:
        return self.id_contains in row.half_id and row.age_ms >= self.age_ms_min and row.checks >= self.checks_min


EVERY = HalfFilter()


@dataclass(frozen=True, slots=True)
class HalfMessageList:
    """`undecided`: the number in the partitions that answered. `searched`: the number of messages to which the filter was applied, the oldest ones. `delivered`, `expired`, `checks_sent`: by the current leaders, since they lead.
    `blocked`: partitions whose delivery is not accepted, with the error."""

    topic: str
    front_topic: str
    undecided: int = 0
    delivered: int = 0
    expired: int = 0
    checks_sent: int = 0
    searched: int = 0
    rows: list[HalfMessageRow] = field(default_factory=list)
    blocked: list[MissingPartition] = field(default_factory=list)
    missing: list[MissingPartition] = field(default_factory=list)

    @property
    def oldest_ms(self) -> int:
        """Age of the oldest row, 0 without one."""
        return self.rows[0].age_ms if self.rows else 0


def front_topic(topic: str) -> str | None:
    """The front topic of half messages of this topic, if it has one."""
    return front_of(topic, half_topic_name(topic), HALF_TOPIC)


def topic_of(topic: str) -> str | None:
    """The topic whose half messages an operator looks for at this topic: itself, or that of this front topic."""
    return topic_with_front(topic, half_topic_name, HALF_TOPIC)


def undecided_messages(
    topic: str, partition: int | None = None, from_offset: int = 0, chosen: HalfFilter = EVERY
) -> HalfMessageList | None:
    """The oldest undecided half messages that match; the filter searches the oldest ROWS_MAX of each partition. None: the topic has no front topic of half messages."""
    front = front_topic(topic)
    if front is None:
        return None

    def call(connection: KafkaConnection, index: int) -> HalfMessagesResponse:
        return client.fetch_undecided(connection, front, index, from_offset, ROWS_MAX)

    messages = HalfMessageList(topic, front)
    totals = dict.fromkeys(("undecided", "delivered", "expired", "checks_sent"), 0)
    now = datetime.now(UTC)
    for index, response in leader_responses(leaders_of(front, partition), call).items():
        if isinstance(response, LeaderProblem):
            messages.missing.append(MissingPartition(index, response.problem))
            continue
        for name in totals:
            totals[name] += getattr(response, name)
        if response.blocked:
            messages.blocked.append(MissingPartition(index, ErrorCode(response.blocked).name))
        messages.rows.extend(half_message_row(topic, index, m, now) for m in response.messages)
    oldest = sorted(
        (r for r in messages.rows if chosen.matches(r)), key=lambda r: (r.written_at, r.partition, r.offset)
    )[:ROWS_MAX]
    return HalfMessageList(
        topic,
        front,
        searched=len(messages.rows),
        rows=oldest,
        blocked=messages.blocked,
        missing=messages.missing,
        **totals,
    )


def half_message_row(topic: str, index: int, message: HalfMessagesResponse.Message, now: datetime) -> HalfMessageRow:
    written = utc_of_ms(message.appended_ms)
    return HalfMessageRow(
        partition=index,
        offset=message.offset,
        half_id=message.half_id.decode(errors="replace"),
        half_id_hex=message.half_id.hex(),
        written_at=written,
        age_ms=max(0, int((now - written).total_seconds() * 1000)),
        checks=message.checks,
        expiring=message.expiring,
        target=f"{topic}-{index}@{message.offset}",
    )
