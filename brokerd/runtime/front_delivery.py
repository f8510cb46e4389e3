"""Delivery of delayed messages and half messages: the front partitions that this broker leads, with their logs and the connection to the target partitions.

Invariant: a front partition is served only in the leader epoch for which this broker was elected. A front partition of half messages continues when its high
watermark changes, because a decision is then stable. A front partition of delayed messages waits for the periodic timer.
Does not contain: the choice of due records, the journal
(`brokerd/delivery`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.produce import ProduceApi
from brokerd.apis.produce_results import PendingAppend
from brokerd.cluster.configs import check_topic_name, expired_topic_name
from brokerd.cluster.model import NO_LEADER, Now, TopicPartition
from brokerd.delivery.delay_schedule import BUCKET_MS
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.front_log import FrontTarget, IndexedSegment, T
from brokerd.delivery.front_partition import FrontPartition
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.recent_records import RecentRecords
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.net.loop import Loop
from brokerd.net.thread_times import ThreadTimes
from brokerd.replication.partition_events import LogStartRaised
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.runtime.wakeups import RunInterval, Wakeup
from brokerd.storage.delay_index import InvalidDelayIndex
from brokerd.storage.delay_index_file import open_delay_index
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.storage.segment import IndexFileState
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest, ProduceResponse

log = logging.getLogger(__name__)

PRODUCE_VERSION = 9
"""Version of Produce between brokers."""
TIMEOUT_MS = 5_000


class ReplicaFrontLog:
    """`FrontLog` of a replica that this broker leads in `epoch`."""

    def __init__(self, replica: Replica, epoch: int, delivery: FrontDelivery) -> None:
        self._replica, self._epoch, self._delivery = replica, epoch, delivery
        self._reading = False
        self.poke: Callable[[], None] = lambda: None
        self.hw_key = replica.hw_key()
        """The purgatory key of the high watermark."""

    @property
    def tp(self) -> TopicPartition:
        return self._replica.tp

    @property
    def leads(self) -> bool:
        replica = self._replica
        replica_manager = self._delivery.replica_manager
        return (
            replica.leads
            and replica.core.leader_epoch == self._epoch
            and replica_manager.hosted.get(replica.tp) is replica
            and not replica_manager.produce_suspended
        )

    @property
    def start_offset(self) -> int:
        return self._replica.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._replica.core.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._replica.last_stable()

    @property
    def settled(self) -> bool:
        core = self._replica.core
        return core.serves_latest and core.all_followers_caught_up_to_epoch

    @property
    def batch_bytes_max(self) -> int:
        return self._replica.config.max_message_bytes

    @property
    def writable(self) -> bool:
        return self.leads and self._delivery.produce.appender.append_problem(self._replica, ACKS_ALL) is None

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        if self._reading:
            return None
        read_ahead = self._delivery.read_ahead
        try:
            with blocking_reads() if read_ahead.blind else nonblocking_reads():
                return self._replica.log.read(offset, bytes_max, upto).bytes()
        except NotInPageCache as cold:
            self._reading = True

            def on_loaded() -> None:
                self._reading = False
                self.poke()

            read_ahead.look_up(cold, on_loaded)
            return None

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        return [
            (a.producer_id, a.first_offset, a.last_offset) for a in self._replica.log.aborted.overlapping(offset, upto)
        ]

    def indexed_segments(self) -> Sequence[IndexedSegment]:
        disk = self._delivery.replica_manager.disk
        return [
            IndexedSegment(
                s.base_offset, s.end_offset, partial(open_delay_index, disk, s.path, s.base_offset, s.size, BUCKET_MS)
            )
            for s in self._replica.log.segments[:-1]
            if s.delay_index is not IndexFileState.ABSENT
        ]

    def discard_index(self, base_offset: int) -> None:
        for segment in self._replica.log.segments:
            if segment.base_offset == base_offset:
                log.warning("invalid delay index discarded: partition=%s segment=%s", self._replica.name, segment)
                try:
                    segment.remove_delay_index()
                except DiskFailed as e:
                    self._delivery.replica_manager.fail(self._replica, e)

    def run(self, job: Callable[[], T], done: Callable[[T | None], None]) -> None:
        results: list[T] = []

        def on_ended(error: BaseException | None) -> None:
            if error is not None and not isinstance(error, InvalidDelayIndex):
                raise error
            done(results[0] if error is None else None)
            self.poke()

        self._delivery.read_ahead.run(lambda: results.append(job()), on_ended)

    def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
        if not self.leads:
            return None
        produce = self._delivery.produce
        outcome = produce.appender.append_journal(self._replica, target, values)
        if not isinstance(outcome, PendingAppend):
            return None
        if outcome.required_end > self.high_watermark:
            produce.acknowledgements.wait([outcome], ACKS_ALL, TIMEOUT_MS, lambda results: self.poke(), client=False)
        return outcome.required_end

    def delete_below(self, offset: int) -> None:
        replica_manager = self._delivery.replica_manager
        try:
            replica_manager.delete_below(self._replica, offset)
        except DiskFailed as e:
            replica_manager.fail(self._replica, e)
            return
        replica_manager.run(self._replica, LogStartRaised(self._replica.log.start_offset), self._delivery.clock())

    def send(self, target: FrontTarget, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        self._delivery.send(self._replica, target, batch, done)


class FrontDelivery:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        produce: ProduceApi,
        loop: Loop,
        read_ahead: ReadAhead,
        client: InterBrokerClient,
        draw_producer_id: Callable[[], int],
        thread_times: Callable[[], ThreadTimes | None] = lambda: None,
        limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        self.replica_manager, self.produce, self.read_ahead = replica_manager, produce, read_ahead
        self._loop, self._client, self._draw_producer_id, self._limits = loop, client, draw_producer_id, limits
        self.fronts: dict[tuple[str, int], tuple[FrontPartition, ReplicaFrontLog]] = {}
        """The front partitions that this broker leads, by (topic, partition)."""
        self.delayed_fronts: LedFronts[DelayedFront] = LedFronts()
        self._recent_records = RecentRecords()
        self._run_interval = RunInterval(thread_times)
        self._wakeups: dict[ReplicaFrontLog, Wakeup] = {}

    def clock(self) -> Now:
        return self._loop.now

    def on_election(self, topic: str, partition: int, epoch: int) -> None:
        """Called when this broker becomes the leader of a partition. Topics that are not front topics are ignored."""
        self.on_resignation(topic, partition)
        replica = self.replica_manager.find_by_name(topic, partition)
        if replica is None or not (replica.config.delay_topic or replica.config.half_topic):
            return
        front_log = ReplicaFrontLog(replica, epoch, self)
        front: HalfFront | DelayedFront
        if replica.config.half_topic:
            front = half_front = HalfFront(front_log, self._draw_producer_id, self._recent_records, self._limits)
            self.produce.appender.half_fronts.add(replica.tp, half_front, lambda: front_log.leads)
            # Most changes of the high watermark are half messages, or journal entries of the delivery itself.
            self.watch(front_log, lambda now: self._tick(front, front_log, now), half_front.has_stable_decision)
        else:
            front = DelayedFront(front_log, self._draw_producer_id, self._limits)
            self.delayed_fronts.add(replica.tp, front, lambda: front_log.leads)
        front_log.poke = lambda: self._tick(front, front_log, self.clock())
        self.fronts[topic, partition] = front, front_log

    def on_resignation(self, topic: str, partition: int) -> None:
        found = self.fronts.pop((topic, partition), None)
        if found is not None:
            found[0].close()
            self.unwatch(found[1])
            self.produce.appender.half_fronts.remove(found[1].tp)
            self.delayed_fronts.remove(found[1].tp)

    def watch(
        self, front_log: ReplicaFrontLog, run: Callable[[Now], None], is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        """Call `run` after changes of the high watermark of this partition, if `is_needed` then returns True, until `unwatch`."""
        wakeup = Wakeup(self._loop.call_at, self.clock, run, self._run_interval.ms, is_needed)
        self._wakeups[front_log] = wakeup
        self.replica_manager.purgatory.watch(front_log.hw_key, front_log, wakeup.request)

    def unwatch(self, front_log: ReplicaFrontLog) -> None:
        wakeup = self._wakeups.pop(front_log, None)
        if wakeup is not None:
            wakeup.cancel()
            self.replica_manager.purgatory.unwatch(front_log.hw_key, front_log)

    def tick(self, now: Now) -> None:
        for front, front_log in list(self.fronts.values()):
            self._tick(front, front_log, now)

    def _tick(self, front: FrontPartition, front_log: ReplicaFrontLog, now: Now) -> None:
        if front_log.leads:
            front.tick(now)

    def _target_name(self, replica: Replica, target: FrontTarget) -> str:
        if target is FrontTarget.TOPIC:
            return replica.config.delay_topic or replica.config.half_topic
        own = self.replica_manager.image.topics.get(replica.tp.topic_id)
        if own is None:
            return ""
        return (check_topic_name if target is FrontTarget.CHECK else expired_topic_name)(own.name)

    def send(self, replica: Replica, target: FrontTarget, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        """Send a batch to the leader of a target partition of a front partition."""
        name, index = self._target_name(replica, target), replica.tp.partition
        topic = self.replica_manager.image.topic_named(name)
        state = topic.partitions.get(index) if topic is not None and topic.ready else None
        body = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=name,
                    partition_data=[ProduceRequest.PartitionProduceData(index=index, records=bytearray(batch))],
                )
            ],
        )

        def on_response(response: ProduceResponse | None) -> None:
            error = ErrorCode.NETWORK_EXCEPTION
            if response is not None:
                error = ErrorCode(response.responses[0].partition_responses[0].error_code)
            if error:
                log.info("records of a front topic not accepted: partition=%s-%d error=%s", name, index, error.name)
            done(error, self.clock())

        leader = state.leader if state is not None else NO_LEADER
        self._client.send_request(leader, ApiKey.PRODUCE, PRODUCE_VERSION, body, on_response)
