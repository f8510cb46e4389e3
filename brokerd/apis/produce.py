"""Produce: records come in here.

Laws: nothing is acknowledged before it is written, nor before it is flushed where the topic asks for that, and with acks=all not
before the high watermark has passed it; every batch
is checked before the first byte is written; a refusal names its reason. Batches are stamped in place, never unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from brokerd.cluster.model import TopicState
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.partitions import Partitions
from brokerd.produce_times import ProduceTimes
from brokerd.replica import Replica
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.producers import ACCEPTED, Duplicate, Refused
from brokerd.verification import Verification
from brokerd.waiters import Waiter
from brokerd.wire import records
from brokerd.wire.compression import ZSTD
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest, ProduceResponse
from brokerd.wire.records import Marker, Room

ACKS_ALL = -1
ZSTD_SINCE = 7
"""Producers of older versions cannot know zstd; nor could consumers of their age."""
ABORTABLE_SINCE, TRANSACTIONS_V2_SINCE = 11, 12
"""Producers of these versions know TRANSACTION_ABORTABLE; leave it to the partition's leader to tell the coordinator (KIP-890)."""
FIRST_BY_ID = 13
"""From here on topics are named by their ids alone (KIP-516)."""
PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION,
    }
)  # fmt: skip
TIMEOUT_MS_MAX = 300_000
"""A promise to a producer is kept or expired within this, whatever it asked for."""


@dataclass(slots=True)
class Outcome:
    """What became of one partition's records. `required_end` is what the high watermark must reach for acks=all."""

    error: ErrorCode
    message: str | None = None
    base_offset: int = -1
    log_append_time: int = -1
    log_start: int = -1
    replica: Replica | None = None
    leader_epoch: int = -1
    required_end: int = -1

    @property
    def told(self) -> int:
        """For the coordinators: the error, -1 instead when the records were written and then lost sight of."""
        return -1 if self.error and self.replica is not None else int(self.error)


Topic = ProduceRequest.TopicProduceData
Outcomes = list[tuple[Topic, int, Outcome]]
"""What became of each partition, in the order of the request."""
UNKNOWN, ELSEWHERE = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN_ID = Outcome(ErrorCode.UNKNOWN_TOPIC_ID)


def told(error: ErrorCode, version: int) -> ErrorCode:
    """What a producer is told when its transaction could not be verified: of what passes by itself, an error that it tries again."""
    if error in PASSING:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return error


