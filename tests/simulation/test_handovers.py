"""Partitions that are handed over before their old records are deleted (safety section 8, second stage): directed cases, and a fixed sample of worlds.

`make simulate WORLD=handovers` and `WORLD=handover-transactions` run any number of worlds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from brokerd.apis import history_reads
from brokerd.apis.history_reads import HistoryReader
from brokerd.cluster.model import PartitionState, TopicPartition
from brokerd.replication.history_reads import HistoryReadRequest
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from brokerd.storage.transaction_index import TransactionIndex
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.history import HistoryReadRequestData
from controlplane.controller.events import DesiredAssignment, DesiredRead
from tests.simulation.archive import Archive
from tests.simulation.checkers import History
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.detection import expect_detection
from tests.simulation.disk import SimDisk
from tests.simulation.earliest import FromEarliest, verify
from tests.simulation.run import Live, Outcome, run
from tests.simulation.tailmoves import TailMove, TailWatch
from tests.simulation.tails import early, early_with_transactions
from tests.simulation.world import S, World

TOPIC = "moved"


class HandoverScene:
    """A partition with two replicas that was handed over to the two other brokers. A reader reads it from the earliest offset all the time."""

    def __init__(self, seed: int, **configs: str) -> None:
        self.world = World(seed)
        self.cluster, self.history = (
            Cluster(self.world, brokers=4, settings={"log.retention.check.interval.ms": "1000"}),
            History(),
        )
        TailWatch(self.cluster)
        self.cluster.archive = Archive(self.cluster, (TOPIC,))
        topic_id = self.cluster.want_topic(TOPIC, 1, 2, min_insync_replicas="2", segment_bytes="4096", **configs)
        self.cluster.run_until(self.cluster.is_settled, 30, "the cluster's beginning")
        self.tp = TopicPartition(topic_id, 0)
        self.producer = Producer(self.cluster, self.history, "p", TOPIC, 0, 40)
        self.reader = FromEarliest(self.cluster, "e", (TOPIC, 0))
        self.world.run(self.world.now_us + 2 * S)
        self.old = self.state.replicas
        self.new = tuple(b for b in self.cluster.brokers if b not in self.old)
        self.move = TailMove(self.cluster, self.tp, "moved-0", self.new, 1, early=True)
        self.move.gives_up = False
        self.cluster.run_until(lambda: self.move.over and self.cluster.is_settled(), 30, "the hand-over")

    @property
    def state(self) -> PartitionState:
        state = self.cluster.image.partition(self.tp)
        assert state is not None
        return state

    def wait_for_passes(self, more: int = 2) -> None:
        wanted = self.reader.passes + more
        self.cluster.run_until(lambda: self.reader.passes >= wanted, 30, f"{more} passes")

    def hosting_brokers(self) -> set[int]:
        return {
            b
            for b, node in self.cluster.brokers.items()
            if node.alive and self.tp in node.broker.replica_manager.hosted
        }

    def end(self) -> None:
        self.producer.stopped = True
        self.cluster.run_until(lambda: self.producer.idle, 20, "the last acknowledgement")
        self.cluster.run_until(self.cluster.level, 20, "equal high watermarks")
        verify(self.cluster, [self.reader], set())
        self.history.verify(self.cluster)
        assert self.history.acks > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_leadership_moves_at_once_and_all_old_records_are_read_through_the_new_leader(seed: int) -> None:
    scene = HandoverScene(seed)
    state = scene.state
    assert state.replicas == scene.new and state.leader in scene.new
    assert set(state.history_replicas) == set(scene.old) and state.handover_offset > 0
    for b in scene.new:
        assert (
            scene.cluster.brokers[b].broker.replica_manager.hosted[scene.tp].log.start_offset == state.handover_offset
        )
    for b in scene.old:
        assert scene.cluster.brokers[b].broker.replica_manager.hosted[scene.tp].core.role is Role.HISTORY
    scene.wait_for_passes()
    assert scene.reader.pass_start == 0, "no record was deleted"
    scene.end()
    assert scene.world.reached["complete pass across a history"]


@pytest.mark.parametrize("old_is_asked", [True, False])
def test_old_records_are_read_while_brokers_have_different_versions(
    old_is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a rolling upgrade some brokers know only the earlier form of a history read."""
    scene = HandoverScene(1)
    queries: list[HistoryReadRequestData | ErrorCode] = []
    before_client, before_server = history_reads.put_request, history_reads.request_of

    def put_request(part: FetchRequest.FetchPartition, q: HistoryReadRequest) -> None:
        before_client(part, q)
        if not old_is_asked:
            part.history_read = b""

    def request_of(part: FetchRequest.FetchPartition) -> HistoryReadRequestData | ErrorCode:
        if old_is_asked:
            part.history_read = b""
        query = before_server(part)
        queries.append(query)
        return query

    monkeypatch.setattr(history_reads, "put_request", put_request)
    monkeypatch.setattr(history_reads, "request_of", request_of)
    scene.wait_for_passes()
    assert scene.reader.pass_start == 0, "no record was deleted"
    assert queries and not any(isinstance(q, ErrorCode) for q in queries)
    scene.end()


