"""Partitions handed over before their old records have gone (safety section 8, the second stage): directed scenes, and a fixed sample of worlds.

`make simulate WORLD=handovers` and `WORLD=handover-transactions` run as many worlds as you like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from brokerd.apis import held
from brokerd.apis.held import Below
from brokerd.cluster.model import PartitionState, TopicPartition
from brokerd.partition import Role
from brokerd.replica import Replica
from brokerd.storage.aborted import AbortedIndex
from controlplane.controller.events import DesiredAssignment, DesiredRead
from tests.simulation.archive import Archive
from tests.simulation.checkers import History
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.disk import SimDisk
from tests.simulation.earliest import FromEarliest, judge
from tests.simulation.run import Live, Outcome, run
from tests.simulation.tailmoves import TailMove, TailWatch
from tests.simulation.tails import early, early_with_transactions
from tests.simulation.world import S, World

TOPIC = "moved"


class HandedOver:
    """A partition of two replicas that was handed over to the two other brokers; one reads it from the earliest offset all the time."""

    def __init__(self, seed: int, **configs: str) -> None:
        self.world = World(seed)
        self.cluster, self.history = (
            Cluster(self.world, brokers=4, settings={"log.retention.check.interval.ms": "1000"}),
            History(),
        )
        TailWatch(self.cluster)
        self.cluster.archive = Archive(self.cluster, (TOPIC,))
        topic_id = self.cluster.want_topic(TOPIC, 1, 2, min_insync_replicas="2", segment_bytes="4096", **configs)
        self.cluster.until(self.cluster.settled, 30, "the cluster's beginning")
        self.tp = TopicPartition(topic_id, 0)
        self.producer = Producer(self.cluster, self.history, "p", TOPIC, 0, 40)
        self.reader = FromEarliest(self.cluster, "e", (TOPIC, 0))
        self.world.run(self.world.now_us + 2 * S)
        self.old = self.state.replicas
        self.new = tuple(b for b in self.cluster.brokers if b not in self.old)
        self.move = TailMove(self.cluster, self.tp, "moved-0", self.new, 1, early=True)
        self.move.gives_up = False
        self.cluster.until(lambda: self.move.over and self.cluster.settled(), 30, "the hand-over")

    @property
    def state(self) -> PartitionState:
        state = self.cluster.image.partition(self.tp)
        assert state is not None
        return state

    def passes(self, more: int = 2) -> None:
        wanted = self.reader.passes + more
        self.cluster.until(lambda: self.reader.passes >= wanted, 30, f"{more} passes")

    def hosts(self) -> set[int]:
        return {
            b for b, node in self.cluster.brokers.items() if node.alive and self.tp in node.broker.partitions.hosted
        }

    def end(self) -> None:
        self.producer.stopped = True
        self.cluster.until(lambda: self.producer.idle, 20, "the last acknowledgement")
        self.cluster.until(self.cluster.level, 20, "equal high watermarks")
        judge(self.cluster, [self.reader], set())
        self.history.judge(self.cluster)
        assert self.history.acks > 20


@pytest.mark.parametrize("seed", [1, 2])
def test_leadership_moves_at_once_and_all_old_records_are_read_through_the_new_leader(seed: int) -> None:
    scene = HandedOver(seed)
    state = scene.state
    assert state.replicas == scene.new and state.leader in scene.new
    assert set(state.holders) == set(scene.old) and state.archive_start > 0
    for b in scene.new:
        assert scene.cluster.brokers[b].broker.partitions.hosted[scene.tp].log.start_offset == state.archive_start
    for b in scene.old:
        assert scene.cluster.brokers[b].broker.partitions.hosted[scene.tp].core.role is Role.HOLDER
    scene.passes()
    assert scene.reader.began == 0, "nothing was let go"
    scene.end()
    assert scene.world.reached["read to the end across an archive"]


def test_with_one_holder_away_the_other_is_read_and_with_none_nobody_is_told_that_the_records_are_gone() -> None:
    scene = HandedOver(3)
    first, second = (scene.cluster.brokers[b] for b in scene.state.holders)
    first.kill()
    scene.passes()
    second.freeze()
    scene.world.run(scene.world.now_us + 6 * S)
    assert scene.world.reached["no holder answers"], "an error that passes"
    assert not scene.world.reached["a pass is begun anew"], "never out of range"
    acks = scene.history.acks
    scene.world.run(scene.world.now_us + 2 * S)
    assert scene.history.acks > acks, "what is written does not wait for holders"
    second.thaw()
    first.start()
    scene.passes()
    assert scene.reader.began == 0
    scene.cluster.until(scene.cluster.settled, 30, "everybody in step")
    scene.end()


def test_a_new_leader_and_the_old_one_restarted_change_nothing_for_who_reads_from_the_earliest() -> None:
    scene = HandedOver(4)
    for b in (*scene.old, scene.state.leader):
        scene.cluster.brokers[b].kill()
        scene.world.run(scene.world.now_us + 5 * S)
        scene.cluster.brokers[b].start()
        scene.cluster.until(scene.cluster.settled, 30, "everybody in step")
        scene.passes(1)
    assert scene.state.leader_epoch > 2, "another one led"
    assert scene.reader.began == 0 and scene.state.archive_start > 0
    scene.end()


def test_a_new_copy_whose_folder_is_lost_is_copied_whole_and_counts_again() -> None:
    """What lies below the leader's log is served to followers as well."""
    scene = HandedOver(5)
    lost = next(b for b in scene.new if b != scene.state.leader)
    scene.cluster.brokers[lost].power_cut()
    scene.cluster.brokers[lost].disk = SimDisk()
    scene.cluster.brokers[lost].disk.mkdir(Path("/data"))
    scene.cluster.brokers[lost].start()
    scene.cluster.until(scene.cluster.settled, 40, "the lost copy in step again")
    assert scene.cluster.brokers[lost].broker.partitions.hosted[scene.tp].log.start_offset == 0
    scene.passes()
    scene.end()


