"""Every committed batch of a world's logs, with the leader's bytes, whether the cluster still stores it or has deleted it.

Invariants: a committed batch never changes; a log that starts above the last recorded offset has lost something. For topics without data loss and
without compaction. Used by the worlds whose logs are truncated (`tails`). Does not interpret the records.
"""

from __future__ import annotations

from brokerd.cluster.model import TopicPartition
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.wire import records
from tests.simulation.checkers import Violation, read_bytes
from tests.simulation.cluster import Cluster


class Archive:
    def __init__(self, cluster: Cluster, topics: tuple[str, ...]) -> None:
        self.cluster, self.topics = cluster, topics
        self._kept: dict[TopicPartition, bytearray] = {}
        self._upto: dict[TopicPartition, int] = {}
        cluster.world.watchers.append(self._check)

    def _check(self) -> None:
        for node in self.cluster.touched_brokers():
            for tp, replica in node.broker.replica_manager.hosted.items():
                if replica.topic in self.topics and replica.core.role is Role.LEADER:
                    self.take(tp, replica)

    def take(self, tp: TopicPartition, replica: Replica) -> None:
        """Record the batches that the leader shows and the archive does not have."""
        upto, high = self._upto.get(tp, 0), replica.core.high_watermark
        if high <= upto or replica.offline_reason is not None:
            return
        if replica.log.start_offset > upto:
            raise Violation(
                f"{replica.name}: the leader's log starts at {replica.log.start_offset}, committed records from {upto} on were never recorded"
            )
        kept = self._kept.setdefault(tp, bytearray())
        for segment in replica.log.segments:
            for at, header in segment.headers(segment.position_of(max(upto, segment.base_offset))):
                if upto <= header.base_offset < high:
                    kept += segment.file.pread(header.size, at)
                    upto = header.next_offset
        self._upto[tp] = upto

    def batches_of(self, tp: TopicPartition) -> bytes:
        """Every batch that was ever committed, in offset order."""
        return bytes(self._kept.get(tp, b""))

    def batches_since(self, tp: TopicPartition, position: int) -> bytes:
        """The batches from a position (bytes) on."""
        return bytes(self._kept.get(tp, bytearray())[position:])

    def end_offset(self, tp: TopicPartition) -> int:
        return self._upto.get(tp, 0)

    def check_logs(self) -> None:
        """At the end the leaders' logs are, byte for byte, the end of the committed batches."""
        for topic, index, state in self.cluster.image.each_partition():
            tp = TopicPartition(topic.topic_id, index)
            if topic.name not in self.topics or state.leader < 0:
                continue
            replica = self.cluster.brokers[state.leader].broker.replica_manager.hosted[tp]
            stored = read_bytes(self.cluster, state.leader, tp, replica.core.high_watermark)
            kept = self.batches_of(tp)
            if not kept.endswith(stored) or self._upto.get(tp, 0) != replica.core.high_watermark:
                raise Violation(
                    f"{topic.name}-{index}: the leader has {len(stored)} bytes up to {replica.core.high_watermark}, which are not the end of "
                    f"the {len(kept)} that were committed up to {self._upto.get(tp, 0)}"
                )


def values_in(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of every record."""
    return [(r.offset, r.value or b"") for r in records.iterate(memoryview(data))]