def test_without_history_replicas_no_client_gets_offset_out_of_range() -> None:
    scene = HandoverScene(3)
    first, second = (scene.cluster.brokers[b] for b in scene.state.history_replicas)
    first.kill()
    scene.wait_for_passes()
    second.freeze()
    scene.world.run(scene.world.now_us + 6 * S)
    assert scene.world.reached["no history replica answers"], "no retriable error was returned"
    assert not scene.world.reached["pass restarted"], "the reader got an offset out of range"
    acks = scene.history.acks
    scene.world.run(scene.world.now_us + 2 * S)
    assert scene.history.acks > acks, "produce requests waited for history replicas"
    second.resume()
    first.start()
    scene.wait_for_passes()
    assert scene.reader.pass_start == 0
    scene.cluster.run_until(scene.cluster.is_settled, 30, "everybody in step")
    scene.end()


def test_reads_from_the_earliest_offset_survive_a_leader_change_and_a_restart() -> None:
    scene = HandoverScene(4)
    for b in (*scene.old, scene.state.leader):
        scene.cluster.brokers[b].kill()
        scene.world.run(scene.world.now_us + 5 * S)
        scene.cluster.brokers[b].start()
        scene.cluster.run_until(scene.cluster.is_settled, 30, "everybody in step")
        scene.wait_for_passes(1)
    assert scene.state.leader_epoch > 2, "another one led"
    assert scene.reader.pass_start == 0 and scene.state.handover_offset > 0
    scene.end()


def test_a_new_replica_with_a_lost_directory_is_copied_completely_and_joins_the_isr() -> None:
    """Records below the leader's log are served to followers as well."""
    scene = HandoverScene(5)
    lost = next(b for b in scene.new if b != scene.state.leader)
    scene.cluster.brokers[lost].power_cut()
    scene.cluster.brokers[lost].disk = SimDisk()
    scene.cluster.brokers[lost].disk.mkdir(Path("/data"))
    scene.cluster.brokers[lost].start()
    scene.cluster.run_until(scene.cluster.is_settled, 40, "the lost copy in step again")
    assert scene.cluster.brokers[lost].broker.replica_manager.hosted[scene.tp].log.start_offset == 0
    scene.wait_for_passes()
    scene.end()


def test_a_rollback_copies_no_old_record_and_ends_history_reads() -> None:
    scene = HandoverScene(6)
    scene.cluster.deliver_desired(DesiredAssignment(*scene.tp, scene.old, scene.state.assignment_generation, "back"))
    scene.cluster.run_until(
        lambda: scene.state.replicas == scene.old and scene.cluster.is_settled(), 40, "the rollback"
    )
    assert (scene.state.handover_offset, scene.state.history_replicas) == (-1, ())
    assert scene.hosting_brokers() == set(scene.old)
    scene.wait_for_passes()
    assert scene.reader.pass_start == 0
    scene.end()


