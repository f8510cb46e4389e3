"""The producer state of the replicas of a partition: what a leader needs to recognise batches that their producers send again.

Invariants: at the end each replica knows the producers that the others know (`producers_agree`). A follower that starts at the log start of its leader knows
the producers of the deleted records (`RestartWatch`). Does not compare states at or above a log end offset.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import permutations

from brokerd.cluster.model import TopicPartition
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.storage.producers import Producers
from tests.simulation.checkers import Violation
from tests.simulation.cluster import Cluster


def unknown(theirs: Producers, ours: Producers, end: int) -> list[str]:
    """Producer state in `theirs` below `end` and not in `ours`: sequences, and open transactions."""
    out = []
    for producer_id, known in theirs.known.items():
        newest = known.batches[-1][3] if known.batches else known.marker_offset
        if max(newest, known.marker_offset) >= end:
            continue
        mine = ours.known.get(producer_id)
        if mine is None or (known.batches and not mine.batches):
            out.append(f"producer {producer_id}, last sequence at {newest}")
        elif known.epoch == mine.epoch and known.batches and mine.batches and known.batches[-1] != mine.batches[-1]:
            if mine.batches[-1][3] < end:
                out.append(f"producer {producer_id}: {mine.batches[-1]} instead of {known.batches[-1]}")
        elif known.first_offset >= 0 and mine.first_offset != known.first_offset and mine.marker_offset < end:
            out.append(f"the transaction of producer {producer_id}, begun at {known.first_offset}")
    return out


class RestartWatch:
    """Compares each log that was deleted and starts again above offset 0 with the log of its leader, at that moment."""

    def __init__(self, cluster: Cluster, topics: Container[str] | None = None) -> None:
        """`topics`: None for all."""
        self.cluster, self._topics = cluster, topics
        self._cuts: dict[tuple[str, int, TopicPartition], int] = {}
        cluster.world.watchers.append(self._check)

    def _check(self) -> None:
        for node in self.cluster.touched_brokers():
            for tp, replica in node.broker.replica_manager.hosted.items():
                key, cuts = (node.name, node.life, tp), replica.log.flushing.cuts
                if cuts != self._cuts.get(key, 0):
                    self._cuts[key] = cuts
                    if self._topics is None or replica.topic in self._topics:
                        self._on_truncated(tp, replica)

    def _on_truncated(self, tp: TopicPartition, replica: Replica) -> None:
        log = replica.log
        node = self.cluster.brokers.get(replica.core.leader)
        if not log.start_offset or log.start_offset != log.end_offset or node is None or not node.alive:
            return
        leader = node.broker.replica_manager.hosted.get(tp)
        if leader is None or leader.core.role is not Role.LEADER or leader.log.start_offset < log.start_offset:
            return
        self.cluster.world.reached["log starts again at the log start of its leader"] += 1
        if missing := unknown(leader.log.producers, log.producers, log.start_offset):
            raise Violation(f"{replica.name}: the log starts at {log.start_offset} without {missing[:3]}")


def producers_agree(cluster: Cluster, compared: Callable[[list[Replica]], bool]) -> int:
    """Compare the replicas of each partition for which `compared` is true. Returns the number of producers that were compared."""
    count = 0
    for topic, index, state in cluster.image.each_partition():
        tp = TopicPartition(topic.topic_id, index)
        replicas = [cluster.brokers[b].broker.replica_manager.hosted[tp] for b in state.replicas]
        if not compared(replicas):
            continue
        for one, other in permutations(replicas, 2):
            end = min(one.log.end_offset, other.log.end_offset)
            if missing := unknown(one.log.producers, other.log.producers, end):
                raise Violation(f"{topic.name}-{index}: broker {other.core.broker_id} does not know {missing[:3]}")
            count += len(one.log.producers.known)
    return count
