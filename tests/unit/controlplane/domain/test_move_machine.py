"""A move on a cluster that changes for other reasons. Brokers fail and return. The controller reads requests late or
after they were withdrawn. The operator pauses, cancels and rolls back at any time.

Checked: concurrent copies stay within the limit, a partition always has an in-sync replica, and no step is done
twice. At the end all failures are repaired; then the move ends, and every placement is exactly the desired or exactly
the original one. Not checked: bytes, throttles, rows.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokerd.cluster import election
from brokerd.cluster.model import NO_LEADER, PartitionState, ReplicaIncarnation
from controlplane.controller import partition_changes
from controlplane.controller.events import DesiredAssignment
from controlplane.domain import move as core
from controlplane.domain import move_revert, tail_move
from controlplane.domain.compare import StoredComparison
from controlplane.domain.move_states import ENDED, IN_FLIGHT
from controlplane.domain.move_types import MoveSnapshot, ObservedPart, PartStep, PartView, with_old_replicas

BROKERS = (1, 2, 3, 4)
WORKING = ("running", "paused", "verifying", "cancelling", "rolling_back")
AT_A_TIME, PER_BROKER = 2, 2


class MoveMachine(RuleBasedStateMachine):
    mode = "copy"
    early = False

    @initialize(
        placements=st.lists(
            st.tuples(st.permutations(BROKERS), st.permutations(BROKERS), st.integers(1, 3), st.integers(1, 3)),
            min_size=1,
            max_size=4,
        ),
        compare=st.booleans(),
    )
    def begin(self, placements: list[tuple[list[int], list[int], int, int]], compare: bool) -> None:
        self.now = 1_000.0
        self.alive = set(BROKERS)
        self.state = "running"
        self.cluster: dict[int, PartitionState] = {}
        self.parts: dict[int, PartView] = {}
        self.pending_orders: list[DesiredAssignment] = []
        """Requests that the controller has read and not carried out yet."""
        self.applied_orders: list[tuple[int, int]] = []
        self.starts: dict[int, int] = dict.fromkeys(range(len(placements)), 0)
        """Log start offsets of the leaders."""
        self.compares = compare or self.mode == "tail"
        for i, (old, new, old_n, new_n) in enumerate(placements):
            before, after = tuple(old[:old_n]), tuple(new[:new_n])
            self.cluster[i] = PartitionState(
                before, tuple(ReplicaIncarnation(b, b) for b in before), before[0], before[0]
            )
            part = PartView(i, f"p-{i}", "waiting", before, after, after, 0, None, None, None, None)
            self.parts[i] = (
                replace(part, desired_replicas=with_old_replicas(before, after))
                if self.is_compared_first(part)
                else part
            )

    def broker_epoch(self, broker: int) -> int | None:
        return broker if broker in self.alive else None

    def observed_parts(self) -> dict[int, PartView]:
        return {i: replace(p, observed=observed_part(self.cluster[i], self.starts[i])) for i, p in self.parts.items()}

    def apply(self, steps: list[PartStep] | tuple[PartStep, ...]) -> None:
        for step in steps:
            self.parts[step.part_id] = core.apply_step(self.parts[step.part_id], step, self.now)

    # -- what happens ------------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.state in WORKING)
    @rule(seconds=st.sampled_from([0.1, 2.0, 5.0, 90.0]))
    def worker_polls(self, seconds: float) -> None:
        self.now += seconds
        view = MoveSnapshot(
            self.state,
            tuple(self.observed_parts().values()),
            AT_A_TIME,
            frozenset(self.alive),
            PER_BROKER,
            mode=self.mode,
            early=self.early,
        )
        steps = core.next_steps(view, self.now)
        again = core.next_steps(view, self.now)
        assert steps == again
        self.apply(steps.parts)
        self.state = steps.state or self.state

    @rule()
    def controller_reads_orders(self) -> None:
        if self.state in WORKING:
            for p in self.parts.values():
                if p.state in ("submitted", "bootstrapping", "truncating"):
                    order = tail_move.order(
                        p.state,
                        desired_replicas=p.desired_replicas,
                        replicas_from=p.replicas_from,
                        replicas_to=p.replicas_to,
                        delete_below=p.delete_below,
                        hand_over_at=p.hand_over_at,
                    )
                    self.pending_orders.append(
                        DesiredAssignment(
                            UUID(int=1),
                            p.id,
                            order.replicas,
                            p.read_generation,
                            "m",
                            observers=order.observers,
                            delete_below=order.delete_below,
                            hand_over_at=order.hand_over_at,
                        )
                    )

    @precondition(lambda self: self.pending_orders)
    @rule()
    def controller_applies_an_order(self) -> None:
        desired = self.pending_orders.pop(0)
        i, generation = desired.partition, desired.read_generation
        state = self.cluster[i]
        if partition_changes.is_applied(state, desired):
            return
        if desired.delete_below is not None:
            after = partition_changes.with_records_deleted(state, desired.delete_below, generation)
        elif desired.observers:
            after = partition_changes.with_observers(state, desired.observers, generation, self.broker_epoch)
        elif desired.hand_over_at is not None:
            after = partition_changes.handed_over(
                state, desired.replicas, desired.hand_over_at, generation, self.broker_epoch
            )
        else:
            after = partition_changes.start_reassignment(state, desired.replicas, generation, self.broker_epoch)
        if isinstance(after, str):
            return
        assert (i, generation) not in self.applied_orders, "one order was carried out twice"
        self.applied_orders.append((i, generation))
        self.cluster[i] = after
        self.starts[i] = max(self.starts[i], after.log_start_floor)

    @rule(i=st.integers(0, 3))
    def a_copy_catches_up(self, i: int) -> None:
        state = self.cluster.get(i)
        if state is None or state.leader == NO_LEADER:
            return
        for b in state.replicas:
            if b not in state.isr_ids and b in self.alive:
                state = election.with_isr(state, (*state.isr, ReplicaIncarnation(b, b)), min_insync=1)
        self.cluster[i] = state
        if state.reassigning:
            self.cluster[i] = partition_changes.complete_reassignment(state, 1, self.broker_epoch) or state

    @rule(i=st.integers(0, 3))
    def copies_are_compared(self, i: int) -> None:
        part = self.parts.get(i)
        if part is None or part.state != "comparing":
            return
        if set(part.replicas_to) <= set(self.cluster[i].isr_ids):
            self.parts[i] = replace(part, compared=StoredComparison(True, "They are equal."))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_dies(self, broker: int) -> None:
        self.alive.discard(broker)
        for i, state in self.cluster.items():
            self.cluster[i] = (
                election.remove_offline_replicas(state, (broker,), (), self.broker_epoch, min_insync=1, unclean=False)
                or state
            )

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_returns(self, broker: int) -> None:
        self.alive.add(broker)
        for i, state in self.cluster.items():
            if state.leader == NO_LEADER:
                self.cluster[i] = election.elect_leader(state, self.broker_epoch, min_insync=1) or state

    def copies_progress(self, i: int) -> None:
        self.a_copy_catches_up(i)
        self.copies_are_compared(i)

    # -- what the operator does ------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.state == "running")
    @rule()
    def pause(self) -> None:
        self.state = "paused"
        for i, p in self.parts.items():
            if p.state in ("submitted", "bootstrapping"):
                self.parts[i] = replace(p, state="waiting")

    @precondition(lambda self: self.state == "paused")
    @rule()
    def resume(self) -> None:
        self.state = "running"

    @precondition(lambda self: self.state in ("running", "paused", "verifying"))
    @rule()
    def cancel(self) -> None:
        views = list(self.observed_parts().values())
        if move_revert.cancel_problem(views, frozenset(self.alive)) is None:
            self.state = "cancelling"
            self.apply(move_revert.cancel_steps(views))

    @precondition(lambda self: self.state not in ("rolling_back", "rolled_back"))
    @rule()
    def roll_back(self) -> None:
        views = list(self.observed_parts().values())
        if move_revert.cancel_problem(views, frozenset(self.alive)) is None and len(self.alive) == len(BROKERS):
            self.state = "rolling_back"
            self.apply(move_revert.roll_back_steps(views))

    def is_compared_first(self, part: PartView) -> bool:
        """Whether old replicas may be removed only after a comparison."""
        return (
            self.compares
            and bool(set(part.replicas_to) - set(part.replicas_from))
            and bool(set(part.replicas_from) - set(part.replicas_to))
        )

    # -- invariants ------------------------------------------------------------------------------------------------------------
    @invariant()
    def partitions_can_be_led(self) -> None:
        for state in getattr(self, "cluster", {}).values():
            assert state.isr or state.elr or state.last_isr, f"no eligible leader is left: {state}"
            if len(self.alive) == len(BROKERS):
                assert (
                    state.leader != NO_LEADER
                    or election.elect_leader(state, self.broker_epoch, min_insync=1) is not None
                )

    @invariant()
    def copies_are_bounded(self) -> None:
        """A part whose bytes are copied (it is verified or compared, or its old replicas are removed) occupies no copy slot."""
        forward = [p for p in getattr(self, "parts", {}).values() if p.state in IN_FLIGHT and not p.going_back]
        assert len(forward) <= core.COPIED_AHEAD * AT_A_TIME
        assert sum(p.state in ("submitted", "copying") and p.compared is None for p in forward) <= AT_A_TIME

    def teardown(self) -> None:
        """All failures are repaired: the move ends in an exact state."""
        if not hasattr(self, "parts"):
            return
        while self.pending_orders:
            self.controller_applies_an_order()
        for broker in BROKERS:
            self.a_broker_returns(broker)
        if self.state == "paused":
            self.resume()
        for _ in range(60):
            if self.state not in WORKING:
                break
            self.worker_polls(5.0)
            self.controller_reads_orders()
            while self.pending_orders:
                self.controller_applies_an_order()
            for i in self.cluster:
                self.copies_progress(i)
        assert self.state not in WORKING, f"does not end: {self.state}, {self.parts}, {self.cluster}"
        for i, p in self.parts.items():
            if p.state == "done":
                assert p.compared or not self.is_compared_first(p), f"not compared: {p}"
                assert self.cluster[i].replicas == p.replicas_to
            elif p.state in ("reverted", "skipped"):
                assert self.cluster[i].replicas == p.replicas_from
            assert p.state in ENDED
        if self.state in ("done", "cancelled", "rolled_back"):
            assert not any(p.state == "rejected" for p in self.parts.values())
        if self.state == "rolled_back":
            assert all(self.cluster[i].replicas == p.replicas_from for i, p in self.parts.items())


class TailMoveMachine(MoveMachine):
    """The same without old data: leaders report where new replicas start, sometimes again; retention passes; operators delete records."""

    mode = "tail"

    @rule(i=st.integers(0, 3))
    def a_leader_proposes_the_bootstrap_offset(self, i: int) -> None:
        state = self.cluster.get(i)
        if state is not None and state.observers and state.leader != NO_LEADER:
            self.cluster[i] = replace(state, tail_start=max(state.tail_start, self.starts[i]) + 10)

    @rule(i=st.integers(0, 3))
    def retention_passes(self, i: int) -> None:
        if i in self.cluster:
            self.starts[i] = max(self.starts[i], self.cluster[i].tail_start)

    @precondition(lambda self: self.state in ("running", "paused"))
    @rule()
    def operator_deletes_old_records(self) -> None:
        views = list(self.observed_parts().values())
        if tail_move.deletion_problem(views) is None:
            self.apply(tail_move.deletion_steps(views))

    def copies_progress(self, i: int) -> None:
        state = self.cluster[i]
        if state.observers and state.tail_start < 0:
            self.a_leader_proposes_the_bootstrap_offset(i)
        self.retention_passes(i)
        super().copies_progress(i)

    @invariant()
    def copies_are_bounded(self) -> None:
        """A part that waits for retention uses no capacity. A part whose replica joins copies nothing."""
        assert sum(1 for p in getattr(self, "parts", {}).values() if p.state == "bootstrapping") <= AT_A_TIME

    @invariant()
    def old_records_are_deleted_only_on_request(self) -> None:
        for i, p in getattr(self, "parts", {}).items():
            floor = self.cluster[i].log_start_floor
            assert floor < 0 or floor == p.delete_below, f"an unrequested log start floor: {self.cluster[i]}, {p}"

    def teardown(self) -> None:
        super().teardown()
        for i, state in getattr(self, "cluster", {}).items():
            assert not state.observers, f"an observer remains after the end: {state}, {self.parts[i]}"


class EarlyMoveMachine(TailMoveMachine):
    """Retention does not pass: old records stay on their replicas."""

    early = True

    def retention_passes(self, i: int) -> None:
        pass

    @invariant()
    def old_records_are_on_a_previous_replica(self) -> None:
        for i, p in getattr(self, "parts", {}).items():
            state = self.cluster[i]
            holders = set(state.history_replicas)
            assert holders <= set(p.replicas_from), f"{state}, {p}"
            assert holders or set(state.isr_ids) <= set(p.replicas_from) or self.starts[i] > 0, f"{state}, {p}"

    def teardown(self) -> None:
        super().teardown()
        for i, p in getattr(self, "parts", {}).items():
            state = self.cluster[i]
            if p.state == "done" and set(p.replicas_to) - set(p.replicas_from) and self.starts[i] == 0:
                assert state.history_replicas and state.handover_offset == p.hand_over_at, f"{state}, {p}"
            if p.state in ("reverted", "skipped"):
                assert not state.history_replicas, f"all have everything: {state}, {p}"


def observed_part(state: PartitionState, start: int) -> ObservedPart:
    leader = None if state.leader == NO_LEADER else state.leader
    return ObservedPart(
        state.replicas,
        state.isr_ids,
        state.adding,
        state.removing,
        leader,
        state.assignment_generation,
        {},
        observers=state.observers,
        tail_start=state.tail_start if state.tail_start >= 0 else None,
        log_start_floor=state.log_start_floor if state.log_start_floor >= 0 else None,
        log_start=start,
        archive_start=state.handover_offset if state.handover_offset >= 0 else None,
        lags=dict.fromkeys(state.observers, 0) if state.tail_start >= 0 else {},
    )


TestMovingTails = TailMoveMachine.TestCase
TestMovingTails.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMoving = MoveMachine.TestCase
TestMoving.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMovingEarly = EarlyMoveMachine.TestCase
TestMovingEarly.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
