"""Dead letters of the share partitions that this broker leads: written to the topic of the group, one batch per share partition at a time (KIP-1191).

A batch is sent as a route does (`routed_appends`): with the number of the last dead letter that the target partition has from this share partition. So neither
a repeated request nor a deposed leader appends a dead letter twice. The number is the count of dead letters, not an offset. Invariants: a dead letter is
written only after the state ARCHIVING is durable, and the record is archived only after the dead letter is replicated. Therefore each record has a dead letter.
It has a second one only if the leader changed in between. A topic that cannot take dead letters does not stop the group: the records are archived without them,
which is logged and counted. An unavailable topic is waited for. Does not contain: the states (`sharing`), the form of a dead letter (`sharing/dead_letters`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from brokerd.apis.share_observer import ShareObserver
from brokerd.apis.share_partitions import Shared
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now, TopicPartition, TopicState
from brokerd.config.share_groups import ShareGroupConfig, dead_letter_name_problem
from brokerd.delivery.route_producer import NOTHING, UNKNOWN, route_batch, route_producer_id
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.sharing.dead_letters import (
    BATCH_RECORDS_MAX,
    DeadLetterCounts,
    ShareDeadLetterBatch,
    UnwritableReason,
    dead_letters,
    shorten_run,
)
from brokerd.sharing.delivery import FailedRun
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.routes import RoutedAppendRequestData
from brokerd.wire.records import CorruptBatch, Record, batches, records_of

log = logging.getLogger(__name__)

RETRY_MS, RETRY_MS_MAX = 500, 30_000
"""Pause after a request that failed. It doubles with each failure, up to the maximum."""
READ_BYTES = 1024 * 1024
"""Bytes of the log that are read for one batch of dead letters."""
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
REJECTIONS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        *TOO_LARGE,
    }
)
"""Errors that a retry does not resolve."""
COUNTED_MAX = 1_000
"""Maximum number of pairs of group and topic with a counter. A counter uses about 200 bytes of memory and 80 bytes of a response."""


class SendDeadLetters(Protocol):
    def __call__(
        self,
        target: TopicPartition,
        batch: bytes,
        query: RoutedAppendRequestData,
        done: Callable[[ErrorCode, int, Now], None],
    ) -> None: ...


class ShareDeadLetters:
    """`prefix` is the required prefix of the topic names."""

    counts: dict[tuple[str, str], DeadLetterCounts]
    """Numbers of dead letters by (group, topic) of the records, since the start of the broker. At most COUNTED_MAX."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        config_of: Callable[[str], ShareGroupConfig],
        topic_config: Callable[[TopicState], TopicConfig],
        clock: Callable[[], Now],
        read_ahead: ReadAhead | None,
        send: SendDeadLetters,
        prefix: str,
        observer: ShareObserver | None = None,
    ) -> None:
        self._replica_manager, self._config_of, self._topic_config = replica_manager, config_of, topic_config
        self._clock, self._read_ahead, self._send, self._prefix = clock, read_ahead, send, prefix
        self._observer = observer
        self.written = self.unwritten = 0
        """Dead letters that are replicated, and records that were archived without one, since the start of the broker."""
        self.counts = {}

    def advance(self, shared: Shared, current: Callable[[Shared], bool], changed: Callable[[Shared], None]) -> None:
        """Write the next dead letters, unless a write is in progress. `changed` is called when records were archived."""
        core, letters = shared.core, shared.letters
        if core is None or letters.busy or self._clock().mono_ms < letters.retry_ms:
            return
        config = self._config_of(shared.place.group_id)
        run = letters.sending.run if letters.sending is not None else core.next_failed(BATCH_RECORDS_MAX)
        if run is None:
            return
        target = self._target(shared, config)
        if isinstance(target, UnwritableReason):
            self._give_up(shared, run, target)
            changed(shared)
            return
        copied = config.copy_record if letters.sending is None else letters.sending.copied
        replica = shared.replica
        if copied and replica.core.high_watermark < min(run.last + 1, replica.log.end_offset):
            return  # a new leader, whose followers have not fetched yet, cannot read the records; the tick tries again

        def retry() -> None:
            letters.busy = False
            if current(shared):
                self.advance(shared, current, changed)

        try:
            records = self._read_records(shared, run) if copied else {}
        except NotInPageCache as cold:
            assert self._read_ahead is not None
            letters.busy = True
            self._read_ahead.look_up(cold, retry)
            return
        except DiskFailed as e:
            self._replica_manager.fail(shared.replica, e)
            return
        if letters.sending is None:
            run = shorten_run(run, records)
        if letters.sending is None or letters.sending.target != target:
            letters.sending = ShareDeadLetterBatch(target, run, copied)
        if letters.target != target:
            letters.target, letters.last = target, UNKNOWN
        self._write(shared, letters.sending, records, current, changed)

    def _target(self, shared: Shared, config: ShareGroupConfig) -> TopicPartition | UnwritableReason:
        name, image = config.dead_letter_topic, self._replica_manager.image
        if not name:
            return UnwritableReason.DISABLED
        if dead_letter_name_problem(name, self._prefix) is not None:
            return UnwritableReason.NAME
        topic = image.topic_named(name)
        if topic is None or not topic.ready:
            return UnwritableReason.MISSING
        if topic.topic_id == shared.place.topic_id:
            return UnwritableReason.SOURCE
        if not self._topic_config(topic).takes_dead_letters:
            return UnwritableReason.NOT_ENABLED
        return TopicPartition(topic.topic_id, shared.place.partition % topic.partition_count)

    def _read_records(self, shared: Shared, run: FailedRun) -> dict[int, Record]:
        """The records of `run` that are still in the log, by offset. Raises NotInPageCache, DiskFailed."""
        replica, found = shared.replica, dict[int, Record]()
        at = max(run.first, replica.start_offset)
        blocking = self._read_ahead is None or self._read_ahead.blind
        with blocking_reads() if blocking else nonblocking_reads():
            while at <= run.last:
                data = replica.log.read(at, READ_BYTES, replica.core.high_watermark).bytes()
                if not data:
                    break
                for position, header in batches(data):
                    at = header.last_offset + 1
                    if header.is_control or header.base_offset > run.last:
                        continue
                    try:
                        inside = [r for r in records_of(data, position, header) if run.first <= r.offset <= run.last]
                    except CorruptBatch:
                        continue  # the scrub reports the damage; the dead letter contains only topic, partition and offset of the record
                    found.update((r.offset, r) for r in inside)
        return found

    def _write(
        self,
        shared: Shared,
        sending: ShareDeadLetterBatch,
        records: Mapping[int, Record],
        current: Callable[[Shared], bool],
        changed: Callable[[Shared], None],
    ) -> None:
        letters, replica, place = shared.letters, shared.replica, shared.place
        run, expected = sending.run, letters.last
        number = max(expected, NOTHING) + run.last - run.first + 1
        producer_id = route_producer_id(f"share-dead-letters/{place.group_id}", place.topic_id, place.partition)
        found = dead_letters(place.group_id, replica.topic, place.partition, run, records, self._clock().wall_ms)
        batch = route_batch(list(found), producer_id, number)

        def on_result(error: ErrorCode, last: int, now: Now) -> None:
            letters.busy = False
            if not current(shared) or shared.core is None:
                return
            if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and expected != UNKNOWN and last == number:
                error = ErrorCode.NONE  # an earlier request has written it
            if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                letters.last, letters.failures, letters.retry_ms = last, 0, now.mono_ms
            elif not error:
                letters.last, letters.sending, letters.failures, letters.problem = number, None, 0, None
                self._count_letters(shared, written=run.last - run.first + 1)
                self._archive(shared, run)
                changed(shared)
            elif error in TOO_LARGE and run.last > run.first:
                letters.sending = sending._replace(run=run._replace(last=run.first))
            elif error in TOO_LARGE and sending.copied:
                letters.sending = sending._replace(copied=False)  # the headers still name the record
            elif error in REJECTIONS:
                self._give_up(shared, run, UnwritableReason.REJECTED)
                changed(shared)
            else:
                self._retry_later(shared, error, now)
            self.advance(shared, current, changed)

        letters.busy = True
        query = RoutedAppendRequestData(expected, place.topic_id, place.partition, shared.epoch)
        self._send(sending.target, batch, query, on_result)

    @staticmethod
    def _retry_later(shared: Shared, error: ErrorCode, now: Now) -> None:
        letters = shared.letters
        if not letters.failures:
            log.warning("dead letters not written, retrying: share_partition=%s error=%s", shared.place, error.name)
        letters.retry_ms = now.mono_ms + min(RETRY_MS << min(letters.failures, 10), RETRY_MS_MAX)
        letters.failures += 1

    def _count_letters(
        self, shared: Shared, written: int = 0, unwritten: int = 0, cause: UnwritableReason | None = None
    ) -> None:
        self.written += written
        self.unwritten += unwritten
        key = shared.place.group_id, shared.replica.topic
        counts = self.counts.get(key)
        if counts is None:
            if len(self.counts) >= COUNTED_MAX:
                return
            counts = self.counts[key] = DeadLetterCounts()
        counts.written += written
        counts.unwritten += unwritten
        counts.reason = cause or counts.reason

    def _give_up(self, shared: Shared, run: FailedRun, cause: UnwritableReason) -> None:
        letters = shared.letters
        if letters.problem is not cause:
            log.error(
                "records archived without dead letters: share_partition=%s reason=%s first_offset=%d",
                shared.place,
                cause,
                run.first,
            )
        letters.problem, letters.sending = cause, None
        self._count_letters(shared, unwritten=run.last - run.first + 1, cause=cause)
        self._archive(shared, run)

    def _archive(self, shared: Shared, run: FailedRun) -> None:
        core = shared.core
        assert core is not None
        if self._observer is not None:
            self._observer.on_archived(core, run.first, run.last)
        core.archive(run.first, run.last)
