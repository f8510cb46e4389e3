"""A move against a cluster that lives its own life: brokers die and return, the controller takes orders late or after it was withdrawn, the
operator pauses, cancels and rolls back whenever he likes.

Checked: no more copies at a time than allowed, a partition is never left without a replica in sync, nobody's step is done twice, and in the
end, when all is well again, the move ends, with every placement exactly as wanted or exactly as before. Not checked: bytes, throttles, rows.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokerd.cluster import election
from brokerd.cluster.model import NO_LEADER, PartitionState, Seat
from controlplane import moves as core
from controlplane import tails
from controlplane.controller import placements
from controlplane.controller.events import DesiredAssignment
from controlplane.moves import MoveView, ObservedPart, PartView

BROKERS = (1, 2, 3, 4)
WORKING = ("running", "paused", "verifying", "cancelling", "rolling_back")
AT_A_TIME, PER_BROKER = 2, 2


class Moving(RuleBasedStateMachine):
    mode = "copy"
    early = False

    @initialize(
        ways=st.lists(
            st.tuples(st.permutations(BROKERS), st.permutations(BROKERS), st.integers(1, 3), st.integers(1, 3)),
            min_size=1,
            max_size=4,
        ),
        compare=st.booleans(),
    )
    def begin(self, ways: list[tuple[list[int], list[int], int, int]], compare: bool) -> None:
        self.now = 1_000.0
        self.alive = set(BROKERS)
        self.state = "running"
        self.cluster: dict[int, PartitionState] = {}
        self.parts: dict[int, PartView] = {}
        self.in_hand: list[DesiredAssignment] = []
        """Orders that the controller has read and not carried out yet."""
        self.taken: list[tuple[int, int]] = []
        self.starts: dict[int, int] = dict.fromkeys(range(len(ways)), 0)
        """Where the leaders' logs start."""
        self.besides = compare or self.mode == "tail"
        for i, (old, new, old_n, new_n) in enumerate(ways):
            before, after = tuple(old[:old_n]), tuple(new[:new_n])
            self.cluster[i] = PartitionState(before, tuple(Seat(b, b) for b in before), before[0], before[0])
            part = PartView(i, f"p-{i}", "waiting", before, after, after, 0, None, None, None, None)
            self.parts[i] = replace(part, wanted=core.beside(before, after)) if self.waits(part) else part

    def incarnation(self, broker: int) -> int | None:
        return broker if broker in self.alive else None

    def seen(self) -> dict[int, PartView]:
        return {i: replace(p, observed=observed(self.cluster[i], self.starts[i])) for i, p in self.parts.items()}

    def apply(self, steps: list[core.PartStep] | tuple[core.PartStep, ...]) -> None:
        for step in steps:
            self.parts[step.part_id] = core.after(self.parts[step.part_id], step, self.now)

    # -- what happens ------------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.state in WORKING)
    @rule(seconds=st.sampled_from([0.1, 2.0, 5.0, 90.0]))
    def worker_looks(self, seconds: float) -> None:
        self.now += seconds
        view = MoveView(
            self.state, tuple(self.seen().values()), AT_A_TIME, frozenset(self.alive), PER_BROKER, mode=self.mode,
            early=self.early,
        )  # fmt: skip
        steps = core.next_steps(view, self.now)
        again = core.next_steps(view, self.now)
        assert steps == again
        self.apply(steps.parts)
        self.state = steps.state or self.state

    @rule()
    def controller_reads(self) -> None:
        if self.state in WORKING:
            for p in self.parts.values():
                if p.state in ("ordered", "seeding", "cutting"):
                    order = tails.order(
                        p.state, wanted=p.wanted, replicas_from=p.replicas_from, replicas_to=p.replicas_to, cut_at=p.cut_at,
                        hand_over_at=p.hand_over_at,
                    )  # fmt: skip
                    self.in_hand.append(
                        DesiredAssignment(
                            UUID(int=1), p.id, order.replicas, p.read_generation, "m", observers=order.observers,
                            cut_at=order.cut_at, hand_over_at=order.hand_over_at,
                        )
                    )  # fmt: skip

    @precondition(lambda self: self.in_hand)
    @rule()
    def controller_carries_out(self) -> None:
        wanted = self.in_hand.pop(0)
        i, generation = wanted.partition, wanted.read_generation
        state = self.cluster[i]
        if placements.stands(state, wanted):
            return
        if wanted.cut_at is not None:
            after = placements.cut(state, wanted.cut_at, generation)
        elif wanted.observers:
            after = placements.observed(state, wanted.observers, generation, self.incarnation)
        elif wanted.hand_over_at is not None:
            after = placements.handed_over(state, wanted.replicas, wanted.hand_over_at, generation, self.incarnation)
        else:
            after = placements.assigned(state, wanted.replicas, generation, self.incarnation)
        if isinstance(after, str):
            return
        assert (i, generation) not in self.taken, "one order was carried out twice"
        self.taken.append((i, generation))
        self.cluster[i] = after
        self.starts[i] = max(self.starts[i], after.log_start_floor)

    @rule(i=st.integers(0, 3))
    def a_copy_catches_up(self, i: int) -> None:
        state = self.cluster.get(i)
        if state is None or state.leader == NO_LEADER:
            return
        for b in state.replicas:
            if b not in state.isr_ids and b in self.alive:
                state = election.with_isr(state, (*state.isr, Seat(b, b)), min_insync=1)
        self.cluster[i] = state
        if state.reassigning:
            self.cluster[i] = placements.finished(state, 1, self.incarnation) or state

    @rule(i=st.integers(0, 3))
    def copies_are_compared(self, i: int) -> None:
        part = self.parts.get(i)
        if part is None or part.state != "verifying" or not part.note.startswith(core.COMPARING):
            return
        if set(part.replicas_to) <= set(self.cluster[i].isr_ids):
            self.parts[i] = replace(part, compared=(True, "They are equal."))

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_dies(self, broker: int) -> None:
        self.alive.discard(broker)
        for i, state in self.cluster.items():
            self.cluster[i] = (
                election.without(state, (broker,), (), self.incarnation, min_insync=1, unclean=False) or state
            )

    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_returns(self, broker: int) -> None:
        self.alive.add(broker)
        for i, state in self.cluster.items():
            if state.leader == NO_LEADER:
                self.cluster[i] = election.elected(state, self.incarnation, min_insync=1) or state

    def all_goes_on(self, i: int) -> None:
        self.a_copy_catches_up(i)
        self.copies_are_compared(i)

    # -- what the operator does ------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.state == "running")
    @rule()
    def pause(self) -> None:
        self.state = "paused"
        for i, p in self.parts.items():
            if p.state in ("ordered", "seeding"):
                self.parts[i] = replace(p, state="waiting")

    @precondition(lambda self: self.state == "paused")
    @rule()
    def resume(self) -> None:
        self.state = "running"

    @precondition(lambda self: self.state in ("running", "paused", "verifying"))
    @rule()
    def cancel(self) -> None:
        views = list(self.seen().values())
        if core.cancel_problem(views, frozenset(self.alive)) is None:
            self.state = "cancelling"
            self.apply(core.cancel_steps(views))

    @precondition(lambda self: self.state not in ("rolling_back", "rolled_back"))
    @rule()
    def roll_back(self) -> None:
        views = list(self.seen().values())
        if core.cancel_problem(views, frozenset(self.alive)) is None and len(self.alive) == len(BROKERS):
            self.state = "rolling_back"
            self.apply(core.roll_back_steps(views))

    def waits(self, part: PartView) -> bool:
        """Whether its old copies may go only after a comparison."""
        return (
            self.besides
            and bool(set(part.replicas_to) - set(part.replicas_from))
            and bool(set(part.replicas_from) - set(part.replicas_to))
        )

    # -- what must hold --------------------------------------------------------------------------------------------------------
    @invariant()
    def partitions_can_be_led(self) -> None:
        for state in getattr(self, "cluster", {}).values():
            assert state.isr or state.elr or state.last_isr, f"nobody is left to lead: {state}"
            if len(self.alive) == len(BROKERS):
                assert state.leader != NO_LEADER or election.elected(state, self.incarnation, min_insync=1) is not None

    @invariant()
    def copies_are_bounded(self) -> None:
        forward = [p for p in getattr(self, "parts", {}).values() if p.state in core.IN_FLIGHT and not p.going_back]
        assert len(forward) <= AT_A_TIME

    def teardown(self) -> None:
        """All is well again: the move ends, and exactly."""
        if not hasattr(self, "parts"):
            return
        while self.in_hand:
            self.controller_carries_out()
        for broker in BROKERS:
            self.a_broker_returns(broker)
        if self.state == "paused":
            self.resume()
        for _ in range(60):
            if self.state not in WORKING:
                break
            self.worker_looks(5.0)
            self.controller_reads()
            while self.in_hand:
                self.controller_carries_out()
            for i in self.cluster:
                self.all_goes_on(i)
        assert self.state not in WORKING, f"does not end: {self.state}, {self.parts}, {self.cluster}"
        for i, p in self.parts.items():
            if p.state == "done":
                assert p.compared or not self.waits(p), f"nobody compared {p}"
                assert self.cluster[i].replicas == p.replicas_to
            elif p.state in ("put_back", "untouched"):
                assert self.cluster[i].replicas == p.replicas_from
            assert p.state in core.ENDED
        if self.state in ("done", "cancelled", "rolled_back"):
            assert not any(p.state == "stuck" for p in self.parts.values())
        if self.state == "rolled_back":
            assert all(self.cluster[i].replicas == p.replicas_from for i, p in self.parts.items())


