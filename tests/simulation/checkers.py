"""The invariants of every run. Each check raises Violation with the rule and the state that broke it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterator

from brokerd.cluster.metadata import BrokerDown, BrokerUp, Entry, MetadataRecord, PartitionChanged
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, PartitionState, TopicPartition
from brokerd.cluster.znodes import CONTROLLER, CONTROLLER_EPOCH, LOG, broker
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.wire import records
from brokerd.wire.records import Buffer, Record
from controlplane.controller.liveness import REFUSALS
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.world import MS


class Violation(AssertionError):
    pass


ZOMBIE_US = 500 * MS
"""Longer than the news of a new leader normally takes."""


RECORDED_WITHIN_US = 1_000_000
"""Time from an unclean leader election to its row in the audit log, at most."""


class InvariantChecker:
    """Checks after every event."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._leaders: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._led_since: dict[TopicPartition, int] = {}
        self._zombies: set[tuple[TopicPartition, int, int]] = set()
        self._tails_lost: set[tuple[int, int]] = set()
        """Incarnations that restarted without the records that they had written last."""
        self._terms: dict[int, tuple[str, int]] = {}
        """By controller epoch: the elected controller, and when, in microseconds."""
        self._entries = 0
        self._epoch = 0
        self._unfinished: list[MetadataRecord] = []
        self._seen_writes = 0
        self._unrecorded: list[tuple[str, int, int, int]] = []
        """Unclean leader elections that the audit log does not have yet: topic, partition, controller epoch, and when, in microseconds."""
        cluster.world.watchers.append(self.check)

    def check(self) -> None:
        self._one_leader_per_epoch()
        self._log_grows_by_the_acting_controller()
        if self._unrecorded:
            self._unclean_elections_are_recorded()

    def _unclean_elections_are_recorded(self) -> None:
        """A controller that still acts has written each automatic unclean leader election of its term to the audit log. One that ended may not have."""
        changes, now_us = self.cluster.unclean_changes, self.cluster.world.now_us
        for election in list(self._unrecorded):
            name, index, epoch, at_us = election
            if (name, index) in changes:
                changes.discard((name, index))
                self._unrecorded.remove(election)
                self.cluster.world.reached["unclean election in the audit log"] += 1
            elif now_us > at_us + RECORDED_WITHIN_US:
                self._unrecorded.remove(election)
                controller = next(c for c in self.cluster.controllers if c.name == self._terms[epoch][0])
                if epoch == max(self._terms) and controller.is_acting and not controller.frozen:
                    raise Violation(f"{name}-{index}: an unclean leader election is not in the audit log")

    def _one_leader_per_epoch(self) -> None:
        for node in self.cluster.touched_brokers():
            if node.waited_for_disk:
                raise Violation(f"the event loop of {node.name} waited for the disk: {node.waited_for_disk}")
            for tp, replica in node.broker.replica_manager.hosted.items():
                machine = replica.core
                if machine.role is Role.LEADER:
                    self._zombie(tp, machine.leader_epoch, node)
                    who = (node.broker_id, node.life)
                    first = self._leaders.setdefault((tp, machine.leader_epoch), who)
                    if first != who:
                        raise Violation(f"{tp}: epoch {machine.leader_epoch} is led by {first} and by {who}")
                    if machine.high_watermark > replica.log.end_offset:
                        raise Violation(f"{tp}: the high watermark is above the log end offset on {node.name}")

    def _zombie(self, tp: TopicPartition, epoch: int, node: BrokerNode) -> None:
        """Counts brokers that act as leaders although the metadata log has had another leader for a while."""
        known = self._states.get(tp)
        if known is not None and known.leader_epoch > epoch and known.leader != node.broker_id:
            late = self.cluster.world.now_us - self._led_since[tp] >= ZOMBIE_US
            if late and (tp, epoch, node.life) not in self._zombies:
                self._zombies.add((tp, epoch, node.life))
                self.cluster.world.reached["zombie leader"] += 1

    def _log_grows_by_the_acting_controller(self) -> None:
        """Entries in order, each by the controller whose epoch is in /controller_epoch: a replaced controller changes nothing."""
        ensemble = self.cluster.ensemble
        if ensemble.zxid == self._seen_writes:
            return
        self._seen_writes = ensemble.zxid
        self._note_term()
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
                self._unfinished.clear()  # its controller was replaced before it was complete: the entry has no effect
            self._entries, self._epoch = entry.seq, entry.controller_epoch
            self._unfinished += entry.records
            if entry.unfinished:
                continue
            for record in self._unfinished:
                if isinstance(record, BrokerUp) and not record.tail_intact:
                    self._tails_lost.add((record.broker_id, record.broker_epoch))
                if isinstance(record, BrokerDown):
                    self._declared_dead(record, entry.controller_epoch)
                if isinstance(record, PartitionChanged):
                    self._on_partition_changed(record)
            self._unfinished.clear()

    def _note_term(self) -> None:
        znodes = self.cluster.ensemble.znodes
        if (active := znodes.get(CONTROLLER)) is not None:
            body = json.loads(active.data)
            self._terms.setdefault(body["epoch"], (body["controller"], self.cluster.world.now_us))

    def _declared_dead(self, record: BrokerDown, controller_epoch: int) -> None:
        """An incarnation ends with its registration, or after refused probes of the active controller's own term: older ones may be outdated."""
        registered = self.cluster.ensemble.znodes.get(broker(record.broker_id))
        if registered is None or registered.czxid != record.broker_epoch:
            return
        name, since_us = self._terms[controller_epoch]
        times = self.cluster.refusals.get((name, record.broker_id, record.broker_epoch), ())
        if len([us for us in times if us >= since_us]) < REFUSALS:
            raise Violation(
                f"controller epoch {controller_epoch} declares the registered broker {record.broker_id} dead; probes refused at {times}, "
                f"elected at {since_us}"
            )

    def _on_partition_changed(self, record: PartitionChanged) -> None:
        """The kind of election: from the ISR, from elr, from last_isr, or none."""
        tp = TopicPartition(record.topic_id, record.partition)
        old, new = self._states.get(tp), record.state
        if old is not None and new.partition_epoch <= old.partition_epoch:
            return
        self._states[tp] = new
        self._check_new_isr_members(tp, old, new)
        if old is None or old.leader_epoch != new.leader_epoch:
            self._led_since[tp] = self.cluster.world.now_us
        if old is None or new.leader < 0 or new.leader_epoch == old.leader_epoch:
            return
        reached = self.cluster.world.reached
        if (
            (new.leader, new.leader_broker_epoch) in self._tails_lost
            and old.isr_ids in ((), (new.leader,))
            and not old.elr
        ):
            # The last member has restarted with a lost tail: removed from the ISR and elected as the last member, often in one record.
            reached["election from last_isr"] += 1
        if new.leader in old.isr_ids:
            return
        if new.leader in old.elr:
            reached["election from elr"] += 1
        elif new.leader in old.last_isr:
            pass
        elif self._just_joined(tp, old, new):
            reached["election of a new ISR member"] += (
                1  # one record contains its acceptance and the removal of the old leader
            )
        elif self._may_be_unclean(tp):
            reached["unclean election"] += 1
        else:
            raise Violation(
                f"{tp}: {new.leader} was elected, out of isr {old.isr_ids}, elr {old.elr}, last_isr {old.last_isr}"
            )

    def _may_be_unclean(self, tp: TopicPartition) -> bool:
        """The topic allows elections that lose records: from now on nothing is guaranteed, but the controller must report it."""
        for row in self.cluster.topics.values():
            if row.topic_id == tp.topic_id and row.configs.get("unclean.leader.election.enable") == "true":
                if not self.cluster.unclean_reports[row.name, tp.partition]:
                    raise Violation(
                        f"{row.name}-{tp.partition}: an unclean leader election that the controller does not report"
                    )
                self.cluster.elected_uncleanly(row.name)
                self._unrecorded.append((row.name, tp.partition, self._epoch, self.cluster.world.now_us))
                return True
        return False

    def _just_joined(self, tp: TopicPartition, old: PartitionState, new: PartitionState) -> bool:
        """True if a member of the old ISR remains, or (a move that ends with the acceptance) if the new member has all records below the high watermark."""
        if set(old.isr) & set(new.isr):
            return True
        before = self._hosted_replica(old.leader, old.leader_broker_epoch, tp)
        after = self._hosted_replica(new.leader, new.leader_broker_epoch, tp)
        return before is not None and after is not None and after.log.end_offset >= before.core.high_watermark

    def _check_new_isr_members(self, tp: TopicPartition, old: PartitionState | None, new: PartitionState) -> None:
        """A replica that enters the ISR has at that moment all records that the leader exposes to consumers."""
        leader = self._hosted_replica(new.leader, new.leader_broker_epoch, tp)
        if leader is None or leader.core.role is not Role.LEADER or leader.core.leader_epoch != new.leader_epoch:
            return
        for isr_member in new.isr:
            if old is not None and isr_member not in old.isr and isr_member.broker_id != new.leader:
                member = self._hosted_replica(isr_member.broker_id, isr_member.broker_epoch, tp)
                if member is not None and member.log.end_offset < leader.core.high_watermark:
                    raise Violation(
                        f"{tp}: {isr_member.broker_id} enters the ISR; its log end offset is {member.log.end_offset}, "
                        f"the leader's high watermark is {leader.core.high_watermark}"
                    )

    def _hosted_replica(self, broker_id: int, broker_epoch: int, tp: TopicPartition) -> Replica | None:
        node = self.cluster.brokers.get(broker_id)
        if node is None or not node.alive or node.broker.membership.broker_epoch != broker_epoch:
            return None
        return node.broker.replica_manager.hosted.get(tp)


