"""Worlds of delayed messages: producers write to a front topic and cancel some records, under the faults of `run` except jumps of wall clocks.
Segments are small and buckets short, so that leaders use delay indexes. Some indexes come late, are lost, or are those of an earlier content of their
segment. `python -m tests.simulation --delays`.

Invariants: each acknowledged record that was not cancelled is in the topic exactly once, in the partition with the same number. No record is in the topic
before its time. Records with equal times are in the order of their offsets in the front partition. A record whose tombstone was acknowledged before its time
is never in the topic, and neither is a record that was never sent. At the end the front partitions have no waiting records, and their log start is at their
end: nothing that was delivered stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from brokerd.cluster.model import TopicPartition
from brokerd.delivery import delay_lookup, delay_schedule
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.limits import DeliveryLimits
from brokerd.delivery.stored_delays import PendingSegment, StoredDelays, TakenBucket
from brokerd.maintenance import delay_index_build, segment_indexing
from brokerd.maintenance.delay_index_build import DelayIndexBuild, IndexedRange
from brokerd.runtime import front_delivery
from brokerd.runtime.front_delivery import FrontDelivery, ReplicaFrontLog
from brokerd.storage import delay_index
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree, values
from tests.simulation.clients import FATAL, Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.metrics import check_pending
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.world import S, World

TOPIC, FRONT = "later", "later.delay"
PARTITIONS = 2
DELAYS_MS = (0, 300, 1_000, 3_000, 8_000, 15_000)
STEP_MS = 500
"""Delivery times are multiples of this, so that many are equal."""
METRIC_CHECKS = 8
"""Comparisons of the values of each partition, half a second apart, while records are delivered."""
BUCKET_MS, LOAD_AHEAD_MS = 2_000, 700
INDEX_ROUND_MS, INDEX_RETRY_MS = 200, 1_000
LIMITS = {"index_interval_ms": INDEX_ROUND_MS}
INDEX_RATES = ("16777216", "1500")
"""Bytes per second of the build of indexes. The second rate is below the rate of produce, so leaders change before segments are indexed."""
CANCEL_MARGIN_MS = 100
"""A tombstone counts if it was acknowledged this long before the delivery time."""


@dataclass(slots=True)
class Schedule:
    """The records of the producers."""

    times: dict[bytes, int] = field(default_factory=dict)
    """{value: delivery time}"""
    placed: dict[bytes, tuple[int, int | None]] = field(default_factory=dict)
    """{value: (partition, offset in the front partition)} of acknowledged records. None: unknown."""
    cancelled: dict[bytes, int | None] = field(default_factory=dict)
    """{value: time of the acknowledgement of its tombstone}. None: the tombstone was sent."""
    delivered: Counter[bytes] = field(default_factory=Counter)
    clock_error_ms: int = 0
    """The largest difference between two readings of wall clocks at one moment, of different brokers or before and after a step."""


class DelayProducer(Producer):
    """Writes delayed records with idempotence. Some batches are tombstones for earlier records."""

    def __init__(self, cluster: Cluster, history: History, name: str, partition: int, schedule: Schedule) -> None:
        self.schedule = schedule
        self.records: list[Record] = []
        super().__init__(cluster, history, name, FRONT, partition, pause_ms=150)

    def _next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        now_ms, own = self.clock().wall_ms, self.name.encode() + b":"
        cancellable = [
            v
            for v in self.schedule.placed
            if v.startswith(own) and v not in self.schedule.cancelled and self.schedule.times[v] > now_ms
        ]
        if cancellable and self.world.chance(0.2):
            value = self.world.rng.choice(cancellable)
            self.schedule.cancelled[value] = None
            self.records = [Record(0, now_ms, value, None)]
        else:
            self.records = [self._record(i, now_ms) for i in range(self.world.between(1, 4))]
        self._send()

    def _record(self, position: int, now_ms: int) -> Record:
        self.number += 1
        value = f"{self.name}:{self.number}".encode()
        at = (now_ms + self.world.rng.choice(DELAYS_MS)) // STEP_MS * STEP_MS
        self.schedule.times[value] = at
        return Record(position, now_ms, value, value, (("x-deliver-at-ms", b"%d" % at),))

    def _send(self) -> None:
        leader = self.leaders.get((FRONT, self.partition))
        if leader is None:
            self.refresh(lambda: self.call_later(self._send))
            return
        data = records.build(self.records, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence)
        part = ProduceRequest.PartitionProduceData(index=self.partition, records=bytes(data))
        topics = [ProduceRequest.TopicProduceData(name=FRONT, partition_data=[part])]
        body = ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=topics)
        self.send_request(leader, ApiKey.PRODUCE, 9, body, self._on_response)

    def _on_response(self, body: Any) -> None:
        response: Any = body.responses[0].partition_responses[0] if body is not None else None
        code = ErrorCode(response.error_code) if response is not None else None
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            base = response.base_offset if code == ErrorCode.NONE else None
            self.history.acks += len(self.records)
            for i, record in enumerate(self.records):
                assert record.key is not None
                if record.value is None:
                    self.schedule.cancelled[record.key] = self.clock().wall_ms
                else:
                    self.schedule.placed[record.value] = self.partition, None if base is None else base + i
            self.sequence += len(self.records)
            self.call_later(self._next, self.world.between(1, self.pause_ms))
            return
        if code in FATAL:
            raise Violation(f"{self.name} at {self.sequence}: {code.name} {response.error_message}")
        self.leaders.pop((FRONT, self.partition), None)
        self.refresh(lambda: self.call_later(self._send))


class DelayFaultInjector(FaultInjector):
    """Without jumps of wall clocks: the delivery time is that of the leader's clock."""

    def __init__(self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None) -> None:
        super().__init__(cluster, history, fault_kinds, faults_max)
        self._kinds = [kind for kind in self._kinds if kind != self._wall_clock]
        self._kinds += [self._lose_index, self._earlier_index, self._earlier_index]

    def _indexed_segments(self) -> list[tuple[Any, Segment]]:
        """(disk, segment) of closed segments with an index file, of all brokers."""
        found = []
        for node in self.cluster.brokers.values():
            for replica in node.broker.replica_manager.hosted.values() if node.alive else ():
                disk = replica.log.disk
                for segment in replica.log.segments[:-1]:
                    if replica.config.delay_topic and disk.exists(segment.path.with_suffix(delay_index.SUFFIX)):
                        found.append((disk, segment))
        return found

    def _lose_index(self) -> None:
        if found := self._indexed_segments():
            disk, segment = self.world.rng.choice(found)
            self.world.deliver(f"the delay index of {segment} is lost")
            self._alter(lambda: disk.unlink(segment.path.with_suffix(delay_index.SUFFIX)))

    def _earlier_index(self) -> None:
        """The indexes of all segments become those of their first half, as after a copy of an earlier state of the folder."""
        for disk, segment in self._indexed_segments():
            self._alter(partial(self._half_index, disk, segment))

    def _half_index(self, disk: Any, segment: Segment) -> None:
        positions = [at for at, _ in segment.headers(0)]
        half = positions[len(positions) // 2]
        if not half:
            return
        self.world.deliver(f"the delay index of {segment} is that of its first {half} bytes")
        build = DelayIndexBuild(
            disk, IndexedRange(segment.path, segment.base_offset, segment.end_offset, half, (), segment.end_offset)
        )
        while not build.finished:
            build.run(1 << 20)
        disk.rename(build.temporary, build.target)
        self.world.reached["delay index of an earlier content"] += 1

    def _alter(self, change: Callable[[], None]) -> None:
        """Another process changes files. That costs no time of the broker, and a failing disk prevents it."""
        spent_us = self.world.spent_us
        with suppress(DiskFailed, DiskFull):
            change()
        self.world.spent_us = spent_us


@contextmanager
def indexes_used(world: World) -> Iterator[None]:
    """Short buckets and fast indexing. Counts the uses of indexes."""
    use, replace, discard, read = (
        StoredDelays.add_segment,
        StoredDelays.replace,
        ReplicaFrontLog.discard_index,
        TakenBucket.read,
    )

    def use_and_count(self: StoredDelays, segment: PendingSegment) -> None:
        world.reached["segment read from its delay index"] += 1
        use(self, segment)

    def replace_and_count(self: StoredDelays, *rest: Any) -> bool:
        done = replace(self, *rest)
        world.reached["delay index replaced memory" if done else "delay index was not equal to memory"] += 1
        return done

    def discard_and_count(self: ReplicaFrontLog, base_offset: int) -> None:
        world.reached["delay index discarded"] += 1
        discard(self, base_offset)

    def bucket_read(self: TakenBucket) -> bytes | int:
        world.reached["bucket read from a delay index"] += 1
        return read(self)

    with ExitStack() as stack:
        for module in (delay_schedule, delay_lookup, delay_index_build, front_delivery):
            stack.enter_context(patch.object(module, "BUCKET_MS", BUCKET_MS))
        stack.enter_context(patch.object(delay_schedule, "LOAD_AHEAD_MS", LOAD_AHEAD_MS))
        stack.enter_context(patch.object(segment_indexing, "ROUND_MS_MIN", INDEX_ROUND_MS))
        stack.enter_context(patch.object(segment_indexing, "RETRY_MS", INDEX_RETRY_MS))
        stack.enter_context(patch.object(StoredDelays, "add_segment", use_and_count))
        stack.enter_context(patch.object(StoredDelays, "replace", replace_and_count))
        stack.enter_context(patch.object(ReplicaFrontLog, "discard_index", discard_and_count))
        stack.enter_context(patch.object(TakenBucket, "read", bucket_read))
        yield


@contextmanager
def deliveries_watched(world: World, schedule: Schedule) -> Iterator[None]:
    """No batch is sent before the time of its records."""
    send = FrontDelivery.send

    def send_and_check(self: FrontDelivery, replica: Any, target: FrontTarget, batch: bytes, done: Any) -> None:
        if replica.topic != FRONT:
            send(self, replica, target, batch, done)
            return
        now_ms = self.clock().wall_ms
        for record in records.iterate(batch):
            assert record.value is not None
            if schedule.times[record.value] > now_ms + schedule.clock_error_ms:
                raise Violation(f"{record.value!r} is sent {schedule.times[record.value] - now_ms} ms early")
            schedule.delivered[record.value] += 1
            world.reached["delayed record sent again"] += schedule.delivered[record.value] == 2
        world.reached["delayed batch"] += 1

        def on_response(error: ErrorCode, at: Any) -> None:
            world.reached["delayed batch not accepted"] += bool(error)
            done(error, at)

        send(self, replica, target, batch, on_response)

    FrontDelivery.send = send_and_check  # type: ignore[method-assign]
    try:
        yield
    finally:
        FrontDelivery.send = send  # type: ignore[method-assign]


def is_drained(cluster: Cluster) -> bool:
    """Every front partition has a leader without waiting records, and nothing stays in its log."""
    for partition in range(cluster.topics[FRONT].partitions):
        replica = leader_replica(cluster, FRONT, partition)
        node = cluster.brokers[replica.core.leader]
        found = node.broker.front_delivery.fronts.get((FRONT, partition))
        if found is None or found[0].waiting or replica.log.start_offset < replica.log.end_offset:
            return False
    return True


def verify(cluster: Cluster, world: World, schedule: Schedule) -> None:
    for partition in range(cluster.topics[TOPIC].partitions):
        topic = cluster.image.topic_named(TOPIC)
        assert topic is not None
        tp = TopicPartition(topic.topic_id, partition)
        found = [value for _, value in values(cluster, topic.partitions[partition].leader, tp)]
        counted = Counter(found)
        if twice := [v for v, n in counted.items() if n > 1]:
            raise Violation(f"{TOPIC}-{partition} has {twice[:5]} more than once")
        for value, (at_partition, _) in schedule.placed.items():
            if at_partition != partition:
                continue
            cancelled_ms = schedule.cancelled.get(value, 1 << 60)
            margin_ms = CANCEL_MARGIN_MS + schedule.clock_error_ms
            in_time = cancelled_ms is not None and cancelled_ms + margin_ms < schedule.times[value]
            if value not in counted and value not in schedule.cancelled:
                raise Violation(f"{value!r} was never delivered")
            if value in counted and in_time:
                raise Violation(f"{value!r} was cancelled at {cancelled_ms}, before {schedule.times[value]}")
            world.reached["delayed record cancelled"] += in_time
        for value in found:
            if value not in schedule.times or schedule.placed.get(value, (partition, None))[0] != partition:
                raise Violation(f"{TOPIC}-{partition} has {value!r}, which nobody wrote there")
        newest: dict[int, int] = {}
        for value in found:
            offset = schedule.placed.get(value, (partition, None))[1]
            at = schedule.times[value]
            if offset is None:
                continue
            if offset < newest.get(at, -1):
                raise Violation(f"{value!r} at front offset {offset} is delivered after {newest[at]}, at the same time")
            newest[at] = offset


Change = Callable[[Cluster, History, Schedule, list[DelayProducer], float], None]


def live(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    settings: dict[str, str] | None = None,
    change: Change = lambda *rest: None,
) -> None:
    """`change`: called before the faults, with the producers and the duration of the faults."""
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault_kinds: {fault_kinds}")
    schedule = Schedule()
    own = {"weir.index.io.max.bytes.per.second": INDEX_RATES[world.seed % 4 == 3], **(settings or {})}
    with deliveries_watched(world, schedule), indexes_used(world):
        cluster = Cluster(
            world,
            settings=own,
            probes=PROBES[world.seed % 2],
            cold=COLD[world.seed % 3],
            limits=DeliveryLimits(**LIMITS),
        )
        InvariantChecker(cluster)
        small = {"segment_bytes": world.rng.choice(("2048", "4096", "16384"))}
        cluster.want_topic(TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        cluster.want_topic(FRONT, PARTITIONS, 3, min_insync_replicas="2", weir_delay_topic=TOPIC, **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        producers = [DelayProducer(cluster, history, f"p{p}{n}", p, schedule) for p in range(PARTITIONS) for n in "ab"]
        world.run(world.now_us + 1 * S)
        change(cluster, history, schedule, producers, faults_s)
        injector = DelayFaultInjector(cluster, history, fault_kinds, faults_max)
        injector.run(faults_s)
        cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
        for producer in producers:
            producer.stopped = True
        cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last responses to the producers")
        for _ in range(METRIC_CHECKS):
            world.run(world.now_us + S // 2)
            for partition in range(cluster.topics[FRONT].partitions):
                times = Counter(schedule.times[v] for v, (at, _) in schedule.placed.items() if at == partition)
                world.reached["metric of delayed messages"] += check_pending(cluster, FRONT, partition, times)
        cluster.run_until(lambda: is_drained(cluster), RECOVERY_S_MAX, "all delayed records delivered and deleted")
        cluster.run_until(cluster.level, 20, "equal high watermarks")
        logs_agree(cluster, but=(FRONT,))
        verify(cluster, world, schedule)