def test_retention_by_size_shrinks_the_history_and_then_removes_history_replicas() -> None:
    scene = HandoverScene(8, retention_bytes="20000")
    assert scene.state.handover_offset > 0
    starts = set()
    deadline = scene.world.now_us + 120 * S
    while scene.state.handover_offset >= 0 and scene.world.now_us < deadline:
        scene.world.run(scene.world.now_us + S // 2)
        starts.add(scene.state.log_start_floor)
    assert scene.state.handover_offset < 0 and scene.state.history_replicas == ()
    assert len(starts) > 2, f"piece by piece: {sorted(starts)}"
    scene.cluster.run_until(lambda: scene.hosting_brokers() == set(scene.new), 10, "the old replicas to be deleted")
    scene.end()


def test_records_deleted_below_the_handover_offset_stay_deleted_under_the_next_leader() -> None:
    scene = HandoverScene(7)
    scene.reader.deletes = 1.0
    scene.cluster.run_until(lambda: scene.state.log_start_floor > 0, 30, "records to be deleted")
    scene.reader.deletes = 0.0
    floor = scene.state.log_start_floor
    assert 0 < floor < scene.state.handover_offset
    scene.cluster.brokers[scene.state.leader].kill()
    scene.wait_for_passes(2)
    assert scene.reader.pass_start >= floor
    scene.cluster.brokers[scene.new[0]].start()
    scene.cluster.brokers[scene.new[1]].start()
    scene.cluster.run_until(scene.cluster.is_settled, 30, "everybody in step")
    scene.end()


def test_the_deletion_of_a_topic_deletes_its_history_replicas() -> None:
    scene = HandoverScene(9)
    scene.producer.stopped = scene.reader.stopped = True
    gone = replace(scene.cluster.topics.pop(TOPIC), generation=2, deleted=True)
    assert scene.cluster.acting is not None
    scene.cluster.acting.deliver(DesiredRead((gone,)))
    scene.cluster.run_until(lambda: not scene.hosting_brokers(), 20, "all replicas to be deleted")


# -- worlds ----------------------------------------------------------------------------------------------------------------

SEEDS: list[tuple[Live, int]] = [(early, 5), (early_with_transactions, 4)]


@cache
def run_seed(life: Live, seed: int) -> Outcome:
    return run(seed, life=life)


@cache
def run_transactions(seed: int) -> Outcome:
    return run(seed, life=early_with_transactions)


@pytest.mark.parametrize(("life", "seed"), SEEDS, ids=["5", "transactions-4"])
def test_a_simulation_with_early_hand_overs_keeps_the_invariants(life: Live, seed: int) -> None:
    outcome = run_seed(life, seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "the load hardly ran: nothing was shown"


def test_the_sample_reaches_all_hand_over_states() -> None:
    reached: Counter[str] = Counter()
    for life, seed in SEEDS:
        reached += run_seed(life, seed).reached
    for state in (
        "tail move: hand_over",
        "tail move: done",
        "pass across the end of a history",
        "complete pass across a history",
        "lookup by time",
        "transactions aborted",
    ):
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"


# -- rules taken out ---------------------------------------------------------------------------------------------------------


def aborts_above_the_history_are_not_reported_below(patch: pytest.MonkeyPatch) -> None:
    read, between = HistoryReader.read, TransactionIndex.overlapping

    def mutated_read(self: HistoryReader, *given: Any) -> int:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(TransactionIndex, "overlapping", lambda *_: [])
            return read(self, *given)

    patch.setattr(HistoryReader, "read", mutated_read)
    assert between is TransactionIndex.overlapping


def the_stable_offset_ends_at_the_leaders_log_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "last_stable", lambda self: self.log.last_stable(self.core.high_watermark))


def history_replicas_do_not_report_aborts(patch: pytest.MonkeyPatch) -> None:
    decode = history_reads._decode
    patch.setattr(history_reads, "_decode", lambda response: replace(decode(response), aborted=()))


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (aborts_above_the_history_are_not_reported_below, 23),
        (the_stable_offset_ends_at_the_leaders_log_start, 23),
        (history_replicas_do_not_report_aborts, 20),
    ],
    ids=lambda rule: rule.__name__ if callable(rule) else "",
)
def test_a_removed_rule_is_detected(rule: Callable[[pytest.MonkeyPatch], None], first: int) -> None:
    expect_detection(rule, run_transactions, first, seeds_max=30)


def test_a_leader_without_history_reads_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "local_log_start_offset", property(lambda self: 0))
    scene = HandoverScene(1)
    scene.wait_for_passes()
    assert scene.reader.pass_start > 0, "the reader still reads the old records"
