"""What must be true, whatever happened. Each raises Violation with the rule and what broke it."""

from __future__ import annotations

from collections import defaultdict

from brokerd.cluster.metadata import BrokerUp, Entry, PartitionChanged, Record
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, PartitionState, TopicPartition
from brokerd.cluster.znodes import CONTROLLER_EPOCH, LOG
from brokerd.partition import Role
from brokerd.replica import Replica
from brokerd.wire import records
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.world import MS


class Violation(AssertionError):
    pass


ZOMBIE_US = 500 * MS
"""Longer than news of a new leader takes on its ordinary way."""


class Watch:
    """Looks after every event."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._leaders: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._led_since: dict[TopicPartition, int] = {}
        self._zombies: set[tuple[TopicPartition, int, int]] = set()
        self._tails_lost: set[tuple[int, int]] = set()
        """Seats of those who came back without what they had written last."""
        self._names = frozenset(n.name for n in cluster.brokers.values())
        self._entries = 0
        self._epoch = 0
        self._held: list[Record] = []
        self._seen_writes = 0
        cluster.world.watchers.append(self.look)

    def look(self) -> None:
        self._one_leader_per_epoch()
        self._log_grows_by_the_acting_controller()

    def _one_leader_per_epoch(self) -> None:
        touched = self.cluster.world.touched
        if touched.isdisjoint(self._names):
            return
        for node in self.cluster.brokers.values():
            if node.name not in touched or not node.alive or node.frozen:
                continue
            for tp, replica in node.broker.partitions.hosted.items():
                machine = replica.core
                if machine.role is Role.LEADER:
                    self._zombie(tp, machine.leader_epoch, node)
                    who = (node.broker_id, node.life)
                    first = self._leaders.setdefault((tp, machine.leader_epoch), who)
                    if first != who:
                        raise Violation(f"{tp}: epoch {machine.leader_epoch} is led by {first} and by {who}")
                    if machine.high_watermark > replica.log.end_offset:
                        raise Violation(f"{tp}: high watermark beyond the log's end on {node.name}")

    def _zombie(self, tp: TopicPartition, epoch: int, node: BrokerNode) -> None:
        """Counts those who act as leaders although the log has had another one for a while."""
        known = self._states.get(tp)
        if known is not None and known.leader_epoch > epoch and known.leader != node.broker_id:
            late = self.cluster.world.now_us - self._led_since[tp] >= ZOMBIE_US
            if late and (tp, epoch, node.life) not in self._zombies:
                self._zombies.add((tp, epoch, node.life))
                self.cluster.world.reached["zombie leader"] += 1

    def _log_grows_by_the_acting_controller(self) -> None:
        """Entries in order, each by the controller whose epoch stands in /controller_epoch: a deposed one changes nothing."""
        ensemble = self.cluster.ensemble
        if ensemble.zxid == self._seen_writes:
            return
        self._seen_writes = ensemble.zxid
        while True:
            znode = ensemble.znodes.get(f"{LOG}/{self._entries + 1:020d}")
            if znode is None:
                return
            entry = Entry.decode(znode.data)
            acting = int(ensemble.znodes[CONTROLLER_EPOCH].data)
            if entry.controller_epoch != acting:
                raise Violation(
                    f"entry {entry.seq} was written by controller epoch {entry.controller_epoch}, the epoch is {acting}"
                )
            if entry.controller_epoch > self._epoch:
                self._held.clear()  # its author was deposed before it was through: it never happened
            self._entries, self._epoch = entry.seq, entry.controller_epoch
            self._held += entry.records
            if entry.unfinished:
                continue
            for record in self._held:
                if isinstance(record, BrokerUp) and not record.tail_intact:
                    self._tails_lost.add((record.broker_id, record.incarnation))
                if isinstance(record, PartitionChanged):
                    self._changed(record)
            self._held.clear()

    def _changed(self, record: PartitionChanged) -> None:
        """How a leader came to be: from the ISR, from elr, from last_isr, or not at all."""
        tp = TopicPartition(record.topic_id, record.partition)
        old, new = self._states.get(tp), record.state
        if old is not None and new.partition_epoch <= old.partition_epoch:
            return
        self._states[tp] = new
        self._newcomers_hold_all(tp, old, new)
        if old is None or old.leader_epoch != new.leader_epoch:
            self._led_since[tp] = self.cluster.world.now_us
        if old is None or new.leader < 0 or new.leader_epoch == old.leader_epoch:
            return
        reached = self.cluster.world.reached
        if (
            (new.leader, new.leader_incarnation) in self._tails_lost
            and old.isr_ids in ((), (new.leader,))
            and not old.elr
        ):
            # The last member, back with a tail that is lost: out of the ISR and elected as the last one, often in a single record.
            reached["election from last_isr"] += 1
        if new.leader in old.isr_ids:
            return
        if new.leader in old.elr:
            reached["election from elr"] += 1
        elif new.leader in old.last_isr:
            pass
        elif self._just_taken_in(tp, old, new):
            reached["election of one just taken in"] += (
                1  # its acceptance and the old leader's going stand in one record
            )
        else:
            raise Violation(
                f"{tp}: {new.leader} was elected, out of isr {old.isr_ids}, elr {old.elr}, last_isr {old.last_isr}"
            )

    def _just_taken_in(self, tp: TopicPartition, old: PartitionState, new: PartitionState) -> bool:
        """Somebody of the old ISR stays beside it; or (a move that ends with its acceptance) it holds all that the old leader shows."""
        if set(old.isr) & set(new.isr):
            return True
        before = self._hosted(old.leader, old.leader_incarnation, tp)
        after = self._hosted(new.leader, new.leader_incarnation, tp)
        return before is not None and after is not None and after.log.end_offset >= before.core.high_watermark

    def _newcomers_hold_all(self, tp: TopicPartition, old: PartitionState | None, new: PartitionState) -> None:
        """Who is taken in holds at that moment all that the leader shows its consumers."""
        leader = self._hosted(new.leader, new.leader_incarnation, tp)
        if leader is None or leader.core.role is not Role.LEADER or leader.core.leader_epoch != new.leader_epoch:
            return
        for seat in new.isr:
            if old is not None and seat not in old.isr and seat.broker_id != new.leader:
                member = self._hosted(seat.broker_id, seat.incarnation, tp)
                if member is not None and member.log.end_offset < leader.core.high_watermark:
                    raise Violation(
                        f"{tp}: {seat.broker_id} is taken into the ISR; its log ends at {member.log.end_offset}, "
                        f"the leader's high watermark is {leader.core.high_watermark}"
                    )

    def _hosted(self, broker_id: int, incarnation: int, tp: TopicPartition) -> Replica | None:
        node = self.cluster.brokers.get(broker_id)
        if node is None or not node.alive or node.broker.membership.incarnation != incarnation:
            return None
        return node.broker.partitions.hosted.get(tp)


def values(cluster: Cluster, broker_id: int, tp: TopicPartition) -> list[tuple[int, bytes]]:
    """(offset, value) of every record below the high watermark."""
    replica = cluster.brokers[broker_id].broker.partitions.hosted[tp]
    out: list[tuple[int, bytes]] = []
    at, end = replica.log.start_offset, replica.core.high_watermark
    while at < end:
        for record in records.iterate(memoryview(replica.log.read(at, 1 << 20, end).bytes())):
            if record.offset >= at:
                out.append((record.offset, record.value or b""))
        if not out or out[-1][0] < at:
            break
        at = out[-1][0] + 1
    return out


def raw(cluster: Cluster, broker_id: int, tp: TopicPartition, end: int, start: int = 0) -> bytes:
    log = cluster.brokers[broker_id].broker.partitions.hosted[tp].log
    out, at = b"", max(start, log.start_offset)
    while at < end:
        piece = log.read(at, 1 << 20, end).bytes()
        if not piece:
            break
        out += bytes(piece)
        at = [h.next_offset for _, h in records.batches(memoryview(piece))][-1]
    return out


def logs_agree(cluster: Cluster, but: tuple[str, ...] = ()) -> None:
    """Replicas are equal byte for byte below the lowest high watermark, `but` for those topics."""
    for topic, index, state in cluster.image.each_partition():
        if topic.name in but:
            continue
        tp = TopicPartition(topic.topic_id, index)
        hosts = [b for b in state.replicas if tp in cluster.brokers[b].broker.partitions.hosted]
        low = min(cluster.brokers[b].broker.partitions.hosted[tp].core.high_watermark for b in hosts)
        # A leader's retention may have passed where the others have not heard of it yet.
        start = max(cluster.brokers[b].broker.partitions.hosted[tp].log.start_offset for b in hosts)
        logs = {b: raw(cluster, b, tp, low, start) for b in hosts}
        if len(set(logs.values())) > 1:
            raise Violation(
                f"{topic.name}-{index}: replicas differ below {low}: { {b: len(d) for b, d in logs.items()} }"
            )


class History:
    """What producers were told and consumers saw. Values are `<producer>:<number>`, some with many zeros."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.seen: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        self.given_up: list[str] = []
        self.acks = 0
        self.unpromised: set[str] = set()
        """Topics that are silent about loss: with min.insync.replicas=1 the ISR may shrink to the one machine whose memory was lost."""

    def acked(self, topic: str, partition: int, value: bytes) -> None:
        self.acknowledged[topic, partition].append(value)
        self.acks += 1

    def saw(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        if topic in self.unpromised:
            return
        known = self.seen[topic, partition].setdefault(offset, value)
        if known != value:
            raise Violation(f"{topic}-{partition}: offset {offset} was {known!r} and is {value!r} to a consumer")

    def judge(self, cluster: Cluster) -> None:
        """By what the leaders hold, or, where logs are cut, by all that was ever committed."""
        for topic, index, state in cluster.image.each_partition():
            key = (topic.name, index)
            if topic.name in self.unpromised or topic.name == GROUP_OFFSETS_TOPIC:
                continue
            tp = TopicPartition(topic.topic_id, index)
            if cluster.archive is None:
                log = values(cluster, state.leader, tp)
            else:
                log = [(r.offset, r.value or b"") for r in records.iterate(memoryview(cluster.archive.of(tp)))]
            found = [v for _, v in log]
            stands = set(found)
            if len(stands) != len(found):
                twice = [v for v in found if found.count(v) > 1]
                raise Violation(f"{topic.name}-{index}: records stand twice: {twice[:4]}")
            lost = [v for v in self.acknowledged[key] if v not in stands]
            if lost:
                raise Violation(f"{topic.name}-{index}: {len(lost)} acknowledged records are lost, e.g. {lost[:4]}")
            numbers: dict[bytes, int] = {}
            for value in found:
                who, _, number = value.partition(b":")
                if int(number) <= numbers.get(who, -1):
                    raise Violation(f"{topic.name}-{index}: {value!r} stands after {numbers[who]}")
                numbers[who] = int(number)
            by_offset = dict(log)
            for offset, value in self.seen[key].items():
                if by_offset.get(offset, value) != value or offset not in by_offset:
                    raise Violation(
                        f"{topic.name}-{index}: a consumer saw {value!r} at {offset}; the log holds {by_offset.get(offset)!r}"
                    )
        if self.given_up:
            raise Violation(f"idempotent producers were refused for good: {self.given_up[:3]}")
