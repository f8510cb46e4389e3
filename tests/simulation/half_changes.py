"""Worlds of half messages whose topics get more partitions and another retention, and in which half messages and decisions are repeated late, under the
faults of `halves`. `python -m tests.simulation --half-changes`.

Invariants, in addition to those of `halves`: until `decided_keep_ms` after a decision each leader rejects another decision and names the first one, and rejects
another half message with the id, also if the leader changed and the oldest records of the log were deleted. Retention does not apply to the front topic.
In worlds with odd seeds retention deletes delivered messages of the topic, in which case no machine loses its memory (`RETAINED`). Does not check: ids that
are used again after `decided_keep_ms`.
"""

from __future__ import annotations

from brokerd.delivery.half_messages import ALREADY, HalfRejection
from brokerd.wire.records import Record
from tests.simulation import halves
from tests.simulation.checkers import History, Violation
from tests.simulation.cluster import Cluster
from tests.simulation.halves import (
    CHECK,
    EXPIRED,
    FRONT,
    MEANINGS,
    TOPIC,
    HalfMessage,
    HalfMessages,
    HalfProducer,
    id_and_decision,
)
from tests.simulation.producer_state import RestartWatch
from tests.simulation.topic_changes import RETENTIONS, TopicOperator, front_configs
from tests.simulation.world import World

COUNTS = (3, 4)
SETTINGS = {"log.retention.check.interval.ms": "1000"}
LIMITS = halves.LIMITS | {"offsets_per_chunk": 8, "log_start_ms": 500}
"""The log start offset follows the oldest undecided message closely."""
LATE_MS = 8_000
"""A half message is not repeated in the last part of the time in which its id is known: its request may wait for a broker that does not run."""


class RepeatProducer(HalfProducer):
    """Repeats half messages and decisions whose fate is known. Nothing that it sends may be accepted."""

    abortive = True

    def _next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        now_ms = self.clock().wall_ms
        known = [i for i, h in self.shop.halves.items() if self._is_known(h, now_ms)]
        if not known:
            self.call_later(self._next)
            return
        chosen = self.world.rng.sample(known, min(len(known), self.world.between(1, 3)))
        self.records = [self._repeated_record(i, half_id, now_ms) for i, half_id in enumerate(chosen)]
        self._send()

    def _is_known(self, half: HalfMessage, now_ms: int) -> bool:
        return half.partition == self.partition and half.fate is not None and now_ms < half.kept_until_ms

    def _repeated_record(self, position: int, half_id: bytes, now_ms: int) -> Record:
        if self.shop.halves[half_id].kept_until_ms - LATE_MS > now_ms and self.world.chance(0.5):
            return Record(position, now_ms, b"k", half_id, (("x-half-id", half_id),))
        return self._decision(position, half_id, now_ms)

    def _send(self) -> None:
        now_ms = self.clock().wall_ms
        for half_id, decision in map(id_and_decision, self.records):
            if decision is None and self.shop.halves[half_id].kept_until_ms - LATE_MS <= now_ms:
                self._next()
                return
        super()._send()

    def _on_acknowledged(self) -> None:
        raise Violation(f"{self.name}: accepted again: {[id_and_decision(r) for r in self.records]}")

    def _on_rejected(self, record: Record, message: str) -> None:
        half_id, decision = id_and_decision(record)
        half, rejection = self.shop.halves[half_id], MEANINGS[message]
        assert half.fate is not None
        expected = HalfRejection.ID_IN_USE if decision is None else ALREADY[half.fate]
        if rejection is HalfRejection.UNKNOWN_ID and self.clock().wall_ms >= half.kept_until_ms:
            self.world.reached["decision repeated after its record was deleted"] += 1
        elif rejection is not expected:
            raise Violation(f"{decision or 'a half message'} with {half_id!r} is rejected: {rejection}, not {expected}")
        else:
            self.world.reached[f"repeated: {'half message' if decision is None else half.fate.value}"] += 1


RETAINED = 2
"""In one world of so many the retention of the topic changes. A power failure could then lose the producer state of deleted messages with its snapshot."""


def change(
    cluster: Cluster, history: History, shop: HalfMessages, producers: list[HalfProducer], duration_s: float
) -> None:
    def add(kind: type[HalfProducer], partition: int, names: str) -> None:
        producers.extend(kind(cluster, history, f"p{partition}{n}", partition, shop) for n in names)

    def on_partitions_added(name: str, count: int) -> None:
        if name == FRONT and not producers[0].stopped:
            add(HalfProducer, count - 1, "ab")
            add(RepeatProducer, count - 1, "r")

    for partition in range(cluster.topics[FRONT].partitions):
        add(RepeatProducer, partition, "r")
    configs = {FRONT: front_configs("1024"), CHECK: RETENTIONS}
    if cluster.world.seed % RETAINED:
        configs[TOPIC] = RETENTIONS
        RestartWatch(cluster, (TOPIC,))
    TopicOperator(cluster, duration_s, (TOPIC, FRONT, CHECK, EXPIRED), COUNTS, on_partitions_added, configs)


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    halves.live(
        world,
        history,
        faults_s,
        faults_max,
        settings=SETTINGS,
        limits=LIMITS,
        change=change,
        memory_is_lost=not world.seed % RETAINED,
    )
