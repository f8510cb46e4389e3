"""What a world remembers of its logs: every committed batch, as its leader held it, whether the cluster still keeps it or has let it go.

Law: what is committed stands for ever as it was first seen; a log that begins above what was seen has lost something. For topics that promise
all, and are not compacted. Called by the worlds in which logs are cut (`tails`). Must not come in: what the records say.
"""

from __future__ import annotations

from brokerd.cluster.model import TopicPartition
from brokerd.partition import Role
from brokerd.replica import Replica
from brokerd.wire import records
from tests.simulation.checkers import Violation, raw
from tests.simulation.cluster import Cluster


class Archive:
    def __init__(self, cluster: Cluster, topics: tuple[str, ...]) -> None:
        self.cluster, self._topics = cluster, topics
        self._kept: dict[TopicPartition, bytearray] = {}
        self._upto: dict[TopicPartition, int] = {}
        self._names = frozenset(n.name for n in cluster.brokers.values())
        cluster.world.watchers.append(self._look)

    def _look(self) -> None:
        touched = self.cluster.world.touched
        if touched.isdisjoint(self._names):
            return
        for node in self.cluster.brokers.values():
            if node.name in touched and node.alive and not node.frozen:
                for tp, replica in node.broker.partitions.hosted.items():
                    if replica.topic in self._topics and replica.core.role is Role.LEADER:
                        self._take(tp, replica)

    def _take(self, tp: TopicPartition, replica: Replica) -> None:
        upto, high = self._upto.get(tp, 0), replica.core.high_watermark
        if high <= upto or replica.offline_reason is not None:
            return
        if replica.log.start_offset > upto:
            raise Violation(
                f"{replica.name}: the leader's log starts at {replica.log.start_offset}, what was committed from {upto} on was never shown"
            )
        kept = self._kept.setdefault(tp, bytearray())
        for segment in replica.log.segments:
            for at, header in segment.headers(segment.position_of(max(upto, segment.base_offset))):
                if upto <= header.base_offset < high:
                    kept += segment.file.pread(header.size, at)
                    upto = header.next_offset
        self._upto[tp] = upto

    def of(self, tp: TopicPartition) -> bytes:
        """Every batch that was ever committed, in order."""
        return bytes(self._kept.get(tp, b""))

    def agrees(self) -> None:
        """What the leaders hold at the end is the end of what was committed, byte for byte."""
        for topic, index, state in self.cluster.image.each_partition():
            tp = TopicPartition(topic.topic_id, index)
            if topic.name not in self._topics or state.leader < 0:
                continue
            replica = self.cluster.brokers[state.leader].broker.partitions.hosted[tp]
            held = raw(self.cluster, state.leader, tp, replica.core.high_watermark)
            kept = self.of(tp)
            if not kept.endswith(held) or self._upto.get(tp, 0) != replica.core.high_watermark:
                raise Violation(
                    f"{topic.name}-{index}: the leader holds {len(held)} bytes up to {replica.core.high_watermark}, which are not the end of "
                    f"the {len(kept)} that were committed up to {self._upto.get(tp, 0)}"
                )


def values_in(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of every record."""
    return [(r.offset, r.value or b"") for r in records.iterate(memoryview(data))]
