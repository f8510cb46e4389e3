"""The tier in worlds of tail moves (`tails`): settings, faults of the store, and a checker that knows both tiers.

Invariant (`BothTiersWatch`): every record below the local log of a replica in the ISR is in a finished copy whose object is in the store. So no order of
copies, tail moves, elections and kills leaves a record in neither tier. For topics whose records are never deleted. Does not contain the moves (`tailmoves`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import TopicPartition
from brokerd.remote.segments import RemoteSegment, SegmentState
from brokerd.replication.replica import Replica
from tests.simulation.checkers import Violation
from tests.simulation.cluster import Cluster

SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.url": "s3://simulated",
    "remote.log.manager.task.interval.ms": "200",
    "remote.log.metadata.topic.num.partitions": "2",
}
TOPIC = {"remote_storage_enable": "true", "segment_bytes": "2048", "local_retention_bytes": "6000"}
FAILING = (0.1, 0.5)
HELPER_FAILS = (0.1, 0.5)


class BothTiersWatch:
    def __init__(self, cluster: Cluster, topics: tuple[str, ...]) -> None:
        self.cluster, self._topics = cluster, topics
        self._checked: dict[tuple[str, int, TopicPartition], int] = {}
        """{(broker, life, partition): local log start that was checked}"""
        self._seen: dict[TopicPartition, dict[str, RemoteSegment]] = {}
        """Segments that some broker has read as finished. The brokers that read them may all be down now."""
        cluster.world.watchers.append(self._check)

    def _check(self) -> None:
        for node in self.cluster.touched_brokers():
            for tp, replica in node.broker.replica_manager.hosted.items():
                if replica.topic in self._topics and replica.offline_reason is None:
                    key = node.name, node.life, tp
                    state = replica.core.state
                    # An observer that a new assignment makes a replica stays out of the ISR until the leader's local log starts where its own does.
                    counts = state is not None and node.broker_id in state.isr_ids
                    if counts and replica.log.start_offset > self._checked.get(key, 0):
                        self._checked[key] = replica.log.start_offset
                        self._all_are_remote(node.name, tp, replica)

    def _all_are_remote(self, broker: str, tp: TopicPartition, replica: Replica) -> None:
        reached, upto = 0, replica.log.start_offset
        for segment in sorted(self._finished_segments(tp), key=lambda s: (s.start_offset, s.end_offset)):
            if segment.start_offset <= reached:
                reached = max(reached, segment.end_offset)
        if reached < upto:
            raise Violation(
                f"{replica.name} on {broker}: the local log starts at {upto}, and the copies of the store end at {reached}"
            )
        self.cluster.world.reached["local log start checked against the store"] += 1

    def _finished_segments(self, tp: TopicPartition) -> list[RemoteSegment]:
        """Segments that some broker has read as finished, with a whole object in the store."""
        seen, sizes = self._seen.setdefault(tp, {}), dict[str, int]()
        for node in self.cluster.brokers.values():
            for logs in node.broker.remote_logs.logs.values() if node.alive else ():
                if tp in logs:
                    seen.update((s.segment_id, s) for s in logs[tp].in_state(SegmentState.COPY_FINISHED))
        for name, data in self.cluster.remote_store.objects.items():
            if name.endswith(".log"):
                sizes[name.rpartition("/")[2][21:-4]] = len(data)
        return [s for s in seen.values() if sizes.get(s.segment_id) == s.size_bytes]


def store_faults(
    cluster: Cluster, later: Callable[[float, float, Callable[[], object]], None]
) -> list[Callable[[], None]]:
    """Faults for an injector. `later(low_s, high_s, heal)` calls `heal` within that time."""
    store, world = cluster.remote_store, cluster.world

    def take_store_away() -> None:
        store.away = True
        world.deliver("the remote store is away")
        later(0.5, 6, lambda: setattr(store, "away", False))

    def let_store_fail() -> None:
        store.failing = world.rng.uniform(*FAILING)
        world.deliver(f"the remote store fails {store.failing:.0%} of the requests")
        later(1, 8, lambda: setattr(store, "failing", 0.0))

    def helpers() -> None:
        for node in cluster.brokers.values():
            if node.remote_helper is not None:
                node.remote_helper.fails = world.rng.uniform(*HELPER_FAILS)
        world.deliver("helpers of the remote store are killed again and again")
        later(1, 8, lambda: heal_helpers(cluster))

    return [take_store_away, let_store_fail, helpers]


def heal_helpers(cluster: Cluster) -> None:
    for node in cluster.brokers.values():
        if node.remote_helper is not None:
            node.remote_helper.fails = 0.0
