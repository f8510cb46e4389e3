"""An operator who moves partitions without their old data, and the invariants of such moves.

`TailMove` submits one step after another, each again until it has taken effect, like the rows of a move: observers, the deletion of old records (by
the operator or by retention), old and new replicas together, the new ones alone; or a rollback at any moment. `TailWatch` checks the brokers'
behaviour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import NO_LEADER, PartitionState, TopicPartition
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from controlplane.controller.events import DesiredAssignment
from controlplane.domain.move_types import with_old_replicas
from tests.simulation.checkers import InvariantChecker, Violation, read_bytes
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.producer_state import unknown
from tests.simulation.world import MS, S

LOOK_MS = (50, 400)
PATIENCE_S = (1, 9)
"""How long an operator waits for retention before the cut or the rollback."""


class TailMove:
    def __init__(
        self,
        cluster: Cluster,
        tp: TopicPartition,
        name: str,
        replicas: tuple[int, ...],
        number: int,
        *,
        early: bool = False,
        tiered: bool = False,
    ) -> None:
        """`early`: hands over before the old records are deleted (second stage). `tiered`: waits until the old records are in the remote store. Sometimes
        it first requests an operation that a tiered topic must reject: a truncation, or an early hand-over."""
        self.early, self.tiered = early, tiered
        self._forbidden_left = 3 if tiered and cluster.world.chance(0.5) else 0
        self.cluster, self.world, self.tp, self.name, self.number = cluster, cluster.world, tp, name, number
        state = self.state
        assert state is not None
        self.before, self.to = state.target, replicas
        self.beside = with_old_replicas(self.before, replicas)
        self.observers = tuple(b for b in replicas if b not in state.replicas)
        self.generation = state.assignment_generation
        self.step = "observe"
        self._cancelled_at = self.generation
        self.has_cut = False
        self.calm = False
        """Finishes the current move and starts no other."""
        self._patience_us = self.world.now_us + self.world.between(PATIENCE_S[0] * S, PATIENCE_S[1] * S)
        self.gives_up = self.world.chance(0.2)
        self.world.after(1, self._check)

    @property
    def state(self) -> PartitionState | None:
        return self.cluster.image.partition(self.tp)

    @property
    def over(self) -> bool:
        return self.step in ("done", "cancelled", "rejected")

    def _check(self) -> None:
        state = self.state
        assert state is not None
        getattr(self, f"_{self.step}")(state)
        if not self.over:
            self.world.after(self.world.between(LOOK_MS[0] * MS, LOOK_MS[1] * MS), self._check)

    def _order(
        self,
        replicas: tuple[int, ...],
        observers: tuple[int, ...] = (),
        delete_below: int | None = None,
        hand_over_at: int | None = None,
    ) -> None:
        if self.cluster.acting is not None:
            self.cluster.deliver_desired(
                DesiredAssignment(
                    *self.tp,
                    replicas,
                    self.generation,
                    f"tail-{self.number}",
                    observers=observers,
                    delete_below=delete_below,
                    hand_over_at=hand_over_at,
                )
            )

    def _goes_to(self, step: str) -> None:
        self.step = step
        if step == "cancel" and (state := self.state) is not None:
            self._cancelled_at = state.assignment_generation
        self.world.reached[f"tail move: {step}"] += 1
        self.world.deliver(f"tail move {self.number} of {self.name}: {step}")

    def _took_effect(self, state: PartitionState, as_wanted: bool) -> bool | None:
        """True if the assignment took effect, None if not yet. An assignment by another operator ends the move."""
        if state.assignment_generation == self.generation:
            return None
        self.generation = state.assignment_generation
        if not as_wanted:
            self._goes_to("cancel" if state.observers else "rejected")
        return as_wanted

    def _observe(self, state: PartitionState) -> None:
        if self._took_effect(state, state.observers == self.observers):
            self._goes_to("follow")
        elif self.step == "observe" and (self.calm or self.world.now_us > self._patience_us + 5 * S):
            # Rejected for good (the observer's broker is down), or lost: our assignment is withdrawn if it takes effect later.
            self._goes_to("cancel")
        elif self.step == "observe":
            self._order(state.target, self.observers)

    def _follow(self, state: PartitionState) -> None:
        if state.assignment_generation != self.generation:
            self._took_effect(state, False)
        elif self.gives_up and not self.calm and self.world.chance(0.1):
            self._goes_to("cancel")
        elif state.tail_start >= 0 and (start := self._leaders_start(state)) is not None and self._in_step(state):
            if self.early:
                self._goes_to("hand_over")
            elif start >= state.tail_start:
                self.world.reached["tail move: retention has passed"] += 1
                self._goes_to("join")
            elif self._forbidden_left:
                self._forbidden_left -= 1
                cut = self.world.chance(0.5)
                self.world.reached["tail move: forbidden order"] += 1
                self._order(
                    state.target if cut else self.beside,
                    observers=(),
                    delete_below=state.tail_start if cut else None,
                    hand_over_at=None if cut else state.tail_start,
                )
            elif not self.tiered and (self.calm or self.world.now_us > self._patience_us):
                self._goes_to("cut")

    def _cut(self, state: PartitionState) -> None:
        if self._took_effect(state, state.log_start_floor >= 0 and state.observers == self.observers):
            self._goes_to("follow")
        elif self.step == "cut" and state.tail_start >= 0:
            self.has_cut = True
            self._order(state.target, delete_below=state.tail_start)

    def _hand_over(self, state: PartitionState) -> None:
        if self._took_effect(state, state.target == self.beside):
            self._goes_to("compare")
        elif self.step == "hand_over" and state.tail_start >= 0:
            self._order(self.beside, hand_over_at=state.tail_start)

    def _join(self, state: PartitionState) -> None:
        if self._took_effect(state, state.target == self.beside):
            self._goes_to("compare")
        elif self.step == "join":
            self._order(self.beside)

    def _compare(self, state: PartitionState) -> None:
        """Compares the new replicas in the ISR with those old ones that are in the ISR too."""
        self.generation = state.assignment_generation
        if state.target != self.beside:
            self._goes_to("rejected")
        elif self.gives_up and not self.calm and self.world.chance(0.1):
            self._goes_to("cancel")
        elif set(self.to) <= set(state.isr_ids) and self._all_equal(state):
            self._goes_to("replace")

    def _replace(self, state: PartitionState) -> None:
        if state.target == self.beside:
            # An old replica that enters the ISR meanwhile increments the generation.
            self.generation = state.assignment_generation
            self._order(self.to)
        elif self._took_effect(state, state.target == self.to):
            self._goes_to("switch")

    def _switch(self, state: PartitionState) -> None:
        if not state.reassigning:
            self._goes_to("done" if state.replicas == self.to else "rejected")
        elif self.gives_up and not self.calm and self.world.chance(0.1):
            self.generation = state.assignment_generation
            self._goes_to("cancel")

    def _cancel(self, state: PartitionState) -> None:
        """Complete as soon as the generation has changed: no earlier assignment can take effect then."""
        if state.assignment_generation > self._cancelled_at and not state.observers:
            self._goes_to("cancelled")
            return
        self.generation = state.assignment_generation
        self._order(self.before)

    # -- state that the operator sees -------------------------------------------------------------------------------------------
    def _copy(self, broker_id: int) -> Replica | None:
        node = self.cluster.brokers.get(broker_id)
        return node.broker.replica_manager.hosted.get(self.tp) if node is not None and node.alive else None

    def _leaders_start(self, state: PartitionState) -> int | None:
        leader = self._copy(state.leader)
        return leader.log.start_offset if leader is not None else None

    def _all_equal(self, state: PartitionState) -> bool:
        """Compares below the lowest high watermark, from the highest log start on. False: not all replicas are available."""
        copies = [self._copy(isr_member.broker_id) for isr_member in state.isr]
        if state.leader == NO_LEADER or any(c is None or c.offline_reason is not None for c in copies):
            return False
        known = [c for c in copies if c is not None]
        low, start = min(c.core.high_watermark for c in known), max(c.log.start_offset for c in known)
        logs = {b: read_bytes(self.cluster, b, self.tp, low, start) for b in state.isr_ids}
        if len(set(logs.values())) > 1:
            raise Violation(
                f"{self.name}: replicas in the ISR differ in {start} to {low}: { {b: len(d) for b, d in logs.items()} }"
            )
        self.world.reached["replicas of a tail are equal"] += bool(low > start)
        return True

    def _in_step(self, state: PartitionState) -> bool:
        leader = self._copy(state.leader)
        copies = [self._copy(b) for b in self.observers]
        return leader is not None and all(
            c is not None and c.log.end_offset >= max(leader.core.high_watermark, state.tail_start) for c in copies
        )


class TailWatch(InvariantChecker):
    """The rules of safety section 8, checked after every event and every entry of the metadata log."""

    def __init__(self, cluster: Cluster, topics: Container[str] | None = None) -> None:
        """`topics`: those whose replicas are checked after every event. None: all."""
        super().__init__(cluster)
        self._topics = topics
        self._begun: dict[TopicPartition, set[int]] = defaultdict(set)
        """The start offsets of a partition's tail since its observers were assigned."""
        self._ends: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._observed: set[tuple[TopicPartition, int]] = set()

    def check(self) -> None:
        super().check()
        for node in self.cluster.touched_brokers():
            for tp, replica in node.broker.replica_manager.hosted.items():
                if self._topics is not None and replica.topic not in self._topics:
                    continue
                self._copies_nothing_below(node, tp, replica)
                if replica.core.role is Role.LEADER and replica.core.high_watermark:
                    self._all_isr_members_have_it(node, tp, replica)

    def _all_isr_members_have_it(self, node: BrokerNode, tp: TopicPartition, leader: Replica) -> None:
        """Every replica that may lead next has the records that the leader calls committed. (A replica just removed from the ISR may have deleted its
        records before the leader reads of it.)
        """
        known = self._states.get(tp)
        for isr_member in leader.core.maximal_isr():
            member = self._hosted_replica(*isr_member, tp) if known is not None and isr_member in known.isr else None
            if member is not None and member.log.end_offset < leader.core.high_watermark:
                raise Violation(
                    f"{leader.name}: {node.name} calls {leader.core.high_watermark} committed, {isr_member.broker_id} in its ISR {isr_member} ends at "
                    f"{member.log.end_offset}"
                )

    def _copies_nothing_below(self, node: BrokerNode, tp: TopicPartition, replica: Replica) -> None:
        """An observer's log grows only from its start offset."""
        state = replica.core.state
        if state is None or node.broker_id not in state.observers or replica.offline_reason is not None:
            self._ends.pop((node.name, tp), None)
            return
        base, end = replica.log.segments[0].base_offset, replica.log.end_offset
        before = self._ends.get((node.name, tp))
        self._ends[node.name, tp] = (node.life, end)
        if before is None or before[0] != node.life or end <= before[1] or end == base:
            return
        first = max(before[1], base)
        if not self._begun[tp] or first < min(self._begun[tp]):
            raise Violation(
                f"{replica.name}: observer {node.broker_id} copies from {first} on; its tail begins at {sorted(self._begun[tp])}"
            )
        self.cluster.world.reached["tail copied"] += 1

    def _on_partition_changed(self, record: PartitionChanged) -> None:
        tp = TopicPartition(record.topic_id, record.partition)
        old, new = self._states.get(tp), record.state
        super()._on_partition_changed(record)
        if old is None or new.partition_epoch <= old.partition_epoch:
            return
        if new.observers and new.observers != old.observers:
            self._begun[tp].clear()
        if new.tail_start >= 0 and new.tail_start != old.tail_start:
            self._begun[tp].add(new.tail_start)
            self._on_tail_committed(tp, new)
        for b in old.observers:
            if b in new.replicas:
                self._observed.add((tp, b))
        for isr_member in new.isr:
            if isr_member not in old.isr and (tp, isr_member.broker_id) in self._observed:
                self._observed.discard((tp, isr_member.broker_id))
                self._joins_complete(tp, old, self._hosted_replica(*isr_member, tp))

    def _on_tail_committed(self, tp: TopicPartition, new: PartitionState) -> None:
        leader = self._hosted_replica(new.leader, new.leader_broker_epoch, tp)
        if leader is None or leader.core.role is not Role.LEADER or leader.core.leader_epoch != new.leader_epoch:
            return
        if new.tail_start > leader.core.high_watermark:
            raise Violation(
                f"{tp}: the tail begins at {new.tail_start}, above the high watermark {leader.core.high_watermark}"
            )

    def _joins_complete(self, tp: TopicPartition, old: PartitionState, member: Replica | None) -> None:
        """An observer that enters the ISR has everything that the leader keeps that proposed it, and knows the producers. (The same record may end the move.)"""
        leader = self._hosted_replica(old.leader, old.leader_broker_epoch, tp)
        if leader is None or member is None or leader is member or leader.core.leader_epoch != old.leader_epoch:
            return
        if leader.core.role is not Role.LEADER:
            return
        self.cluster.world.reached["observer joined the ISR"] += 1
        latest = leader.log.start_offset
        if old.handover_offset >= 0 and member.core.broker_id not in old.history_replicas:
            latest = max(latest, old.handover_offset)
        elif old.handover_offset >= 0 and leader.core.broker_id not in old.history_replicas:
            latest = max(latest, old.handover_offset - 1)
        if member.log.start_offset > latest:
            raise Violation(
                f"{leader.name}: the new ISR member's log starts at {member.log.start_offset}, it must start at {latest} or below"
            )
        base = member.log.segments[0].base_offset
        if base in self._begun[tp] and base in member.log.snapshots.offsets:
            end = min(member.log.end_offset, leader.core.high_watermark)
            if strange := unknown(leader.log.producers, member.log.producers, end):
                raise Violation(
                    f"{leader.name}: a tail from {base} to {end} enters the ISR without producer state {strange}"
                )
