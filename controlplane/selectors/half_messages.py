"""Undecided half messages of a topic, read from the leaders of its front partitions: only they know them.

Invariants: a read waits at most a few seconds, and names the partitions that are missing. Does not contain: decisions (`services.half_messages`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from brokerd.cluster.configs import HALF_TOPIC, half_topic_name
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.half_messages import HalfMessagesAnswer
from controlplane.clients import half_messages as client
from controlplane.clients.all_brokers import BrokerAddress, ask_brokers
from controlplane.clients.connection import Declined, KafkaConnection
from controlplane.models import Broker, Partition, Topic

ROWS_MAX = 500
"""Messages of one answer, the oldest of all partitions."""


@dataclass(frozen=True, slots=True)
class HalfMessageRow:
    """An undecided half message. `half_id`: as text; bytes that are no UTF-8 are replaced. `checks`: how often its producers were asked."""

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
class MissingPartition:
    """A partition whose half messages are unknown now, and the reason."""

    partition: int
    problem: str


@dataclass(frozen=True, slots=True)
class HalfMessageList:
    """`undecided`: the number in the partitions that answered. `delivered`, `expired`, `checks_sent`: by the present leaders, since they lead.
    `blocked`: partitions whose delivery is not accepted, with the error."""

    topic: str
    front_topic: str
    undecided: int = 0
    delivered: int = 0
    expired: int = 0
    checks_sent: int = 0
    rows: list[HalfMessageRow] = field(default_factory=list)
    blocked: list[MissingPartition] = field(default_factory=list)
    missing: list[MissingPartition] = field(default_factory=list)


def front_topic(topic: str) -> str | None:
    """The front topic of half messages of this topic, if it has one."""
    row = Topic.objects.filter(name=half_topic_name(topic), deleted_at__isnull=True).first()
    return row.name if row is not None and row.configs.get(HALF_TOPIC) == topic else None


def undecided(topic: str, partition: int | None = None, from_offset: int = 0) -> HalfMessageList | None:
    """The oldest undecided half messages. None: the topic has no front topic of half messages."""
    front = front_topic(topic)
    if front is None:
        return None
    rows = Partition.objects.filter(topic__name=front).order_by("index")
    if partition is not None:
        rows = rows.filter(index=partition)
    leaders = dict(rows.values_list("index", "leader"))
    found = HalfMessageList(topic, front)
    totals = dict.fromkeys(("undecided", "delivered", "expired", "checks_sent"), 0)
    now = datetime.now(UTC)
    for index, answer in _answers(front, leaders, from_offset).items():
        if isinstance(answer, str):
            found.missing.append(MissingPartition(index, answer))
            continue
        for name in totals:
            totals[name] += getattr(answer, name)
        if answer.blocked:
            found.blocked.append(MissingPartition(index, ErrorCode(answer.blocked).name))
        found.rows.extend(_row(topic, index, m, now) for m in answer.messages)
    oldest = sorted(found.rows, key=lambda r: (r.written_at, r.partition, r.offset))[:ROWS_MAX]
    return HalfMessageList(topic, front, rows=oldest, blocked=found.blocked, missing=found.missing, **totals)


def _row(topic: str, index: int, message: HalfMessagesAnswer.Message, now: datetime) -> HalfMessageRow:
    written = datetime.fromtimestamp(message.appended_ms / 1000, UTC)
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


def _answers(front: str, leaders: dict[int, int | None], from_offset: int) -> dict[int, HalfMessagesAnswer | str]:
    """The answer of each partition's leader, or why there is none."""
    answers: dict[int, HalfMessagesAnswer | str] = dict.fromkeys(sorted(leaders), "The partition has no leader.")
    for broker in Broker.objects.filter(broker_id__in={b for b in leaders.values() if b is not None}):
        own = [i for i, leader in leaders.items() if leader == broker.broker_id]
        address = BrokerAddress(broker.broker_id, broker.host, broker.port)
        (answer,) = ask_brokers([address], partial(_ask, front, own, from_offset))
        answers.update(answer.value if answer.value is not None else dict.fromkeys(own, answer.problem))
    return answers


def _ask(
    front: str, partitions: list[int], from_offset: int, connection: KafkaConnection
) -> dict[int, HalfMessagesAnswer | str]:
    result: dict[int, HalfMessagesAnswer | str] = {}
    for i in partitions:
        try:
            result[i] = client.undecided(connection, front, i, from_offset, ROWS_MAX)
        except Declined as e:
            result[i] = f"Its leader refused: {e}."
    return result
