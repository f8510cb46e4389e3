"""The checkers bite: each safety rule taken out of the product is missed within a few seeds. A checker that lets these pass shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from brokerd import partitions as partitions_module
from brokerd.apis.fetch import FetchApi
from brokerd.cluster import appender, election
from brokerd.cluster.model import PartitionState, Seat
from brokerd.cluster.store import Check, Result
from brokerd.coordinator import consumer_group
from brokerd.coordinator.offsets import Commits
from brokerd.coordinator.transaction import PREPARED, PRODUCER_FENCED, Persist, SendMarkers, State, Transaction
from brokerd.copies import Copies
from brokerd.identity import Identity
from brokerd.internal import InternalLog
from brokerd.logdirs import LogDir
from brokerd.net.membership import Membership
from brokerd.partition import Partition, Role
from brokerd.partition_events import Changed
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.seeds import Seeds
from brokerd.storage import checkpoints
from brokerd.storage.log import Log
from tests.simulation import exactly_once, tails
from tests.simulation import test_classic as classic
from tests.simulation import test_safety as safety
from tests.simulation import test_tails as tail_cases
from tests.simulation.__main__ import shortest
from tests.simulation.run import Live, run

SEEDS_MAX = 30


def no_truncation_by_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchApi, "_diverging", lambda *_: None)


def a_shrunk_isr_is_believed_before_it_is_accepted(patch: pytest.MonkeyPatch) -> None:
    def isr(self: Partition) -> frozenset[Any]:
        assert self.state is not None
        return frozenset(self.proposal.isr if self.proposal is not None else self.state.isr)

    patch.setattr(Partition, "maximal_isr", isr)


def the_high_watermark_is_the_leaders_end(patch: pytest.MonkeyPatch) -> None:
    def raise_to_end(self: Partition) -> list[Any]:
        self.high_watermark = self.log_end
        return [partitions_module.core.RaiseHighWatermark(self.log_end)]

    patch.setattr(Partition, "_raise_high_watermark", raise_to_end)


def an_earlier_life_leads_on(patch: pytest.MonkeyPatch) -> None:
    def changed(self: Partitions, replica: Replica, state: PartitionState) -> Changed:
        leads = state.leader == self.broker_id
        log = replica.log
        return Changed(
            state,
            leads,
            replica.config.min_insync_replicas,
            log.end_offset,
            log.start_offset,
            leader_alive=state.leader >= 0,
        )

    patch.setattr(Partitions, "_changed", changed)


def every_tail_counts_as_intact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Identity, "tail_intact", property(lambda self: True, lambda self, value: None), raising=False)


def a_loss_is_forgotten_at_the_next_start(patch: pytest.MonkeyPatch) -> None:
    write = Identity._write_meta

    def forgetful(self: Identity, d: LogDir) -> None:
        intact, self.tail_intact = self.tail_intact, True
        write(self, d)
        self.tail_intact = intact

    patch.setattr(Identity, "_write_meta", forgetful)


def a_newcomer_counts_only_once_it_is_accepted(patch: pytest.MonkeyPatch) -> None:
    def isr(self: Partition) -> frozenset[Any]:
        assert self.state is not None
        return frozenset(self.state.isr)

    patch.setattr(Partition, "maximal_isr", isr)


def the_high_watermark_rises_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    raised = Partition._raise_high_watermark

    def regardless(self: Partition) -> list[Any]:
        least, self.min_insync = self.min_insync, 0
        try:
            return raised(self)
        finally:
            self.min_insync = least

    patch.setattr(Partition, "_raise_high_watermark", regardless)


def a_controller_writes_unfenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(appender, "Check", lambda path, version: Check(path, -1))


def a_leader_cut_off_is_sure_of_what_it_knows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "head_read", property(lambda self: True))


def the_end_is_told_before_the_watermark_has_reached_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "serves_latest", property(lambda self: True))


def a_restart_cuts_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    opened = Copies.open

    def cut(self: Copies, *args: Any) -> Replica:
        replica = opened(self, *args)
        replica.log.truncate_to(replica.core.high_watermark)
        return replica

    patch.setattr(Copies, "open", cut)


def a_seat_of_an_earlier_session_is_taken_for_ones_own(patch: pytest.MonkeyPatch) -> None:
    read = Membership._seat_read

    def taken(self: Membership, result: Result) -> None:
        if result.ok and result.stat is not None:
            self._seat_known(replace(result, stat=replace(result.stat, owner=self._store.zk_session)))
        else:
            read(self, result)

    patch.setattr(Membership, "_seat_read", taken)


def a_missing_copy_is_not_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "lost_copies", lambda disk, folder: [])


def an_io_error_is_forgotten_with_the_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Identity, "tail_in_doubt", lambda self: None)


def a_coordinator_answers_before_its_word_is_replicated(patch: pytest.MonkeyPatch) -> None:
    append = InternalLog.append

    def hasty(self: InternalLog, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        leads = self.leader_epoch(partition) == leader_epoch
        append(self, partition, batch, leader_epoch, lambda error: None if leads else done(error))
        if leads:
            done(0)

    patch.setattr(InternalLog, "append", hasty)


def a_partition_is_given_while_another_holds_it(patch: pytest.MonkeyPatch) -> None:
    reconciled = consumer_group.reconciled
    patch.setattr(
        consumer_group, "reconciled", lambda at, to, epoch, owned, free: reconciled(at, to, epoch, owned, bool)
    )


def a_copy_that_goes_leaves_the_epoch_as_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "led_anew", lambda state: replace(state, partition_epoch=state.partition_epoch + 1))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (no_truncation_by_epoch, 1),
        (the_high_watermark_is_the_leaders_end, 1),
        (an_earlier_life_leads_on, 1),
        (every_tail_counts_as_intact, 1),
        (a_controller_writes_unfenced, 16),
        (the_end_is_told_before_the_watermark_has_reached_it, 1),
        (a_restart_cuts_to_the_high_watermark, 1),
        (a_coordinator_answers_before_its_word_is_replicated, 16),
        (a_partition_is_given_while_another_holds_it, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_rule_taken_out_is_missed(mutation: Any, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(first, first + SEEDS_MAX):
        found = run(seed).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds found nothing wrong")


def a_producer_is_never_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Transaction, "_fenced", lambda self, producer_id, epoch: 0 if epoch <= self.record.epoch else PRODUCER_FENCED
    )


def readers_go_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable", lambda self, high_watermark, begins=None: high_watermark)


def nobody_is_told_of_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchApi, "_aborted", staticmethod(lambda *_: []))


def markers_go_out_before_the_decision_is_replicated(patch: pytest.MonkeyPatch) -> None:
    handle = Transaction.handle

    def hasty(self: Transaction, event: Any, now: Any) -> list[Any]:
        effects = handle(self, event, now)
        for effect in list(effects):
            if isinstance(effect, Persist) and effect.record.state in PREPARED:
                r = effect.record
                commit = r.state is State.PREPARE_COMMIT
                effects.append(SendMarkers(r.producer_id, r.epoch, commit, r.partitions, r.version))
        return effects

    patch.setattr(Transaction, "handle", hasty)


def offsets_count_before_their_transaction_is_ended(patch: pytest.MonkeyPatch) -> None:
    place = Commits.place
    patch.setattr(Commits, "place", lambda self, key, offset, at, producer_id=None: place(self, key, offset, at))


@pytest.mark.parametrize(
    "mutation",
    [
        a_producer_is_never_fenced,
        readers_go_to_the_high_watermark,
        nobody_is_told_of_aborted_transactions,
        markers_go_out_before_the_decision_is_replicated,
        offsets_count_before_their_transaction_is_ended,
    ],
    ids=lambda m: m.__name__,
)
def test_a_rule_of_transactions_taken_out_is_missed(mutation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(1, 1 + SEEDS_MAX):
        found = run(seed, life=exactly_once.live).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds found nothing wrong")


def an_observer_counts_for_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    raised = Partition._raise_high_watermark

    def counted(self: Partition) -> list[Any]:
        effects = raised(self)
        state = self.state
        if self.role is Role.LEADER and state is not None and state.observers:
            ends = sorted((f.log_end for f in self.followers.values()), reverse=True)[: self.min_insync - 1]
            low = min([self.log_end, *ends])
            if low > self.high_watermark:
                self.high_watermark = low
                effects.append(partitions_module.core.RaiseHighWatermark(low))
        return effects

    patch.setattr(Partition, "_raise_high_watermark", counted)


def a_tail_begins_before_that_is_committed(patch: pytest.MonkeyPatch) -> None:
    asked = Seeds.asked

    def hasty(self: Seeds, replica: Replica, now: Any) -> bytes | None:
        seed = asked(self, replica, now)
        offer = self._offers.get(replica.tp)
        if offer is not None and not offer.committed:
            self._offers[replica.tp], self.changed = offer._replace(committed=True), True
        return seed

    patch.setattr(Seeds, "asked", hasty)


def an_observer_is_elected(patch: pytest.MonkeyPatch) -> None:
    elected = election.elected

    def anybody(state: PartitionState, incarnation: Any, **how: Any) -> PartitionState | None:
        found = elected(state, incarnation, **how)
        for b in state.observers if found is None else ():
            if (now := incarnation(b)) is not None:
                rest = tuple(o for o in state.observers if o != b)
                wider = replace(state, replicas=(*state.replicas, b), observers=rest, tail_start=-1)
                return election._led(wider, Seat(b, now), (Seat(b, now),), how["min_insync"])
        return found

    patch.setattr(election, "elected", anybody)


def a_tail_begins_without_the_producers(patch: pytest.MonkeyPatch) -> None:
    begin = Log.begin_with
    patch.setattr(
        Log, "begin_with", lambda self, known, now: begin(self, replace(known, producers=[], closing=[]), now)
    )


def an_observer_copies_what_it_finds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "unseeded", property(lambda self: False))


@pytest.mark.parametrize(
    ("mutation", "life", "first"),
    [
        (an_observer_counts_for_the_high_watermark, tails.live, 2),
        (a_tail_begins_before_that_is_committed, tails.live, 2),
        (a_tail_begins_without_the_producers, tails.live, 2),
        (an_observer_copies_what_it_finds, tails.live, 2),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_rule_of_tails_taken_out_is_missed(
    mutation: Any, life: Live, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(first, first + SEEDS_MAX):
        found = run(seed, life=life).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds found nothing wrong")


def test_a_failing_seed_is_told_by_its_shortest_failing_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    no_truncation_by_epoch(monkeypatch)
    whole = next(o for o in map(run, range(1, SEEDS_MAX)) if o.violation is not None)
    found = shortest(whole)
    assert found is not None
    faults, shorter = found
    assert shorter.violation is not None and shorter.faults == faults < whole.faults
    assert run(whole.seed, faults_max=faults).fingerprint == shorter.fingerprint
    assert faults == 0 or run(whole.seed, faults_max=faults - 1).violation is None


@pytest.mark.parametrize(
    ("case", "mutation"),
    [
        (classic.test_r1_a_follower_that_restarts_does_not_cut_to_its_high_watermark_and_then_lead, a_restart_cuts_to_the_high_watermark),
        (classic.test_r2_after_both_died_with_tails_of_different_length_the_logs_converge_by_epoch, no_truncation_by_epoch),
        (classic.test_r3_leadership_to_and_fro_with_an_epoch_missing_on_one_side_still_converges, no_truncation_by_epoch),
        (classic.test_r8_a_broker_whose_session_was_lost_takes_its_own_seat_again, a_seat_of_an_earlier_session_is_taken_for_ones_own),
        (classic.test_r10_a_replica_that_comes_back_empty_is_in_no_isr_before_it_has_caught_up, a_missing_copy_is_not_missed),
        (safety.test_r11_the_last_one_standing_loses_its_tail_and_cuts_nobody, the_high_watermark_rises_below_min_insync),
        (safety.test_a_shrunk_isr_counts_only_once_it_is_accepted, a_shrunk_isr_is_believed_before_it_is_accepted),
        (safety.test_a_newcomer_counts_as_soon_as_it_is_proposed, a_newcomer_counts_only_once_it_is_accepted),
        (safety.test_a_lost_tail_is_not_forgotten_by_the_next_start, a_loss_is_forgotten_at_the_next_start),
        (safety.test_a_leader_deposed_unheard_ends_no_idempotent_producer, a_leader_cut_off_is_sure_of_what_it_knows),
        (safety.test_what_a_copy_had_fetched_counts_for_nothing_once_it_is_thrown_away, a_copy_that_goes_leaves_the_epoch_as_it_is),
        (tail_cases.test_with_every_old_replica_away_nobody_leads_and_what_they_acknowledged_is_there_when_they_are_back, an_observer_is_elected),
        (safety.test_after_an_io_error_no_tail_is_taken_for_intact, an_io_error_is_forgotten_with_the_process),
        (safety.test_a_replica_moved_away_and_back_is_in_sync_only_by_what_it_holds_since, a_copy_that_goes_leaves_the_epoch_as_it_is),
    ],
    ids=lambda f: f.__name__.removeprefix("test_"),
)  # fmt: skip
def test_a_case_fails_without_the_rule_it_is_about(
    case: Callable[[int], None], mutation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(1, 7):
        try:
            case(seed)
        except (AssertionError, RuntimeError) as e:
            print(f"{case.__name__}, seed {seed}: {e}")
            return
    raise AssertionError("the case passes without the rule it is about")