class MovingTails(Moving):
    """The same, without old data: leaders say where new copies begin, now and then anew; retention passes; operators cut."""

    mode = "tail"

    @rule(i=st.integers(0, 3))
    def a_leader_says_where_the_copies_begin(self, i: int) -> None:
        state = self.cluster.get(i)
        if state is not None and state.observers and state.leader != NO_LEADER:
            self.cluster[i] = replace(state, tail_start=max(state.tail_start, self.starts[i]) + 10)

    @rule(i=st.integers(0, 3))
    def retention_passes(self, i: int) -> None:
        if i in self.cluster:
            self.starts[i] = max(self.starts[i], self.cluster[i].tail_start)

    @precondition(lambda self: self.state in ("running", "paused"))
    @rule()
    def the_operator_cuts(self) -> None:
        views = list(self.seen().values())
        if tails.cut_problem(views) is None:
            self.apply(tails.cut_steps(views))

    def all_goes_on(self, i: int) -> None:
        state = self.cluster[i]
        if state.observers and state.tail_start < 0:
            self.a_leader_says_where_the_copies_begin(i)
        self.retention_passes(i)
        super().all_goes_on(i)

    @invariant()
    def copies_are_bounded(self) -> None:
        """Who waits for retention occupies nobody; who joins copies nothing."""
        assert sum(1 for p in getattr(self, "parts", {}).values() if p.state == "seeding") <= AT_A_TIME

    @invariant()
    def nothing_old_goes_but_by_a_cut_at_where_copies_begin(self) -> None:
        for i, p in getattr(self, "parts", {}).items():
            floor = self.cluster[i].log_start_floor
            assert floor < 0 or floor == p.cut_at, f"a floor that nobody asked for: {self.cluster[i]}, {p}"

    def teardown(self) -> None:
        super().teardown()
        for i, state in getattr(self, "cluster", {}).items():
            assert not state.observers, f"somebody observes after the end: {state}, {self.parts[i]}"


