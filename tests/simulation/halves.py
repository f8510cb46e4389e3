"""Worlds of half messages: producers write half messages to a front topic and decide most of them, often two at a time about the same one, under the
faults of `run` except jumps of wall clocks. `python -m tests.simulation --halves`. The times of checks and of expiry are shortened.

Invariants: each acknowledged half message has one fate. A committed one is in the topic exactly once, in the partition with the same number; a rolled back
one is nowhere; one without a decision is among the expired ones exactly once. At most one decision of a message is acknowledged, it is the fate, and a
rejected one names the fate. No check and no expiry comes early, and no check has a number above the maximum. At the end no message is undecided, and
nothing stays in the front partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.half_messages import HalfDecision, HalfRejection
from brokerd.delivery.half_records import REJECTIONS
from brokerd.delivery.limits import DeliveryLimits
from brokerd.runtime.front_delivery import FrontDelivery
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, InvariantChecker, Violation, data_records, logs_agree
from tests.simulation.clients import FATAL, Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.delays import DelayFaultInjector
from tests.simulation.fault_injector import FaultKinds
from tests.simulation.metrics import UndecidedChecker
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.world import S, World

TOPIC, FRONT = "paid", "paid.half"
CHECK, EXPIRED = "paid.half.check", "paid.half.expired"
KEPT = (TOPIC, EXPIRED)
PARTITIONS = 2
FIRST_CHECK_MS, CHECK_INTERVAL_MS, CHECKS_MAX, DECIDED_KEEP_MS = 1_500, 2_000, 4, 20_000
LIMITS = {
    "first_check_ms": FIRST_CHECK_MS,
    "check_interval_ms": CHECK_INTERVAL_MS,
    "checks_max": CHECKS_MAX,
    "decided_keep_ms": DECIDED_KEEP_MS,
}
"""The rules of the product with shorter times: a world has seconds, not minutes."""
EXPIRY_MS = FIRST_CHECK_MS + CHECKS_MAX * CHECK_INTERVAL_MS
DECIDED_FROM_MS, DECIDED_UPTO_MS = 0, EXPIRY_MS + 1_000
"""Ages at which messages are decided. The latest ones race with the expiry."""
METRIC_CHECKS = 12
"""Comparisons of the values of each partition, half a second apart, while messages expire."""
COMMIT, ROLLBACK = HalfDecision.COMMIT, HalfDecision.ROLLBACK
FATES = {
    HalfRejection.ALREADY_COMMITTED: COMMIT,
    HalfRejection.ALREADY_ROLLED_BACK: ROLLBACK,
    HalfRejection.ALREADY_EXPIRED: HalfDecision.EXPIRED,
}
MEANINGS = {message: rejection for rejection, message in REJECTIONS.items()}


@dataclass(slots=True)
class HalfMessage:
    """A half message as its producer knows it. `decide_at_ms` None: nobody decides it."""

    partition: int
    sent_ms: int
    decide_at_ms: int | None
    acknowledged: bool = False
    decision: HalfDecision | None = None
    """The acknowledged decision."""
    fate: HalfDecision | None = None
    """The fate that a response has named."""
    kept_from_ms: int = 0
    """The record of the fate is not older than this."""

    def on_decision(self, fate: HalfDecision, kept_from_ms: int) -> None:
        self.fate = fate
        self.kept_from_ms = max(self.kept_from_ms, kept_from_ms)

    @property
    def kept_until_ms(self) -> int:
        """Until this time each leader knows the fate."""
        return self.kept_from_ms + DECIDED_KEEP_MS


@dataclass(slots=True)
class HalfMessages:
    """The half messages of the producers, by id."""

    halves: dict[bytes, HalfMessage] = field(default_factory=dict)
    claims: list[tuple[bytes, HalfDecision]] = field(default_factory=list)
    """Errors in the responses to rejected decisions."""
    clock_error_ms: int = 0
    """The largest difference between two readings of wall clocks at one moment, of different brokers or before and after a step."""


class HalfProducer(Producer):
    """Writes half messages and decisions with idempotence: also decisions about messages of the other producers of its partition."""

    def __init__(self, cluster: Cluster, history: History, name: str, partition: int, shop: HalfMessages) -> None:
        self.shop = shop
        self.records: list[Record] = []
        self.began_ms = 0
        """The time of the first request with `records`."""
        super().__init__(cluster, history, name, FRONT, partition, pause_ms=120)

    def _next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        self.began_ms = now_ms = self.clock().wall_ms
        due = [
            half_id
            for half_id, half in self.shop.halves.items()
            if half.partition == self.partition
            and half.acknowledged
            and half.decide_at_ms is not None
            and half.decide_at_ms <= now_ms < half.sent_ms + DECIDED_UPTO_MS
        ]
        if due and self.world.chance(0.6):
            chosen = self.world.rng.sample(due, min(len(due), self.world.between(1, 3)))
            self.records = [self._decision(i, half_id, now_ms) for i, half_id in enumerate(chosen)]
        else:
            self.records = [self._new_half_message(i, now_ms) for i in range(self.world.between(1, 3))]
        self._send()

    def _new_half_message(self, position: int, now_ms: int) -> Record:
        self.number += 1
        half_id = f"{self.name}:{self.number}".encode()
        decide_at = None
        if not self.world.chance(0.15):
            late = self.world.chance(0.2)
            decide_at = now_ms + self.world.between(EXPIRY_MS - 1_000 if late else DECIDED_FROM_MS, DECIDED_UPTO_MS)
        self.shop.halves[half_id] = HalfMessage(self.partition, now_ms, decide_at)
        return Record(position, now_ms, b"k", half_id, (("x-half-id", half_id),))

    def _decision(self, position: int, half_id: bytes, now_ms: int) -> Record:
        decision = self.world.rng.choice((COMMIT, ROLLBACK))
        return Record(position, now_ms, b"k", None, (("x-half-id", half_id), ("x-half", decision.value.encode())))

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
            self._on_acknowledged()
            self.sequence += len(self.records)
            self.call_later(self._next, self.world.between(1, self.pause_ms))
            return
        if code is ErrorCode.INVALID_RECORD and response.record_errors:
            for error in response.record_errors:
                self._on_rejected(self.records[error.batch_index], error.batch_index_error_message)
            self.call_later(self._next, self.world.between(1, self.pause_ms))
            return
        if code in FATAL:
            raise Violation(f"{self.name} at {self.sequence}: {code.name} {response.error_message}")
        self.world.reached["half record not stable"] += code is ErrorCode.NOT_ENOUGH_REPLICAS
        self.leaders.pop((FRONT, self.partition), None)
        self.refresh(lambda: self.call_later(self._send))

    def _on_acknowledged(self) -> None:
        self.history.acks += len(self.records)
        for record in self.records:
            half_id, decision = id_and_decision(record)
            half = self.shop.halves[half_id]
            if decision is None:
                half.acknowledged = True
                continue
            if half.decision is not None:
                raise Violation(f"{half_id!r}: {decision} is acknowledged after {half.decision}")
            half.decision = decision
            half.on_decision(decision, self.began_ms - self.shop.clock_error_ms)

    def _on_rejected(self, record: Record, message: str) -> None:
        half_id, decision = id_and_decision(record)
        half, rejection = self.shop.halves[half_id], MEANINGS[message]
        if decision is None:
            raise Violation(f"the half message {half_id!r} is rejected: {rejection}")
        fate = FATES.get(rejection)
        if fate is not None:
            self.shop.claims.append((half_id, fate))
            half.on_decision(fate, half.sent_ms - self.shop.clock_error_ms)
            self.world.reached[f"second decision rejected after {fate.value}"] += 1
        elif self.clock().wall_ms < half.sent_ms + DECIDED_KEEP_MS - self.shop.clock_error_ms:
            raise Violation(f"{decision} of {half_id!r} is rejected: {rejection}")


def id_and_decision(record: Record) -> tuple[bytes, HalfDecision | None]:
    headers = dict(record.headers)
    decision = headers.get("x-half")
    half_id = headers["x-half-id"]
    assert half_id is not None
    return half_id, HalfDecision(decision.decode()) if decision is not None else None


@contextmanager
def sends_watched(world: World, shop: HalfMessages) -> Iterator[None]:
    """No check and no expiry comes before its time."""
    send = FrontDelivery.send
    sent: Counter[tuple[FrontTarget, bytes]] = Counter()

    def send_and_check(self: FrontDelivery, replica: Any, target: FrontTarget, batch: bytes, done: Any) -> None:
        if replica.topic != FRONT:
            send(self, replica, target, batch, done)
            return
        now_ms = self.clock().wall_ms + shop.clock_error_ms
        for record in records.iterate(batch):
            assert record.value is not None
            age_ms = now_ms - shop.halves[record.value].sent_ms
            if target is FrontTarget.CHECK:
                number = int(dict(record.headers)["x-half-check"] or b"0")
                if not 1 <= number <= CHECKS_MAX or age_ms < FIRST_CHECK_MS + (number - 1) * CHECK_INTERVAL_MS:
                    raise Violation(f"check {number} of {record.value!r} comes {age_ms} ms after it was sent")
            elif target is FrontTarget.EXPIRED and age_ms < EXPIRY_MS:
                raise Violation(f"{record.value!r} expires {age_ms} ms after it was sent")
            sent[target, record.value] += 1
            world.reached["half message sent again"] += target is FrontTarget.TOPIC and sent[target, record.value] == 2
        world.reached[f"half batch to {target.value}"] += 1
        send(self, replica, target, batch, done)

    FrontDelivery.send = send_and_check  # type: ignore[method-assign]
    try:
        yield
    finally:
        FrontDelivery.send = send  # type: ignore[method-assign]


def is_drained(cluster: Cluster) -> bool:
    """Every front partition has a leader without undecided messages, and nothing stays in its log."""
    for partition in range(cluster.topics[FRONT].partitions):
        replica = leader_replica(cluster, FRONT, partition)
        node = cluster.brokers[replica.core.leader]
        found = node.broker.front_delivery.fronts.get((FRONT, partition))
        if found is None or not isinstance(found[0], HalfFront) or not found[0].ready:
            return False
        if found[0].undecided or found[0].waiting or replica.log.start_offset < replica.log.end_offset:
            return False
    return True


def undecided_ids(shop: HalfMessages, partition: int) -> set[bytes]:
    own = ((i, h) for i, h in shop.halves.items() if h.partition == partition)
    return {half_id for half_id, half in own if half.acknowledged and half.decision is None}


def verify(cluster: Cluster, world: World, shop: HalfMessages) -> None:
    delivered, expired = find_ids(cluster, TOPIC, shop), find_ids(cluster, EXPIRED, shop)
    for half_id in delivered | expired:
        if half_id not in shop.halves:
            raise Violation(f"{half_id!r} was delivered, and nobody wrote it")
    for half_id, half in shop.halves.items():
        if not half.acknowledged:
            raise Violation(f"{half_id!r} was never acknowledged")
        fate = COMMIT if half_id in delivered else HalfDecision.EXPIRED if half_id in expired else ROLLBACK
        if half_id in delivered and half_id in expired:
            raise Violation(f"{half_id!r} is delivered and expired")
        if fate is not (half.decision or HalfDecision.EXPIRED):
            raise Violation(f"{half_id!r} was decided: {half.decision}; its fate is {fate}")
        world.reached[f"half message: {fate.value}"] += 1
        if wrong := [claim for claimed, claim in shop.claims if claimed == half_id and claim is not fate]:
            raise Violation(f"a rejected decision about {half_id!r} named {wrong[0]}, its fate is {fate}")


def find_ids(cluster: Cluster, name: str, shop: HalfMessages) -> set[bytes]:
    """The ids in a topic, each once and in the partition of its message."""
    found: set[bytes] = set()
    topic = cluster.image.topic_named(name)
    assert topic is not None
    for partition in topic.partitions:
        tp = TopicPartition(topic.topic_id, partition)
        assert cluster.archive is not None
        counted = Counter(r.value or b"" for r in data_records(cluster.archive.batches_of(tp)))
        if twice := [v for v, n in counted.items() if n > 1]:
            raise Violation(f"{name}-{partition} has {twice[:5]} more than once")
        if strange := [v for v in counted if v not in shop.halves or shop.halves[v].partition != partition]:
            raise Violation(f"{name}-{partition} has {strange[:5]}, which nobody wrote there")
        found |= set(counted)
    return found


Change = Callable[[Cluster, History, HalfMessages, list[HalfProducer], float], None]


def live(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    settings: dict[str, str] | None = None,
    limits: Mapping[str, int] = LIMITS,
    change: Change = lambda *rest: None,
    memory_is_lost: bool = True,
) -> None:
    """`change`: called before the faults, with the producers and the duration of the faults. `memory_is_lost`: machines may lose power, and disks fail."""
    fault_kinds = FaultKinds.draw(world)
    if not memory_is_lost:
        fault_kinds = replace(fault_kinds, power=False, disks=False)
    world.deliver(f"fault_kinds: {fault_kinds}")
    shop = HalfMessages()
    with sends_watched(world, shop):
        cluster = Cluster(
            world,
            settings=settings,
            probes=PROBES[world.seed % 2],
            cold=COLD[world.seed % 3],
            limits=DeliveryLimits(**limits),
        )
        InvariantChecker(cluster)
        cluster.archive = Archive(cluster, KEPT)
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        for name in (TOPIC, CHECK, EXPIRED):
            cluster.want_topic(name, PARTITIONS, 3, min_insync_replicas="2")
        cluster.want_topic(FRONT, PARTITIONS, 3, min_insync_replicas="2", weir_half_topic=TOPIC, **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        producers = [HalfProducer(cluster, history, f"p{p}{n}", p, shop) for p in range(PARTITIONS) for n in "ab"]
        world.run(world.now_us + 1 * S)
        change(cluster, history, shop, producers, faults_s)
        injector = DelayFaultInjector(cluster, history, fault_kinds, faults_max)
        injector.run(faults_s)
        cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
        for producer in producers:
            producer.stopped = True
        cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last responses to the producers")
        metrics = UndecidedChecker(FRONT, EXPIRED)
        for _ in range(METRIC_CHECKS):
            world.run(world.now_us + S // 2)
            for partition in range(cluster.topics[FRONT].partitions):
                world.reached["metric of half messages"] += metrics.check(
                    cluster, partition, undecided_ids(shop, partition)
                )
        cluster.run_until(lambda: is_drained(cluster), RECOVERY_S_MAX, "all half messages decided and deleted")
        cluster.run_until(cluster.level, 20, "equal high watermarks")
        logs_agree(cluster, but=(FRONT,))
        cluster.archive.check_logs()
        verify(cluster, world, shop)