def data_records(piece: Buffer) -> Iterator[Record]:
    """The records that consumers see: no control records."""
    for at, header in records.batches(piece):
        if not header.is_control:
            yield from records.records_of(piece, at, header)


def values(cluster: Cluster, broker_id: int, tp: TopicPartition) -> list[tuple[int, bytes]]:
    """(offset, value) of every record below the high watermark."""
    replica = cluster.brokers[broker_id].broker.replica_manager.hosted[tp]
    out: list[tuple[int, bytes]] = []
    at, end = replica.log.start_offset, replica.core.high_watermark
    while at < end:
        piece = memoryview(replica.log.read(at, 1 << 20, end).bytes())
        out += [(r.offset, r.value or b"") for r in data_records(piece) if r.offset >= at]
        upto = max((h.next_offset for _, h in records.batches(piece)), default=at)
        if upto <= at:
            break
        at = upto  # a compacted batch may contain fewer records than its offset range, or none
    return out


def read_bytes(cluster: Cluster, broker_id: int, tp: TopicPartition, end: int, start: int = 0) -> bytes:
    log = cluster.brokers[broker_id].broker.replica_manager.hosted[tp].log
    out, at = b"", max(start, log.start_offset)
    while at < end:
        piece = log.read(at, 1 << 20, end).bytes()
        if not piece:
            break
        out += bytes(piece)
        at = [h.next_offset for _, h in records.batches(memoryview(piece))][-1]
    return out