class MovingEarly(MovingTails):
    """Retention does not pass: what is old stays with those who have it."""

    early = True

    def retention_passes(self, i: int) -> None:
        pass

    @invariant()
    def what_is_old_is_with_somebody_who_had_it(self) -> None:
        for i, p in getattr(self, "parts", {}).items():
            state = self.cluster[i]
            holders = set(state.holders)
            assert holders <= set(p.replicas_from), f"{state}, {p}"
            assert holders or set(state.isr_ids) <= set(p.replicas_from) or self.starts[i] > 0, f"{state}, {p}"

    @invariant()
    def nothing_old_goes_but_by_a_cut_at_where_copies_begin(self) -> None:
        for i, p in getattr(self, "parts", {}).items():
            floor = self.cluster[i].log_start_floor
            assert floor < 0 or floor == p.cut_at, f"a floor that nobody asked for: {self.cluster[i]}, {p}"

    def teardown(self) -> None:
        super().teardown()
        for i, p in getattr(self, "parts", {}).items():
            state = self.cluster[i]
            if p.state == "done" and set(p.replicas_to) - set(p.replicas_from) and self.starts[i] == 0:
                assert state.holders and state.archive_start == p.hand_over_at, f"{state}, {p}"
            if p.state in ("put_back", "untouched"):
                assert not state.holders, f"all have everything: {state}, {p}"


def observed(state: PartitionState, start: int) -> ObservedPart:
    leader = None if state.leader == NO_LEADER else state.leader
    return ObservedPart(
        state.replicas, state.isr_ids, state.adding, state.removing, leader, state.assignment_generation, {},
        observers=state.observers, tail_start=state.tail_start if state.tail_start >= 0 else None,
        log_start_floor=state.log_start_floor if state.log_start_floor >= 0 else None, log_start=start,
        archive_start=state.archive_start if state.archive_start >= 0 else None,
        lags=dict.fromkeys(state.observers, 0) if state.tail_start >= 0 else {},
    )  # fmt: skip


TestMovingTails = MovingTails.TestCase
TestMovingTails.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMoving = Moving.TestCase
TestMoving.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMovingEarly = MovingEarly.TestCase
TestMovingEarly.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