class ProduceApi:
    def __init__(self, loop: Loop, partitions: Partitions, verification: Verification) -> None:
        self._loop, self._partitions, self.verification = loop, partitions, verification
        self.times = ProduceTimes()

    def handle(self, request: Request) -> None:
        body: ProduceRequest = request.body
        if body.acks not in (ACKS_ALL, 0, 1):
            self._reply(request, self._each(body, lambda: Outcome(ErrorCode.INVALID_REQUIRED_ACKS)))
            return
        version = request.header.api_version
        zstd = version >= ZSTD_SINCE
        room = Room()
        outcomes: Outcomes = []
        unverified: list[tuple[int, Replica, memoryview]] = []
        for topic in body.topic_data:
            state = self._state(topic, version)
            for part in topic.partition_data:
                data = part.records
                if data is not None and len(data) >= records.HEADER_BYTES and data[22] & records.TRANSACTIONAL:
                    replica, outcome = self._first_look(state, part.index, data, body, version, room)
                    if replica is not None:
                        unverified.append((len(outcomes), replica, data))
                else:
                    outcome = self._append_found(state, part.index, data, body.acks, zstd, room)
                outcomes.append((topic, part.index, outcome))
        if unverified:
            self._verify(request, outcomes, unverified)
        else:
            self._answer(request, outcomes)

    def _answer(self, request: Request, outcomes: Outcomes) -> None:
        body: ProduceRequest = request.body
        if body.acks == 0:
            if any(o.error for _, _, o in outcomes):
                # Kafka's way to tell a producer that wants no answers: it reconnects and refreshes its metadata.
                request.close()
            else:
                request.reply(None)
            return
        began_ms = self._loop.now.mono_ms

        def kept() -> None:
            self.times.add(self._loop.now.mono_ms - began_ms)
            self._reply(request, outcomes)

        self.when_kept([o for _, _, o in outcomes], body.acks, body.timeout_ms, kept, lambda: request.abandoned)

    # -- transactional batches -------------------------------------------------------------------------------------------
    def _first_look(
        self, state: TopicState | Outcome, index: int, data: memoryview, body: ProduceRequest, version: int, room: Room
    ) -> tuple[Replica | None, Outcome]:
        """The replica where the batch begins a transaction, so that the coordinator must know of it first; else what became of it."""
        replica, refused = self._find(state, index)
        if replica is None:
            return None, refused
        closed = self._closed(replica, body.acks)
        if closed is not None:
            return None, closed
        header = records.peek(data)
        if body.transactional_id is None:
            return None, Outcome(ErrorCode.INVALID_RECORD, "a transactional batch without a transactional id")
        add = version >= TRANSACTIONS_V2_SINCE
        needed = self.verification.needed(replica, header.producer_id, header.producer_epoch, add=add)
        # Behind a batch that waits for the coordinator's word its sequence says nothing yet: it follows that one.
        follows = self.verification.asking(replica, header.producer_id)
        if not needed or (not follows and replica.log.check_producer(header, self._loop.now) is not ACCEPTED):
            return None, self.append(replica, data, body.acks, room=room)
        return replica, refused

    def _verify(
        self,
        request: Request,
        outcomes: Outcomes,
        unverified: list[tuple[int, Replica, memoryview]],
    ) -> None:
        body: ProduceRequest = request.body
        version = request.header.api_version
        left, room = len(unverified), Room()

        def verified(i: int, replica: Replica, data: bytearray, error: ErrorCode, why: str | None) -> None:
            nonlocal left
            topic, index, _ = outcomes[i]
            if error:
                outcome = Outcome(told(error, version), why)
            elif request.abandoned:
                outcome = Outcome(ErrorCode.REQUEST_TIMED_OUT)
            else:
                outcome = self.append(replica, data, body.acks, room=room)
            outcomes[i] = (topic, index, outcome)
            left -= 1
            if not left:
                self._answer(request, outcomes)

        for i, replica, data in unverified:
            copy = bytearray(data)  # the connection's memory is used again before the coordinator has answered
            header = records.peek(copy)
            self.verification.ask(
                replica, body.transactional_id or "", header.producer_id, header.producer_epoch,
                partial(verified, i, replica, copy), add=version >= TRANSACTIONS_V2_SINCE,
            )  # fmt: skip

    # -- one partition -----------------------------------------------------------------------------------------------
    def _state(self, topic: Topic, version: int) -> TopicState | Outcome:
        """The topic that is meant, or why there is none."""
        image = self._partitions.image
        if version >= FIRST_BY_ID:
            state, missing = image.topics.get(topic.topic_id), UNKNOWN_ID
        else:
            state, missing = image.topic_named(topic.name), UNKNOWN
        return missing if state is None or not state.ready else state

    def _append_found(
        self, state: TopicState | Outcome, index: int, data: memoryview | None, acks: int, zstd: bool, room: Room
    ) -> Outcome:
        replica, refused = self._find(state, index)
        return refused if replica is None else self.append(replica, data, acks, zstd, room=room)

    def _find(self, state: TopicState | Outcome, index: int) -> tuple[Replica | None, Outcome]:
        if isinstance(state, Outcome):
            return None, state
        if index not in state.partitions:
            return None, UNKNOWN
        if state.internal:
            return None, Outcome(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{state.name} is internal: only coordinators write there"
            )
        return self._partitions.find(state, index), ELSEWHERE

    def _closed(self, replica: Replica, acks: int) -> Outcome | None:
        """Why nothing may be written there now."""
        partitions, now = self._partitions, self._loop.now
        if replica.offline_reason is not None:
            return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, replica.offline_reason)
        if not replica.leads or partitions.frozen:
            return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        machine = replica.core
        if acks == ACKS_ALL and machine.isr_size < machine.min_insync:
            return Outcome(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{machine.isr_size} replicas are in sync, min.insync.replicas is {machine.min_insync}",
            )
        if not partitions.current() and (silent := machine.silent(now)):
            # It would wait for nothing until the client gives up; so the client asks who leads now, which is somebody else as like as not.
            return Outcome(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"cut off from the metadata log, and brokers {silent} of the ISR are silent",
            )
        return None

    def append(
        self,
        replica: Replica,
        data: memoryview | bytearray | None,
        acks: int,
        zstd: bool = True,
        *,
        coordinator: bool = False,
        room: Room | None = None,
    ) -> Outcome:
        """Check, stamp and write. The log's memory is `data` itself: base offsets and epochs are written into it.

        A group `coordinator` writes a producer's offsets in its name, without its sequences.
        """
        partitions, now, machine = self._partitions, self._loop.now, replica.core
        closed = self._closed(replica, acks)
        if closed is not None:
            return closed
        if data is None or len(data) == 0:
            return Outcome(ErrorCode.NONE, base_offset=replica.log.end_offset, log_start=replica.log.start_offset)
        try:
            headers = records.check(data)
        except records.CorruptBatch as e:
            return Outcome(ErrorCode.CORRUPT_MESSAGE, str(e))
        except records.InvalidBatch as e:
            return Outcome(ErrorCode.INVALID_RECORD, str(e))
        for _, header in headers:
            problem = replica.config.batch_problem(header.size, header.max_timestamp, now.wall_ms)
            if problem is not None:
                return Outcome(ErrorCode(problem[0]), problem[1])
            if header.is_control:
                return Outcome(ErrorCode.INVALID_RECORD, "clients may not write control batches")
            if header.compression == ZSTD and not zstd:
                return Outcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd wants Produce {ZSTD_SINCE} or later")
            if header.producer_id >= 0 and len(headers) > 1:
                # Kafka allows one batch per partition in any case. Without sequences more do no harm; with them, what the
                # second may be depends on what becomes of the first, and a repeat of both could not be told from half of one.
                return Outcome(
                    ErrorCode.INVALID_RECORD, "an idempotent producer sends one batch per partition and request"
                )
        try:
            if replica.config.compacts and not _all_keyed(data, room):
                return Outcome(
                    ErrorCode.INVALID_RECORD, "a record without a key cannot be written to a compacted topic"
                )
        except records.CorruptBatch as e:
            return _unreadable(e)
        if headers[0][1].producer_id >= 0 and not coordinator:
            verdict = replica.log.check_producer(headers[0][1], now)
            if isinstance(verdict, Duplicate):
                return Outcome(
                    ErrorCode.NONE, None, verdict.base_offset, -1, replica.log.start_offset, replica,
                    machine.leader_epoch, verdict.last_offset + 1,
                )  # fmt: skip
            if isinstance(verdict, Refused):
                if not partitions.current():
                    # Such a word ends a producer for good. A leader deposed unheard lacks what its successor acknowledged, and
                    # would say it of sound ones; they ask again elsewhere, or here once it is known who leads.
                    return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, "cut off from the metadata log")
                return Outcome(ErrorCode(verdict.error), verdict.reason)
        return self._write(replica, data, headers, room)

    def append_marker(
        self, replica: Replica, producer_id: int, producer_epoch: int, said: Marker, *, next_epoch: bool
    ) -> Outcome:
        """A coordinator has decided a transaction. `next_epoch`: its markers carry the epoch after the transaction's (KIP-890)."""
        closed = self._closed(replica, ACKS_ALL)
        if closed is not None:
            return closed
        producers = replica.log.producers
        known = producers.known.get(producer_id)
        if next_epoch and known is not None and known.epoch == producer_epoch:
            # Heard before: either nothing has come since, or the producer's next transaction has begun, which is not what is meant.
            return Outcome(
                ErrorCode.NONE, None, known.marker_offset, -1, replica.log.start_offset, replica,
                replica.core.leader_epoch, known.marker_offset + 1,
            )  # fmt: skip
        refused = producers.check_marker(producer_id, producer_epoch, said.coordinator_epoch)
        if refused is not None:
            return Outcome(ErrorCode(refused.error), refused.reason)
        data = records.marker(producer_id, producer_epoch, said, self._loop.now.wall_ms)
        return self._write(replica, data, list(records.batches(data)))

    def _write(
        self,
        replica: Replica,
        data: bytearray | memoryview,
        headers: list[tuple[int, records.BatchHeader]],
        room: Room | None = None,
    ) -> Outcome:
        partitions, now, machine = self._partitions, self._loop.now, replica.core
        try:
            appended = replica.log.append(data, headers, machine.leader_epoch, now, room)
        except records.CorruptBatch as e:  # only where the topic's own compression unpacks it
            return _unreadable(e)
        except DiskFull as e:
            partitions.trouble(replica, str(e))
            return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
        except DiskFailed as e:
            partitions.fail(replica, e)
            return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(e))
        partitions.trouble(replica, None)
        epoch = machine.leader_epoch
        partitions.appended(replica, now)
        return Outcome(
            ErrorCode.NONE, None, appended.base_offset, appended.log_append_time, replica.log.start_offset, replica,
            epoch, appended.last_offset + 1,
        )  # fmt: skip

    # -- waiting -----------------------------------------------------------------------------------------------------
    def when_kept(
        self,
        outcomes: list[Outcome],
        acks: int,
        timeout_ms: int,
        done: Callable[[], None],
        abandoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call `done` once every outcome is kept as `acks` asks, refused or expired; what could not be kept carries its error.

        acks=1: written by the leader, and flushed where the topic asks for it. acks=all: that, by every member of the ISR.
        """
        pending = [
            o for o in outcomes
            if o.error == ErrorCode.NONE and o.replica is not None
            and (acks == ACKS_ALL or o.replica.log.flushing.sure_end < o.required_end)
        ]  # fmt: skip

        def settled(outcome: Outcome) -> bool:
            replica = outcome.replica
            assert replica is not None
            if not replica.leads or replica.core.leader_epoch != outcome.leader_epoch:
                outcome.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                return True
            if acks != ACKS_ALL:
                return replica.log.flushing.sure_end >= outcome.required_end
            if replica.core.high_watermark < outcome.required_end:
                return False
            if replica.core.isr_size < replica.core.min_insync:
                outcome.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return True

        def try_complete() -> bool:
            if abandoned():
                return True
            pending[:] = [o for o in pending if not settled(o)]
            return not pending

        def complete(expired: bool) -> None:
            if expired:
                for outcome in pending:
                    outcome.error = ErrorCode.REQUEST_TIMED_OUT
            if not abandoned():
                done()

        if not pending:
            done()
            return
        keys = tuple(o.replica.hw_key() for o in pending if o.replica is not None)
        deadline = self._loop.now.mono_ms + max(0, min(timeout_ms, TIMEOUT_MS_MAX))
        self._partitions.waiters.add(Waiter(keys, try_complete, complete), deadline)

    def append_internal(self, replica: Replica, batch: bytes, timeout_ms: int, done: Callable[[Outcome], None]) -> None:
        """For the coordinators: append to a partition led here, and tell when it is replicated (acks=all)."""
        outcome = self.append(replica, bytearray(batch), ACKS_ALL, coordinator=True)
        self.when_kept([outcome], ACKS_ALL, timeout_ms, lambda: done(outcome))

    # -- shaping -----------------------------------------------------------------------------------------------------
    @staticmethod
    def _each(body: ProduceRequest, make: Callable[[], Outcome]) -> Outcomes:
        return [(t, p.index, make()) for t in body.topic_data for p in t.partition_data]

    @staticmethod
    def _reply(request: Request, outcomes: Outcomes) -> None:
        topics: dict[tuple[str, UUID], list[ProduceResponse.PartitionProduceResponse]] = {}
        for topic, index, o in outcomes:
            topics.setdefault((topic.name, topic.topic_id), []).append(
                ProduceResponse.PartitionProduceResponse(
                    index=index,
                    error_code=o.error,
                    base_offset=-1 if o.error else o.base_offset,
                    log_append_time_ms=-1 if o.error else o.log_append_time,
                    log_start_offset=o.log_start,
                    error_message=o.message,
                )
            )
        request.reply(
            ProduceResponse(
                responses=[
                    ProduceResponse.TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=parts)
                    for (name, topic_id), parts in topics.items()
                ]
            )
        )


def _all_keyed(data: memoryview | bytearray, room: Room | None) -> bool:
    return all(record.key is not None for record in records.iterate(data, room))


def _unreadable(e: records.CorruptBatch) -> Outcome:
    """Whoever sent too much at once sends it in parts; what is damaged is sent again."""
    code = ErrorCode.MESSAGE_TOO_LARGE if isinstance(e, records.TooMuch) else ErrorCode.CORRUPT_MESSAGE
    return Outcome(code, str(e))