def logs_agree(cluster: Cluster, but: tuple[str, ...] = ()) -> None:
    """Replicas are equal byte for byte below the lowest high watermark, except for the topics `but`."""
    for topic, index, state in cluster.image.each_partition():
        if topic.name in but:
            continue
        tp = TopicPartition(topic.topic_id, index)
        hosts = [b for b in state.replicas if tp in cluster.brokers[b].broker.replica_manager.hosted]
        low = min(cluster.brokers[b].broker.replica_manager.hosted[tp].core.high_watermark for b in hosts)
        # The leader's retention may have deleted segments that the followers have not deleted yet.
        start = max(cluster.brokers[b].broker.replica_manager.hosted[tp].log.start_offset for b in hosts)
        logs = {b: read_bytes(cluster, b, tp, low, start) for b in hosts}
        if len(set(logs.values())) > 1:
            raise Violation(
                f"{topic.name}-{index}: replicas differ below {low}: { {b: len(d) for b, d in logs.items()} }"
            )


WRITTEN_PER_KEY = 10


def key_of(value: bytes) -> bytes:
    """The key of a record in a topic that is compacted now and then: written several times in a row, and then never again."""
    who, _, number = value.rpartition(b":")
    return b"%s-%d" % (who, int(number) // WRITTEN_PER_KEY)


class History:
    """Records that were acknowledged to producers, and records that consumers read. Values are `<producer>:<number>`, some with many zeros."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.seen: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        self.placed: dict[tuple[str, int], dict[int, bytes]] = defaultdict(dict)
        """The offsets in the acknowledgements."""
        self.compacted: set[str] = set()
        """Topics of which only the newest record per key is guaranteed."""
        self.named_by_id: set[str] = set()
        """Names of topics whose clients use the topic id (`byid.key_of`)."""
        self.given_up: list[str] = []
        self.acks = 0
        self.unpromised: set[str] = set()
        """Topics without a guarantee against loss: with min.insync.replicas=1 the ISR may shrink to the one machine whose memory was lost."""

    def on_acknowledged(self, topic: str, partition: int, value: bytes, offset: int | None = None) -> None:
        """`offset` is the acknowledged offset; None for an acknowledgement without one (DUPLICATE_SEQUENCE_NUMBER)."""
        self.acknowledged[topic, partition].append(value)
        self.acks += 1
        if offset is None or topic in self.unpromised:
            return
        known = self.placed[topic, partition].setdefault(offset, value)
        seen = self.seen[topic, partition].get(offset, value)
        if offset < 0 or known != value or seen != value:
            raise Violation(
                f"{topic}-{partition}: {value!r} is acknowledged at offset {offset}; acknowledged there: {known!r}, seen there: {seen!r}"
            )

    def _judge_compacted(self, topic: str, found: list[bytes], acknowledged: list[bytes]) -> None:
        """For each key the newest acknowledged record, or a later one, is in the log."""
        newest: dict[bytes, int] = {}
        for value in found:
            newest[key_of(value)] = max(newest.get(key_of(value), -1), int(value.rpartition(b":")[2]))
        for value in acknowledged:
            if newest.get(key_of(value), -1) < int(value.rpartition(b":")[2]):
                raise Violation(
                    f"{topic}: {value!r} is acknowledged, the newest of its key is {newest.get(key_of(value))}"
                )

    def on_read(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        if topic in self.unpromised:
            return
        known = self.seen[topic, partition].setdefault(offset, value)
        if known != value:
            raise Violation(f"{topic}-{partition}: offset {offset} was {known!r} and is {value!r} to a consumer")

    def verify(self, cluster: Cluster, topics: Container[str] | None = None) -> None:
        """Compares with the leaders' logs or, where logs are truncated, with all records that were ever committed. `topics`: only these; None: all."""
        for topic, index, state in cluster.image.each_partition():
            key = (topic.name, index)
            if (by_id := f"by-id-{topic.topic_id.hex[:8]}") in self.named_by_id:
                key = (by_id, index)
            if topic.name in self.unpromised or topic.name in (GROUP_OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC):
                continue
            if topics is not None and topic.name not in topics:
                continue
            tp = TopicPartition(topic.topic_id, index)
            if cluster.archive is None or topic.name not in cluster.archive.topics:
                log = values(cluster, state.leader, tp)
            else:
                log = [(r.offset, r.value or b"") for r in data_records(memoryview(cluster.archive.batches_of(tp)))]
            found = [v for _, v in log]
            stands = set(found)
            if len(stands) != len(found):
                twice = [v for v in found if found.count(v) > 1]
                raise Violation(f"{topic.name}-{index}: records are duplicated: {twice[:4]}")
            lost = [v for v in self.acknowledged[key] if v not in stands]
            if topic.name in self.compacted:
                for b in state.replicas:  # each replica compacts at its own time
                    kept = [v for _, v in values(cluster, b, tp)]
                    self._judge_compacted(f"{topic.name} on broker {b}", kept, self.acknowledged[key])
            elif lost:
                raise Violation(f"{topic.name}-{index}: {len(lost)} acknowledged records are lost, e.g. {lost[:4]}")
            numbers: dict[bytes, int] = {}
            for value in found:
                who, _, number = value.partition(b":")
                if int(number) <= numbers.get(who, -1):
                    raise Violation(f"{topic.name}-{index}: {value!r} stands after {numbers[who]}")
                numbers[who] = int(number)
            by_offset = dict(log)
            gone = topic.name in self.compacted
            for offset, value in self.placed[key].items():
                if by_offset.get(offset) != value and not (gone and offset not in by_offset):
                    raise Violation(
                        f"{topic.name}-{index}: {value!r} was acknowledged at {offset}; the log has {by_offset.get(offset)!r} there"
                    )
            for offset, value in self.seen[key].items():
                if by_offset.get(offset, value) != value or (offset not in by_offset and not gone):
                    raise Violation(
                        f"{topic.name}-{index}: a consumer saw {value!r} at {offset}; the log has {by_offset.get(offset)!r}"
                    )
        if self.given_up:
            raise Violation(f"idempotent producers got a fatal error: {self.given_up[:3]}")