def test_going_back_needs_no_old_record_and_ends_the_archive() -> None:
    scene = HandedOver(6)
    scene.cluster.want(DesiredAssignment(*scene.tp, scene.old, scene.state.assignment_generation, "back"))
    scene.cluster.until(lambda: scene.state.replicas == scene.old and scene.cluster.settled(), 40, "the way back")
    assert (scene.state.archive_start, scene.state.holders) == (-1, ())
    assert scene.hosts() == set(scene.old)
    scene.passes()
    assert scene.reader.began == 0
    scene.end()


def test_retention_by_size_lets_the_archive_go_piece_by_piece_and_the_old_copies_with_its_end() -> None:
    scene = HandedOver(7, retention_bytes="20000")
    assert scene.state.archive_start > 0
    starts = set()
    deadline = scene.world.now_us + 120 * S
    while scene.state.archive_start >= 0 and scene.world.now_us < deadline:
        scene.world.run(scene.world.now_us + S // 2)
        starts.add(scene.state.log_start_floor)
    assert scene.state.archive_start < 0 and scene.state.holders == ()
    assert len(starts) > 2, f"piece by piece: {sorted(starts)}"
    scene.cluster.until(lambda: scene.hosts() == set(scene.new), 10, "the old copies to be gone")
    scene.end()


def test_deleted_records_below_the_archives_end_are_gone_for_whoever_leads_next() -> None:
    scene = HandedOver(8)
    scene.reader.deletes = 1.0
    scene.cluster.until(lambda: scene.state.log_start_floor > 0, 30, "records to be deleted")
    scene.reader.deletes = 0.0
    floor = scene.state.log_start_floor
    assert 0 < floor < scene.state.archive_start
    scene.cluster.brokers[scene.state.leader].kill()
    scene.passes(2)
    assert scene.reader.began >= floor
    scene.cluster.brokers[scene.new[0]].start()
    scene.cluster.brokers[scene.new[1]].start()
    scene.cluster.until(scene.cluster.settled, 30, "everybody in step")
    scene.end()


def test_a_deleted_topic_takes_the_holders_copies_with_it() -> None:
    scene = HandedOver(9)
    scene.producer.stopped = scene.reader.stopped = True
    gone = replace(scene.cluster.topics.pop(TOPIC), generation=2, deleted=True)
    assert scene.cluster.acting is not None
    scene.cluster.acting.tell(DesiredRead((gone,)))
    scene.cluster.until(lambda: not scene.hosts(), 20, "all copies to be gone")


# -- worlds ----------------------------------------------------------------------------------------------------------------

SEEDS: list[tuple[Live, int]] = [(early, 5), (early_with_transactions, 4)]


@cache
def ran(life: Live, seed: int) -> Outcome:
    return run(seed, life=life)


@pytest.mark.parametrize(("life", "seed"), SEEDS, ids=["5", "transactions-4"])
def test_a_world_of_hand_overs_runs_clean(life: Live, seed: int) -> None:
    outcome = ran(life, seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 50, "the load hardly ran: nothing was shown"


def test_the_sample_reaches_what_hand_overs_are_made_of() -> None:
    reached: Counter[str] = Counter()
    for life, seed in SEEDS:
        reached += ran(life, seed).reached
    for state in (
        "tail move: hand_over", "tail move: done", "a pass across an archive's end", "read to the end across an archive", "a time was asked for",
        "transactions aborted",
    ):  # fmt: skip
        assert reached[state], f"{state} was reached in none of the seeds; reached: {dict(reached)}"


# -- rules taken out ---------------------------------------------------------------------------------------------------------


def what_was_aborted_beyond_is_not_told_below(patch: pytest.MonkeyPatch) -> None:
    read, between = Below.read, AbortedIndex.between

    def blind(self: Below, *given: Any) -> int:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(AbortedIndex, "between", lambda *_: [])
            return read(self, *given)

    patch.setattr(Below, "read", blind)
    assert between is AbortedIndex.between


def what_is_stable_ends_where_the_leaders_log_begins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "last_stable", lambda self: self.log.last_stable(self.core.high_watermark))


def holders_do_not_tell_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    heard = held._heard
    patch.setattr(held, "_heard", lambda answer: replace(heard(answer), aborted=()))


@pytest.mark.parametrize(
    "rule",
    [
        what_was_aborted_beyond_is_not_told_below, what_is_stable_ends_where_the_leaders_log_begins, holders_do_not_tell_what_was_aborted,
    ],
    ids=lambda rule: rule.__name__,
)  # fmt: skip
def test_a_rule_taken_out_is_missed(
    rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(monkeypatch)
    assert run(4, life=early_with_transactions).violation is not None


def test_a_leader_that_asks_nobody_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "asks_below", property(lambda self: 0))
    scene = HandedOver(1)
    scene.passes()
    assert scene.reader.began > 0, "the old records are gone to its reader"
