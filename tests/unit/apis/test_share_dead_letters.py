"""The writer of dead letters over a target in memory: repeats, conflicts of numbers, rejections, topics that cannot take them, a new leader."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.share_dead_letters import RETRY_MS, ShareDeadLetters
from brokerd.apis.share_partitions import Shared
from brokerd.cluster.model import Now, TopicPartition
from brokerd.config.share_groups import ShareGroupConfig
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import ShareState, StateBatch
from brokerd.delivery.route_producer import NOTHING, UNKNOWN
from brokerd.sharing.dead_letters import UnwritableReason
from brokerd.sharing.delivery import RecordState
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record, iterate
from tests.unit.apis.test_share_partitions import TP, MemoryLog, T

TARGET = TopicPartition(UUID(int=9), 0)
NAME = "dlq.tasks"
OnResponse = Callable[[ErrorCode, int, Now], None]


class Writer:
    """A share partition with records to archive, and the requests that wait for a response."""

    def __init__(self, *failed: StateBatch, copy: bool = False) -> None:
        self.log = MemoryLog()
        self.log.write(10)
        self.config = ShareGroupConfig(dead_letter_topic=NAME, copy_record=copy)
        topic = SimpleNamespace(topic_id=TARGET.topic_id, ready=True, partition_count=3)
        self.topics: dict[str, Any] = {NAME: topic}
        self.takes = True
        self.now = Now(1_000_000, 1_000_000)
        self.sent: list[tuple[TopicPartition, list[Record], int, OnResponse]] = []
        replica_manager: Any = SimpleNamespace(image=SimpleNamespace(topic_named=self.topics.get))
        topic_config: Any = lambda found: SimpleNamespace(takes_dead_letters=self.takes)  # noqa: E731
        self.writer = ShareDeadLetters(
            replica_manager, lambda group: self.config, topic_config, lambda: self.now, None, self._send, "dlq."
        )
        replica: Any = SimpleNamespace(
            topic="tasks", start_offset=0, log=self.log, core=SimpleNamespace(high_watermark=10)
        )
        self.shared = Shared(SharePartitionKey("workers", T, TP.partition), replica, 4)
        state = ShareState(1, 4, 0, failed)
        self.core = SharePartition.load(state, 4, 0, lock_ms=1, deliveries_max=5, locks_max=200)
        self.shared.core = self.core
        self.led = True

    def _send(self, target: TopicPartition, batch: bytes, query: Any, done: OnResponse) -> None:
        assert (query.source_topic_id, query.source_partition, query.source_epoch) == (T, 0, 4)
        self.sent.append((target, list(iterate(batch)), query.expected, done))

    def go(self) -> None:
        self.writer.advance(self.shared, lambda shared: self.led, lambda shared: self.core.begin_write())

    def respond(self, error: ErrorCode = ErrorCode.NONE, last: int = -1) -> tuple[list[int], int]:
        """Answers the request. (offsets of its dead letters, the expected number)."""
        _, records, expected, done = self.sent.pop(0)
        offsets = [int(dict(r.headers)["__dlq.errors.offset"] or b"") for r in records]
        done(error, last, self.now)
        return offsets, expected

    def end_write(self) -> None:
        self.core.end_write()


def archiving_batch(first: int, last: int, deliveries: int = 1) -> StateBatch:
    return StateBatch(first, last, RecordState.ARCHIVING, deliveries)


CONFLICT = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_leader_asks_for_the_last_number_and_then_writes_each_dead_letter_one_time() -> None:
    w = Writer(archiving_batch(0, 1), archiving_batch(2, 2, 5))
    w.go()
    w.go()
    assert len(w.sent) == 1 and w.sent[0][0] == TARGET, "one batch at a time"
    assert w.respond(CONFLICT, 6) == ([0, 1], UNKNOWN)
    assert w.respond() == ([0, 1], 6)
    assert w.core.start == 2 and w.writer.written == 2 and not w.sent, "the state is stored first"
    w.end_write()
    w.go()
    assert w.respond() == ([2], 8)
    assert (w.core.start, w.core.archiving) == (3, 0)


def test_a_request_that_was_written_without_a_response_is_not_written_again() -> None:
    w = Writer(archiving_batch(0, 1))
    w.go()
    w.respond(CONFLICT, NOTHING)
    w.respond(ErrorCode.NETWORK_EXCEPTION)
    assert not w.sent
    w.now = Now(w.now.mono_ms + RETRY_MS, 0)
    w.go()
    assert w.respond(CONFLICT, 1) == ([0, 1], NOTHING)
    assert w.core.start == 2 and not w.sent and w.writer.written == 2


def test_a_number_of_an_earlier_leader_does_not_count_as_a_written_batch() -> None:
    w = Writer(archiving_batch(0, 1))
    w.go()
    w.respond(CONFLICT, 1)
    assert w.core.start == 0 and w.respond()[1] == 1


def test_the_pause_grows_while_the_topic_is_unavailable() -> None:
    w = Writer(archiving_batch(0, 0))
    w.go()
    w.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for pause in (RETRY_MS, 2 * RETRY_MS):
        w.now = Now(w.now.mono_ms + pause - 1, 0)
        w.go()
        assert not w.sent
        w.now = Now(w.now.mono_ms + 1, 0)
        w.go()
        w.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert w.core.archiving == 1 and w.writer.unwritten == 0, "an unavailable topic is waited for"


def test_dead_letters_have_the_records_if_the_group_copies_them() -> None:
    w = Writer(archiving_batch(2, 3), copy=True)
    w.go()
    _, records, _, _ = w.sent[0]
    assert [r.value for r in records] == [b"v", b"v"]


def test_a_new_leader_copies_a_record_when_its_high_watermark_has_passed_it() -> None:
    """Seed 8 of share-letters: the dead letter had no key and no value, although the log had the record."""
    w = Writer(archiving_batch(2, 3), copy=True)
    w.shared.replica.core.high_watermark = 3
    w.go()
    assert not w.sent
    w.shared.replica.core.high_watermark = 10
    w.go()
    assert [r.value for r in w.sent[0][1]] == [b"v", b"v"]


def test_a_record_that_the_log_lost_has_a_dead_letter_without_it() -> None:
    w = Writer(archiving_batch(10, 10), copy=True)
    w.go()
    assert [r.value for r in w.sent[0][1]] == [None]


def test_a_record_that_is_too_large_has_a_dead_letter_without_it() -> None:
    w = Writer(archiving_batch(0, 1), copy=True)
    w.go()
    w.respond(CONFLICT, NOTHING)
    assert w.respond(ErrorCode.MESSAGE_TOO_LARGE)[0] == [0, 1]
    assert w.respond(ErrorCode.MESSAGE_TOO_LARGE)[0] == [0]
    assert [r.value for r in w.sent[0][1]] == [None]
    w.respond()
    assert w.core.start == 1 and w.writer.unwritten == 0


def test_a_rejected_dead_letter_does_not_stop_the_group() -> None:
    w = Writer(archiving_batch(0, 1))
    w.go()
    w.respond(ErrorCode.INVALID_RECORD)
    assert w.core.start == 2 and w.writer.unwritten == 2 and w.shared.letters.problem is UnwritableReason.REJECTED


@pytest.mark.parametrize("cause", list(UnwritableReason))
def test_a_topic_that_cannot_take_dead_letters_does_not_stop_the_group(cause: UnwritableReason) -> None:
    w = Writer(archiving_batch(0, 1))
    if cause is UnwritableReason.DISABLED:
        w.config = ShareGroupConfig()
    elif cause is UnwritableReason.NAME:
        w.config = ShareGroupConfig(dead_letter_topic="tasks.failed")
    elif cause is UnwritableReason.MISSING:
        del w.topics[NAME]
    elif cause is UnwritableReason.SOURCE:
        w.topics[NAME].topic_id = T
    elif cause is UnwritableReason.NOT_ENABLED:
        w.takes = False
    else:
        return  # the test above
    w.go()
    assert not w.sent and w.core.start == 2 and w.shared.letters.problem is cause


def test_a_response_to_a_deposed_leader_changes_nothing() -> None:
    w = Writer(archiving_batch(0, 1))
    w.go()
    w.led = False
    w.respond()
    assert w.core.start == 0 and not w.sent


def test_dead_letters_are_counted_by_group_and_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    w = Writer(archiving_batch(0, 1), archiving_batch(2, 2, 5))
    w.go()
    w.respond(CONFLICT, 6)
    w.respond()
    w.end_write()
    w.takes = False
    w.go()
    (counts,) = w.writer.counts.values()
    assert list(w.writer.counts) == [("workers", "tasks")]
    assert (counts.written, counts.unwritten, counts.reason) == (2, 1, UnwritableReason.NOT_ENABLED)
    monkeypatch.setattr("brokerd.apis.share_dead_letters.COUNTED_MAX", 0)
    full = Writer(archiving_batch(0, 0))
    full.takes = False
    full.go()
    assert full.writer.unwritten == 1 and not full.writer.counts
