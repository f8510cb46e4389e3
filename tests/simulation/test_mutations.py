"""The checkers detect missing safety rules: without any one of the rules, a checker fails within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from brokerd.apis import fetch, fetch_conditions
from brokerd.apis.fetch_reader import FetchReader
from brokerd.apis.produce import ProduceApi
from brokerd.cluster import appender, broker_lives, election
from brokerd.cluster.metadata import MetadataError
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.store import Check, Result
from brokerd.cluster.tailer import Tailer
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.consumer import group
from brokerd.coordinator.transactions.transaction import (
    Transaction,
)
from brokerd.coordinator.transactions.transaction_events import (
    PREPARED,
    Persist,
    SendMarkers,
    TransactionMachineState,
)
from brokerd.membership.identity import BrokerIdentity
from brokerd.membership.membership import Membership
from brokerd.replication import follower_log as followers_module
from brokerd.replication import replica_manager as partitions_module
from brokerd.replication.bootstrap import Bootstrap
from brokerd.replication.leadership_confirmation import LeadershipConfirmation
from brokerd.replication.outbox import OutboxEntry
from brokerd.replication.partition import Partition, Role
from brokerd.replication.partition_events import PartitionStateChanged
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.replica_opening import ReplicaOpening
from brokerd.replication.stored_truncations import StoredTruncations
from brokerd.runtime.coordinator_ports import InternalLog
from brokerd.storage import checkpoints, observer_bootstrap
from brokerd.storage.cleaner import Cleaning
from brokerd.storage.log import Log
from brokerd.storage.log_dirs import LogDir
from brokerd.storage.log_start import LogStartFlush, StoredLogStart
from brokerd.storage.producers import ACCEPTED, NO_OFFSET, Accepted, Duplicate, ProducerRejected, Producers
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader
from controlplane.controller.liveness import ConnectionResults, Liveness
from controlplane.controller.reconcile_pass import ReconcilePass
from tests.simulation import exactly_once, tails
from tests.simulation import test_classic as classic
from tests.simulation import test_delayed_starts as delayed_starts
from tests.simulation import test_delete_records as deletion
from tests.simulation import test_deposed_leader as deposed
from tests.simulation import test_min_insync as minimum
from tests.simulation import test_older_folders as older
from tests.simulation import test_safety as safety
from tests.simulation import test_standby_probes as standby
from tests.simulation import test_tails as tail_cases
from tests.simulation import test_topic_created_again as again
from tests.simulation import test_truncation as truncation
from tests.simulation.__main__ import shortest_prefix
from tests.simulation.detection import expect_detection
from tests.simulation.disk import SimDisk
from tests.simulation.fault_injector import AGAIN
from tests.simulation.run import Outcome, run

SEEDS_MAX = 30
run_seed = cache(run)


@cache
def run_transactions(seed: int) -> Outcome:
    return run(seed, life=exactly_once.live)


@cache
def run_tails(seed: int) -> Outcome:
    return run(seed, life=tails.live)


def no_truncation_by_epoch(patch: pytest.MonkeyPatch) -> None:
    for module in (fetch, fetch_conditions):
        patch.setattr(module, "find_divergence", lambda *_: None)


def a_smaller_isr_counts_before_it_is_accepted(patch: pytest.MonkeyPatch) -> None:
    def isr(self: Partition) -> frozenset[Any]:
        assert self.state is not None
        return frozenset(self.proposal.isr if self.proposal is not None else self.state.isr)

    patch.setattr(Partition, "maximal_isr", isr)


def the_high_watermark_is_the_leaders_log_end_offset(patch: pytest.MonkeyPatch) -> None:
    def raise_to_end(self: Partition) -> list[Any]:
        self.high_watermark = self.log_end
        return [partitions_module.core.RaiseHighWatermark(self.log_end)]

    patch.setattr(Partition, "_raise_high_watermark", raise_to_end)


def an_earlier_incarnation_stays_leader(patch: pytest.MonkeyPatch) -> None:
    def mutated_state_changed_event(
        self: ReplicaManager, replica: Replica, state: PartitionState
    ) -> PartitionStateChanged:
        leads = state.leader == self.broker_id
        log = replica.log
        return PartitionStateChanged(
            state,
            leads,
            replica.config.min_insync_replicas,
            log.end_offset,
            log.start_offset,
            leader_alive=state.leader >= 0,
        )

    patch.setattr(ReplicaManager, "_state_changed_event", mutated_state_changed_event)


def every_tail_counts_as_intact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerIdentity, "tail_intact", property(lambda self: True, lambda self, value: None), raising=False)


def a_loss_is_forgotten_at_the_next_start(patch: pytest.MonkeyPatch) -> None:
    text_of = BrokerIdentity._text_of

    def mutated_text_of(self: BrokerIdentity, d: LogDir) -> bytes:
        intact, self.tail_intact = self.tail_intact, True
        try:
            return text_of(self, d)
        finally:
            self.tail_intact = intact

    patch.setattr(BrokerIdentity, "_text_of", mutated_text_of)


def a_truncation_waits_for_the_disk_on_the_event_loop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "forget_flushed", lambda self, offset: False)


def a_restart_forgets_truncations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredTruncations, "_load", lambda self, directory: [])


def an_earlier_incarnation_counts_as_the_last_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_lives, "continues_recorded_life", lambda recorded, life, before: True)
    patch.setattr(BrokerIdentity, "compare", lambda self, recorded: None)


def a_copy_counts_as_the_original(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimDisk, "file_id", lambda self, path: "the same")


def an_older_copy_leads_as_the_last_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_lives, "may_be_elsewhere", lambda code: False)


def an_empty_log_above_the_leaders_end_is_not_reset(patch: pytest.MonkeyPatch) -> None:
    out_of_range = followers_module.FollowerLogs.out_of_range

    def mutated_out_of_range(self: followers_module.FollowerLogs, tp: Any, leader_log_start: int, *rest: Any) -> None:
        if leader_log_start > self._replica_manager.hosted[tp].log.end_offset:
            out_of_range(self, tp, leader_log_start, *rest)

    patch.setattr(followers_module.FollowerLogs, "out_of_range", mutated_out_of_range)


def a_follower_does_not_know_the_producers_of_deleted_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observer_bootstrap, "snapshot_at_log_start", lambda log: b"")


def a_new_isr_member_counts_only_after_its_acceptance(patch: pytest.MonkeyPatch) -> None:
    def isr(self: Partition) -> frozenset[Any]:
        assert self.state is not None
        return frozenset(self.state.isr)

    patch.setattr(Partition, "maximal_isr", isr)


def the_high_watermark_rises_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    raised = Partition._raise_high_watermark

    def mutated_raise_high_watermark(self: Partition) -> list[Any]:
        before = self.min_insync, self.state
        self.min_insync, self.state = 0, replace(self.state, elr=()) if self.state is not None else None
        try:
            return raised(self)
        finally:
            self.min_insync, self.state = before

    patch.setattr(Partition, "_raise_high_watermark", mutated_raise_high_watermark)


def the_minimum_may_be_more_than_there_are_replicas(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "effective_min_insync", lambda self, configured: configured)


def replicas_count_for_the_minimum_before_they_are_copied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "effective_min_insync", lambda self, configured: min(configured, len(self.replicas)))


def the_elr_survives_a_lowered_minimum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "without_outdated_elr", lambda state, min_insync: state)


def a_controller_writes_unfenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(appender, "Check", lambda path, version: Check(path, -1))


def a_fatal_error_is_returned_without_a_confirmation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeadershipConfirmation, "request", lambda self, done: done(True))


def a_raised_log_start_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogStartFlush, "run", lambda self: None)


def a_raised_log_start_is_reported_before_its_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLogStart, "reported", property(lambda self: self._log.start_offset))
    patch.setattr(StoredLogStart, "flushed", property(lambda self: self._log.start_offset, lambda self, value: None))


def the_stored_log_start_is_above_the_log_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredLogStart, "lower", lambda self: None)


def a_confirmation_reads_the_log_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(self: Tailer) -> None:
        self._busy = True
        self._confirming, self._unsynced = self._unsynced, []
        self._read_head()

    patch.setattr(Tailer, "_sync", sync)


def the_end_offset_is_returned_before_the_high_watermark_reaches_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "serves_latest", property(lambda self: True))


def a_restart_truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    opened = ReplicaOpening.open

    def mutated_open(self: ReplicaOpening, *args: Any) -> Replica:
        replica = opened(self, *args)
        replica.log.truncate_to(replica.core.high_watermark)
        return replica

    patch.setattr(ReplicaOpening, "open", mutated_open)


def a_registration_of_an_earlier_session_counts_as_the_own_one(patch: pytest.MonkeyPatch) -> None:
    read = Membership._registration_stat

    def mutated_registration_stat(self: Membership, result: Result) -> None:
        if result.ok and result.stat is not None:
            self._registration_read(replace(result, stat=replace(result.stat, owner=self._store.zk_session)))
        else:
            read(self, result)

    patch.setattr(Membership, "_registration_stat", mutated_registration_stat)


def a_missing_replica_is_not_detected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "lost_copies", lambda disk, folder: [])


def checkpoints_are_written_before_the_metadata_is_loaded(patch: pytest.MonkeyPatch) -> None:
    def mutated_checkpoint_later(self: ReplicaOpening) -> None:
        for d in self._log_dirs.online:
            self._log_dirs.checkpoint(d, self._high_watermarks(d))

    patch.setattr(ReplicaOpening, "checkpoint_later", mutated_checkpoint_later)


def an_io_error_is_forgotten_with_the_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerIdentity, "tail_in_doubt", lambda self: None)


def a_coordinator_answers_before_its_write_is_replicated(patch: pytest.MonkeyPatch) -> None:
    append = InternalLog.append

    def mutated_append(
        self: InternalLog, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]
    ) -> None:
        leads = self.leader_epoch(partition) == leader_epoch
        append(self, partition, batch, leader_epoch, lambda error: None if leads else done(error))
        if leads:
            done(0)

    patch.setattr(InternalLog, "append", mutated_append)


def a_partition_is_assigned_while_another_member_owns_it(patch: pytest.MonkeyPatch) -> None:
    reconciled = group.reconcile
    patch.setattr(group, "reconcile", lambda at, to, epoch, owned, free: reconciled(at, to, epoch, owned, bool))


def a_removed_replica_does_not_raise_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        election, "with_new_leader_epoch", lambda state: replace(state, partition_epoch=state.partition_epoch + 1)
    )


def a_sequence_above_the_expected_one_is_accepted(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check

    def mutated_check(self: Producers, header: BatchHeader) -> Accepted | Duplicate | ProducerRejected:
        known = self.known.get(header.producer_id)
        same_epoch = known is not None and known.epoch == header.producer_epoch
        if known is not None and same_epoch and known.batches and header.base_sequence > known.batches[-1][1]:
            return ACCEPTED
        return check(self, header)

    patch.setattr(Producers, "check", mutated_check)


def a_duplicate_is_acknowledged_at_another_offset(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check

    def mutated_check(self: Producers, header: BatchHeader) -> Accepted | Duplicate | ProducerRejected:
        found = check(self, header)
        return replace(found, base_offset=found.base_offset + 1) if isinstance(found, Duplicate) else found

    patch.setattr(Producers, "check", mutated_check)


def only_the_last_batch_is_remembered(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check

    def mutated_check(self: Producers, header: BatchHeader) -> Accepted | Duplicate | ProducerRejected:
        found, known = check(self, header), self.known.get(header.producer_id)
        if isinstance(found, Duplicate) and known is not None and found.base_offset != known.batches[-1][2]:
            return ACCEPTED
        return found

    patch.setattr(Producers, "check", mutated_check)


def an_old_duplicate_is_acknowledged_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check

    def at_once(self: Producers, header: BatchHeader) -> Accepted | Duplicate | ProducerRejected:
        found = check(self, header)
        return replace(found, written_before=NO_OFFSET) if isinstance(found, ProducerRejected) else found

    patch.setattr(Producers, "check", at_once)


def a_fetch_starts_after_the_requested_offset(patch: pytest.MonkeyPatch) -> None:
    read = FetchReader.read

    def mutated_read(self: FetchReader, body: Any, partition_requests: Any, follower: Any, *more: Any) -> Any:
        for partition_request in partition_requests.values() if follower is None else ():
            if partition_request.requested.fetch_offset % 20 == 19:
                partition_request.requested.fetch_offset += 1
        return read(self, body, partition_requests, follower, *more)

    patch.setattr(FetchReader, "read", mutated_read)


def a_topic_id_means_any_topic_of_its_name(patch: pytest.MonkeyPatch) -> None:
    state = ProduceApi._state

    def by_name(self: ProduceApi, topic: Any, version: int) -> Any:
        there = self._replica_manager.image.topic_named(AGAIN)
        if version >= 13 and there is not None and topic.topic_id not in self._replica_manager.image.topics:
            topic.topic_id = there.topic_id
        return state(self, topic, version)

    patch.setattr(ProduceApi, "_state", by_name)


def compaction_keeps_the_oldest_of_each_key(patch: pytest.MonkeyPatch) -> None:
    stays = Cleaning._stays
    seen: set[tuple[int, bytes]] = set()

    def oldest(self: Cleaning, record: Any, horizon: int | None) -> bool:
        if record.key is None or b"-" not in record.key:
            return stays(self, record, horizon)
        known = (id(self), record.key) in seen
        seen.add((id(self), record.key))
        return not known

    patch.setattr(Cleaning, "_stays", oldest)


def an_unclean_election_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReconcilePass, "_report_unclean", lambda *_, **__: None)


def an_automatic_unclean_election_is_not_in_the_audit_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReconcilePass, "automatic_elections", lambda _: [])


def every_election_may_be_unclean(patch: pytest.MonkeyPatch) -> None:
    elected = election.elect_leader
    patch.setattr(election, "elect_leader", lambda *a, **how: elected(*a, **{**how, "unclean": True}))


def a_follower_returns_records_above_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    limit = FetchReader._limit

    def mutated_limit(body: Any, follower: Any) -> Callable[[Replica], int]:
        narrow = limit(body, follower)
        return lambda replica: narrow(replica) if replica.leads else replica.log.end_offset

    patch.setattr(FetchReader, "_limit", staticmethod(mutated_limit))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_topic_id_means_any_topic_of_its_name, 8),
        (compaction_keeps_the_oldest_of_each_key, 14),
        (an_unclean_election_is_not_reported, 16),
        (an_automatic_unclean_election_is_not_in_the_audit_log, 11),
        (every_election_may_be_unclean, 7),
        (a_follower_returns_records_above_the_high_watermark, 8),
        (a_sequence_above_the_expected_one_is_accepted, 24),
        (a_duplicate_is_acknowledged_at_another_offset, 1),
        (only_the_last_batch_is_remembered, 1),
        (a_fetch_starts_after_the_requested_offset, 1),
        (no_truncation_by_epoch, 2),
        (the_high_watermark_is_the_leaders_log_end_offset, 1),
        (an_earlier_incarnation_stays_leader, 1),
        (every_tail_counts_as_intact, 1),
        (a_controller_writes_unfenced, 19),
        (the_end_offset_is_returned_before_the_high_watermark_reaches_it, 1),
        (a_restart_truncates_to_the_high_watermark, 2),
        (a_coordinator_answers_before_its_write_is_replicated, 46),
        (a_partition_is_assigned_while_another_member_owns_it, 9),
        (a_truncation_waits_for_the_disk_on_the_event_loop, 14),
        (a_restart_forgets_truncations, 3),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)


def a_producer_is_never_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Transaction,
        "_producer_error",
        lambda self, producer_id, epoch: 0 if epoch <= self.record.epoch else ErrorCode.PRODUCER_FENCED,
    )


def read_committed_goes_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable", lambda self, high_watermark, begins=None: high_watermark)


def aborted_transactions_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchReader, "_aborted_transactions", staticmethod(lambda *_: []))


def markers_are_sent_before_the_decision_is_replicated(patch: pytest.MonkeyPatch) -> None:
    handle = Transaction.handle

    def mutated_handle(self: Transaction, event: Any, now: Any) -> list[Any]:
        effects = handle(self, event, now)
        for effect in list(effects):
            if isinstance(effect, Persist) and effect.record.state in PREPARED:
                r = effect.record
                commit = r.state is TransactionMachineState.PREPARE_COMMIT
                effects.append(SendMarkers(r.producer_id, r.epoch, commit, r.partitions, r.version))
        return effects

    patch.setattr(Transaction, "handle", mutated_handle)


def offsets_count_before_their_transaction_ends(patch: pytest.MonkeyPatch) -> None:
    place = GroupOffsets.place
    patch.setattr(GroupOffsets, "place", lambda self, key, offset, at, producer_id=None: place(self, key, offset, at))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (a_producer_is_never_fenced, 16),
        (read_committed_goes_to_the_high_watermark, 1),
        (aborted_transactions_are_not_reported, 1),
        (markers_are_sent_before_the_decision_is_replicated, 6),
        (offsets_count_before_their_transaction_ends, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_of_transactions_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_transactions, first, SEEDS_MAX)


def an_observer_counts_for_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    raised = Partition._raise_high_watermark

    def mutated_raise_high_watermark(self: Partition) -> list[Any]:
        effects = raised(self)
        state = self.state
        if self.role is Role.LEADER and state is not None and state.observers:
            ends = sorted((f.log_end for f in self.followers.values()), reverse=True)[: self.min_insync - 1]
            low = min([self.log_end, *ends])
            if low > self.high_watermark:
                self.high_watermark = low
                effects.append(partitions_module.core.RaiseHighWatermark(low))
        return effects

    patch.setattr(Partition, "_raise_high_watermark", mutated_raise_high_watermark)


def a_tail_starts_before_its_start_is_committed(patch: pytest.MonkeyPatch) -> None:
    requested = Bootstrap.snapshot_for_observer

    def mutated_snapshot_for_observer(self: Bootstrap, replica: Replica, now: Any) -> bytes | None:
        snapshot = requested(self, replica, now)
        offer = self._offers.get(replica.tp)
        if offer is not None and not offer.committed:
            self._offers[replica.tp] = offer._replace(committed=True)
            self._outbox.mark_changed(OutboxEntry.BOOTSTRAP_OFFSETS)
        return snapshot

    patch.setattr(Bootstrap, "snapshot_for_observer", mutated_snapshot_for_observer)


def an_observer_is_elected(patch: pytest.MonkeyPatch) -> None:
    elected = election.elect_leader

    def mutated_elect_leader(state: PartitionState, broker_epoch: Any, **how: Any) -> PartitionState | None:
        found = elected(state, broker_epoch, **how)
        for b in state.observers if found is None else ():
            if (now := broker_epoch(b)) is not None:
                rest = tuple(o for o in state.observers if o != b)
                wider = replace(state, replicas=(*state.replicas, b), observers=rest, tail_start=-1)
                return election._with_leader(
                    wider, ReplicaIncarnation(b, now), (ReplicaIncarnation(b, now),), how["min_insync"]
                )
        return found

    patch.setattr(election, "elect_leader", mutated_elect_leader)


def a_tail_starts_without_producer_state(patch: pytest.MonkeyPatch) -> None:
    begin = Log.start_at_snapshot
    patch.setattr(
        Log, "start_at_snapshot", lambda self, known, now: begin(self, replace(known, producers=[], closing=[]), now)
    )


def an_observer_copies_old_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "awaits_bootstrap", property(lambda self: False))


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (an_observer_counts_for_the_high_watermark, 3),
        (a_tail_starts_before_its_start_is_committed, 3),
        (a_tail_starts_without_producer_state, 2),
        (an_observer_copies_old_records, 2),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_of_tails_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_tails, first, SEEDS_MAX)


def test_a_failing_seed_is_reduced_to_its_shortest_failing_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    no_truncation_by_epoch(monkeypatch)
    whole = next(o for o in map(run, range(1, SEEDS_MAX)) if o.violation is not None)
    found = shortest_prefix(whole)
    assert found is not None
    faults, shorter = found
    assert shorter.violation is not None and shorter.faults == faults < whole.faults
    assert run(whole.seed, faults_max=faults).fingerprint == shorter.fingerprint
    assert faults == 0 or run(whole.seed, faults_max=faults - 1).violation is None


def a_follower_truncates_only_to_the_leaders_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(followers_module, "truncation_point", lambda local, log_end, epoch, end: min(end, log_end))


def a_deletion_leaves_the_topic_open_to_later_decisions(patch: pytest.MonkeyPatch) -> None:
    delete = ReconcilePass.delete

    def mutated_delete(self: ReconcilePass, topic: Any, generation: int) -> None:
        delete(self, topic, generation)
        self.deleted.clear()

    patch.setattr(ReconcilePass, "delete", mutated_delete)


def an_election_forgets_the_connections(patch: pytest.MonkeyPatch) -> None:
    begin_term = Liveness.begin_term

    def mutated_begin_term(self: Liveness, now: Any) -> None:
        self.evidence = {i: ConnectionResults(e.broker_epoch) for i, e in self.evidence.items()}
        begin_term(self, now)

    patch.setattr(Liveness, "begin_term", mutated_begin_term)


def refusals_before_the_election_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Liveness, "_acting", property(lambda self: True, lambda self, value: None), raising=False)


@pytest.mark.parametrize(
    ("case", "mutation"),
    [
        (
            classic.test_r3_a_follower_without_the_leaders_epoch_truncates_by_its_own_epochs,
            a_follower_truncates_only_to_the_leaders_offset,
        ),
        (
            classic.test_r1_a_restarted_follower_does_not_truncate_to_its_high_watermark_and_then_lead,
            a_restart_truncates_to_the_high_watermark,
        ),
        (classic.test_r2_logs_with_different_tails_converge_by_leader_epoch, no_truncation_by_epoch),
        (classic.test_r3_logs_converge_after_leader_changes_with_an_epoch_missing_on_one_side, no_truncation_by_epoch),
        (
            classic.test_r8_a_broker_that_lost_its_session_registers_and_joins_the_isr_again,
            a_registration_of_an_earlier_session_counts_as_the_own_one,
        ),
        (classic.test_r10_an_emptied_replica_joins_no_isr_before_it_has_caught_up, a_missing_replica_is_not_detected),
        (
            safety.test_r11_the_last_isr_member_loses_its_tail_and_truncates_no_other_replica,
            the_high_watermark_rises_below_min_insync,
        ),
        (
            partial(
                minimum.test_a_topic_with_fewer_replicas_than_the_minimum_is_written_and_read, replicas=1, min_insync=2
            ),
            the_minimum_may_be_more_than_there_are_replicas,
        ),
        (
            partial(
                minimum.test_a_topic_with_fewer_replicas_than_the_minimum_is_written_and_read, replicas=2, min_insync=3
            ),
            the_minimum_may_be_more_than_there_are_replicas,
        ),
        (
            minimum.test_a_topic_with_one_replica_stays_open_while_it_is_copied,
            replicas_count_for_the_minimum_before_they_are_copied,
        ),
        (
            minimum.test_with_as_many_replicas_as_the_minimum_none_may_be_missing,
            the_high_watermark_rises_below_min_insync,
        ),
        (
            minimum.test_a_lowered_default_minimum_elects_no_replica_without_the_latest_records,
            the_elr_survives_a_lowered_minimum,
        ),
        (safety.test_a_smaller_isr_counts_only_after_its_acceptance, a_smaller_isr_counts_before_it_is_accepted),
        (
            safety.test_a_new_isr_member_counts_as_soon_as_it_is_proposed,
            a_new_isr_member_counts_only_after_its_acceptance,
        ),
        (safety.test_a_lost_tail_is_not_forgotten_by_the_next_start, a_loss_is_forgotten_at_the_next_start),
        (
            safety.test_a_replaced_leader_that_does_not_know_it_ends_no_idempotent_producer,
            a_fatal_error_is_returned_without_a_confirmation,
        ),
        (
            safety.test_a_duplicate_older_than_the_remembered_batches_is_acknowledged_only_when_replicated,
            an_old_duplicate_is_acknowledged_before_it_is_replicated,
        ),
        (
            deposed.test_a_deposed_leader_that_does_not_know_it_ends_no_idempotent_producer,
            a_fatal_error_is_returned_without_a_confirmation,
        ),
        (
            deposed.test_a_deposed_leader_that_does_not_know_it_ends_no_idempotent_producer,
            a_confirmation_reads_the_log_without_a_sync,
        ),
        (
            safety.test_fetches_before_a_reset_of_the_replica_do_not_count,
            a_removed_replica_does_not_raise_the_leader_epoch,
        ),
        (
            tail_cases.test_with_every_old_replica_down_no_broker_leads_and_no_acknowledged_record_is_lost,
            an_observer_is_elected,
        ),
        (safety.test_after_an_io_error_no_tail_is_trusted, an_io_error_is_forgotten_with_the_process),
        (
            delayed_starts.test_a_truncated_log_does_not_lead_after_a_delayed_start,
            checkpoints_are_written_before_the_metadata_is_loaded,
        ),
        (
            safety.test_a_replica_moved_away_and_back_is_in_sync_only_with_its_new_log,
            a_removed_replica_does_not_raise_the_leader_epoch,
        ),
        (
            truncation.test_an_empty_log_above_the_leaders_end_is_reset,
            an_empty_log_above_the_leaders_end_is_not_reset,
        ),
        (
            older.test_a_volume_from_a_clean_shutdown_is_rejected_after_the_broker_has_started_again,
            an_earlier_incarnation_counts_as_the_last_one,
        ),
        (older.test_a_copy_of_a_running_broker_s_directory_is_rejected, a_copy_counts_as_the_original),
        (older.test_a_restore_that_leaves_unchanged_files_alone_is_rejected, a_copy_counts_as_the_original),
        (
            again.test_a_reassignment_of_a_deleted_topic_is_dropped,
            a_deletion_leaves_the_topic_open_to_later_decisions,
        ),
        (older.test_an_older_copy_of_the_only_in_sync_replica_stays_offline, an_older_copy_leads_as_the_last_one),
        (
            partial(deletion.test_a_power_failure_of_all_replicas_brings_no_deleted_record_back, brokers=1),
            a_raised_log_start_is_not_flushed,
        ),
        (
            partial(deletion.test_a_power_failure_of_all_replicas_brings_no_deleted_record_back, brokers=2),
            a_raised_log_start_is_reported_before_its_flush,
        ),
        (
            deletion.test_a_repeated_request_is_flushed_although_the_log_starts_there_already,
            a_raised_log_start_is_not_flushed,
        ),
        (
            standby.test_a_broker_that_died_before_the_election_loses_its_leaders_within_a_second,
            an_election_forgets_the_connections,
        ),
        (standby.test_refused_connections_before_the_election_end_no_broker, refusals_before_the_election_count),
        (deletion.test_a_log_that_lost_its_end_hides_no_later_record, the_stored_log_start_is_above_the_log_end),
        (
            deletion.test_a_follower_whose_next_records_are_deleted_knows_their_producers,
            a_follower_does_not_know_the_producers_of_deleted_records,
        ),
    ],
    ids=lambda f: (f.func if isinstance(f, partial) else f).__name__.removeprefix("test_"),
)
def test_a_case_fails_without_its_rule(
    case: Callable[[int], None], mutation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(1, 7):
        try:
            case(seed)
        except (AssertionError, RuntimeError, MetadataError) as e:
            print(f"{case}, seed {seed}: {e}")
            return
    raise AssertionError("the case passes without its rule")
