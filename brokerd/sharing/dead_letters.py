"""Dead letters of share groups: the record that is written for a record whose delivery has failed (KIP-1191). Pure.

Invariant: the headers of a dead letter identify its record, whether or not it has the key and the value. As in Kafka, the headers of the record are not
copied. Does not contain: when it is written (`share_partition`), requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from brokerd.cluster.model import TopicPartition
from brokerd.delivery.route_producer import UNKNOWN
from brokerd.sharing.delivery import FailedRun
from brokerd.wire.records import Record

TOPIC, PARTITION, OFFSET = "__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset"
GROUP, DELIVERIES, MESSAGE = "__dlq.errors.group", "__dlq.errors.delivery.count", "__dlq.errors.message"
"""Names of Kafka's headers. Their values are text."""
REJECTED = "Offset rejected by client."
DELIVERIES_EXCEEDED = "Offset delivery count exceeded the threshold."
"""Kafka's values of MESSAGE."""
BATCH_RECORDS_MAX = 100
BATCH_BYTES_MAX = 512 * 1024
"""Maximum number of dead letters in one batch, and bytes of their keys and values. A batch may be larger by one record."""


class UnwritableReason(StrEnum):
    """The reason why a record is archived without a dead letter."""

    DISABLED = "no-topic-configured"
    NAME = "topic-name-not-permitted"
    MISSING = "topic-missing"
    NOT_ENABLED = "topic-does-not-take-dead-letters"
    SOURCE = "topic-is-the-source"
    REJECTED = "refused-by-topic"


class ShareDeadLetterBatch(NamedTuple):
    """A batch of dead letters. It does not change until it is written, so that its last number identifies it. `copied`: with keys and values."""

    target: TopicPartition
    run: FailedRun
    copied: bool


@dataclass(slots=True)
class PartitionDeadLetters:
    """The dead letters of one share partition in one leader epoch. `last`: the number of the last one in `target`."""

    target: TopicPartition | None = None
    last: int = UNKNOWN
    sending: ShareDeadLetterBatch | None = None
    busy: bool = False
    """A request, or a read of the disk, is in progress."""
    failures: int = 0
    retry_ms: int = 0
    problem: UnwritableReason | None = None
    """The reason that was logged last."""


@dataclass(slots=True)
class DeadLetterCounts:
    """Dead letters that are replicated, records that were archived without one, and the reason of the last of those."""

    written: int = 0
    unwritten: int = 0
    reason: UnwritableReason | None = None


def shorten_run(run: FailedRun, records: Mapping[int, Record]) -> FailedRun:
    """The first part of `run` whose copied records fit into a batch."""
    size = 0
    for offset in range(run.first, run.last + 1):
        record = records.get(offset)
        size += 0 if record is None else len(record.key or b"") + len(record.value or b"")
        if size > BATCH_BYTES_MAX:
            return run._replace(last=max(run.first, offset - 1))
    return run


def dead_letters(
    group_id: str, topic: str, partition: int, run: FailedRun, records: Mapping[int, Record], wall_ms: int
) -> Iterable[Record]:
    """One dead letter for each offset of `run`. `records`: the records to copy, by offset. The other dead letters have neither key nor value."""
    for offset in range(run.first, run.last + 1):
        copied = records.get(offset)
        yield Record(
            offset,
            wall_ms,
            None if copied is None else copied.key,
            None if copied is None else copied.value,
            tuple(
                (name, str(value).encode())
                for name, value in (
                    (TOPIC, topic),
                    (PARTITION, partition),
                    (OFFSET, offset),
                    (GROUP, group_id),
                    (DELIVERIES, run.deliveries),
                    (MESSAGE, REJECTED if run.rejected else DELIVERIES_EXCEEDED),
                )
            ),
        )
