"""Worlds of topics with majority acknowledgements: `--majority`.

No committed record is lost, although members of the ISR may lack it: each elected leader has every record that any leader has exposed, with the same
leader epoch. The faults are those of the ordinary worlds, with moves to other brokers. In some worlds the topic with five replicas makes two
failures harmless.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import PartitionState, TopicPartition
from brokerd.replication.partition import Role
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.pipelined import PipelinedProducer
from tests.simulation.run import LAG_MS, LOGS, PAUSES_MS, PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.world import S, World

MAJORITY = {"weir_majority_acks_enable": "true"}


class MajorityChecker(InvariantChecker):
    majority_topics: ClassVar[Collection[str] | None] = None
    """The topics with majority acknowledgements. None: all. The rules of the next class apply to the others."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._exposed: dict[TopicPartition, tuple[int, int]] = {}
        """The highest high watermark of any leader, and the leader epoch of the record below it."""

    def check(self) -> None:
        super().check()
        touched = self.cluster.world.touched
        for node in self.cluster.brokers.values():
            if node.name not in touched or not node.alive:
                continue
            for tp, replica in node.broker.replica_manager.hosted.items():
                if self.majority_topics is not None and replica.topic not in self.majority_topics:
                    continue
                core = replica.core
                if core.role is Role.LEADER and core.high_watermark > self._exposed.get(tp, (0, 0))[0]:
                    self._exposed[tp] = core.high_watermark, replica.log.epochs.epoch_at(core.high_watermark - 1)

    def _is_majority(self, tp: TopicPartition) -> bool:
        if self.majority_topics is None:
            return True
        rows = (self.cluster.topics.get(name) for name in self.majority_topics)
        return any(row is not None and row.topic_id == tp.topic_id for row in rows)

    def _on_partition_changed(self, record: PartitionChanged) -> None:
        tp, new = TopicPartition(record.topic_id, record.partition), record.state
        if not self._is_majority(tp):
            super()._on_partition_changed(record)
            return
        old = self._states.get(tp)
        if old is not None and new.partition_epoch <= old.partition_epoch:
            return
        self._states[tp] = new
        if old is None or old.leader_epoch == new.leader_epoch:
            return
        self._led_since[tp] = self.cluster.world.now_us
        reached = self.cluster.world.reached
        if new.leader < 0:
            reached["vote started"] += 1
        elif old.leader == new.leader:
            reached["same leader in a new epoch"] += 1
        else:
            self._check_leader(tp, old, new)

    def _check_leader(self, tp: TopicPartition, old: PartitionState, new: PartitionState) -> None:
        reached = self.cluster.world.reached
        if old.leader >= 0:
            raise Violation(f"{tp}: {new.leader} succeeds {old.leader} without a vote")
        if new.leader in old.isr_ids:
            reached["vote for a member of the ISR"] += 1
        elif new.leader in old.elr:
            reached["vote for a member of the ELR"] += 1
        else:
            reached["vote with the reports of all voters"] += 1
            # All voters may have lost their tails: then the latest log is the best that is left.
            self._exposed.pop(tp, None)
        if new.leader != old.replicas[0]:
            reached["vote for another replica than the preferred leader"] += 1
        replica = self._hosted_replica(new.leader, new.leader_broker_epoch, tp)
        if replica is None or tp not in self._exposed:
            return
        end, epoch = self._exposed[tp]
        log = replica.log
        if log.end_offset < end or (log.start_offset < end and log.epochs.epoch_at(end - 1) != epoch):
            raise Violation(
                f"{tp}: {new.leader} was elected with the log end {log.end_offset} and epochs {log.epochs.entries}; "
                f"committed: {end}, the last record in epoch {epoch}; state {old}"
            )


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds, pause_ms = FaultKinds.draw(world), world.rng.choice(PAUSES_MS)
    brokers = world.rng.choice((4, 5))
    world.deliver(f"fault kinds: {fault_kinds}; {brokers} brokers; producers pause for up to {pause_ms} ms")
    cluster = Cluster(
        world,
        brokers=brokers,
        store_lag_ms=LAG_MS if fault_kinds.stale else 0,
        probes=PROBES[world.seed % 2],
        cold=COLD[world.seed % 3],
    )
    MajorityChecker(cluster)
    cluster.want_topic("strict", 2, 3, **MAJORITY, **world.rng.choice(LOGS))
    places = [("strict", 0), ("strict", 1)]
    if brokers == 5:
        cluster.want_topic("wide", 1, 5, **MAJORITY, **world.rng.choice(LOGS))
        places.append(("wide", 0))
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    producers: list[Producer | PipelinedProducer] = [
        Producer(cluster, history, f"p{i}", t, p, pause_ms) for i, (t, p) in enumerate(places)
    ]
    producers += [PipelinedProducer(cluster, history, f"q{n}", places, pause_ms) for n in "ab"]
    readers = [Reader(cluster, history, f"r{i}", t, p, careful=i != 1) for i, (t, p) in enumerate(places)]
    world.run(world.now_us + 1 * S)
    injector = FaultInjector(cluster, history, fault_kinds, faults_max)
    injector.run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    for producer in producers:
        producer.stopped = True
    cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last acknowledgements")
    cluster.run_until(lambda: cluster.is_settled() and cluster.level(), 20, "equal high watermarks")
    for reader in readers:
        log = leader_replica(cluster, reader.topic, reader.partition)
        cluster.run_until(
            lambda r=reader, end=log.core.high_watermark: r.offset == end, 20, f"{reader.name} at the end"
        )  # type: ignore[misc]
        reader.stopped = True
    logs_agree(cluster)
    history.verify(cluster)
