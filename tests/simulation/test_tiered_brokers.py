"""Whole brokers with tiered storage in a simulated world: copies, local retention, reads, bootstrap, deletion.

The decisions alone, in hundreds of worlds with deposed leaders: test_tier.py.
"""

from __future__ import annotations

from functools import partial

import pytest

from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC
from brokerd.runtime.replica_hooks import BrokerReplicaHooks
from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import DesiredAssignment
from tests.simulation.tiered_scene import TieredScene


@pytest.mark.parametrize("seed", range(3))
def test_old_records_are_read_from_the_store(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(60)
    scene.until_tiered()
    assert scene.read_all() == scene.written
    # Until the last copy is finished.
    while (remote := scene.remote_size()).remote != scene.stored_bytes or remote.copying:
        scene.pass_ms(200)
    log = scene.cluster.brokers[scene.state.leader].broker.replica_manager.hosted[scene.tp].log
    assert 0 < remote.local_only < log.size_bytes, "some local segments have a copy"
    assert (remote.copying, remote.read > 0) == (0, True)
    assert len([n for n in scene.store if n.endswith(".log")]) > 3


@pytest.mark.parametrize("seed", range(3))
def test_reads_and_copies_survive_kills_and_a_failing_store(seed: int) -> None:
    """Leaders are killed, responses of helpers are lost, and the store fails: every record is read, and at rest no object is without metadata."""
    scene = TieredScene(seed, brokers=3)
    scene.cluster.remote_store.failing = 0.2
    for _ in range(4):
        scene.produce_under_any_leader(20)
        for node in scene.cluster.brokers.values():
            if node.remote_helper is not None:
                node.remote_helper.fails = 0.2
        scene.pass_ms(2_000)
        leader = scene.cluster.brokers[scene.state.leader]
        leader.kill()
        scene.cluster.run_until(partial(scene.leads_another, leader.broker_id), 30, "another leader")
        leader.start()
        scene.cluster.run_until(scene.cluster.is_settled, 60, "everything in sync")
    scene.cluster.remote_store.failing = 0
    for node in scene.cluster.brokers.values():
        if node.remote_helper is not None:
            node.remote_helper.fails = 0
    scene.until_tiered((1, 2, 3))
    assert scene.read_all() == scene.written
    scene.pass_ms(10_000)
    assert scene.read_all() == scene.written
    assert scene.orphans() == set()


@pytest.mark.parametrize("seed", range(2))
def test_consumers_wait_while_the_store_is_away_and_producers_do_not(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    scene.cluster.remote_store.away = True
    scene.pass_ms(6_000)
    scene.produce(20)
    part = scene.fetch(0)
    assert part.error_code in (0, ErrorCode.OFFSET_NOT_AVAILABLE) and not part.records
    scene.cluster.remote_store.away = False
    assert scene.read_all() == scene.written


@pytest.mark.parametrize("seed", range(2))
def test_a_new_replica_begins_at_the_local_log_start_with_the_state_of_the_tier(seed: int) -> None:
    scene = TieredScene(seed, brokers=3, replicas=2)
    for number in range(40):
        assert scene.send(scene.state.leader, f"{number:06d}", producer=(7, number)) == 0
        scene.written.append(f"{number:06d}")
    old = scene.state.replicas
    scene.until_tiered(old)
    new = next(b for b in (1, 2, 3) if b not in old)
    before = scene.cluster.world.reached["remote snapshot: NONE"]
    scene.cluster.deliver_desired(
        DesiredAssignment(scene.topic_id, 0, (new, old[0]), scene.state.assignment_generation, "move", "request")
    )
    scene.cluster.run_until(
        lambda: scene.state.replicas == (new, old[0]) and new in scene.state.isr_ids, 60, "the move"
    )
    assert scene.cluster.world.reached["remote snapshot: NONE"] > before
    replica = scene.cluster.brokers[new].broker.replica_manager.hosted[scene.tp]
    assert replica.log.start_offset > 0
    scene.cluster.brokers[old[0]].kill()
    scene.until_leads(new)
    assert scene.read_all() == scene.written
    assert scene.send(new, "000039", producer=(7, 39), acks=1) == 0, "the repeated batch is recognised"
    assert scene.send(new, "000040", producer=(7, 40), acks=1) == 0
    assert replica.log.end_offset == 41


@pytest.mark.parametrize("seed", range(2))
def test_a_deleted_topic_leaves_no_object(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    assert scene.store
    scene.cluster.delete_topic("t")
    scene.cluster.run_until(lambda: not scene.store, 120, "the deletion of all objects")


@pytest.mark.parametrize("seed", range(2))
def test_a_new_replica_of_a_topic_that_lost_records_before_it_was_tiered(seed: int) -> None:
    """The leader's log starts above 0 and nothing is remote: the replica starts there, without a snapshot of the tier."""
    scene = TieredScene(seed, brokers=3, replicas=2)
    scene.cluster.remote_store.away = True
    scene.produce(10)
    leader = scene.cluster.brokers[scene.state.leader]
    log_ = leader.broker.replica_manager.hosted[scene.tp].log
    leader.enter(lambda: log_.raise_start(5))
    old = scene.state.replicas
    new = next(b for b in (1, 2, 3) if b not in old)
    scene.cluster.deliver_desired(
        DesiredAssignment(scene.topic_id, 0, (old[0], new), scene.state.assignment_generation, "move", "request")
    )
    scene.cluster.run_until(
        lambda: scene.state.replicas == (old[0], new) and new in scene.state.isr_ids, 60, "the move"
    )
    assert scene.local_start(new) == 5


@pytest.mark.parametrize("seed", range(2))
def test_deleted_records_are_hidden_in_both_tiers_under_every_leader(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    leader = scene.cluster.brokers[scene.state.leader]
    replica = leader.broker.replica_manager.hosted[scene.tp]
    leader.enter(lambda: leader.broker.remote_logs.request_start(replica, 7))
    scene.cluster.run_until(lambda: replica.start_offset == 7, 30, "the log start")
    assert scene.fetch(6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    leader.kill()
    scene.cluster.run_until(partial(scene.leads_another, leader.broker_id), 30, "another leader")
    other = scene.cluster.brokers[scene.state.leader].broker.replica_manager.hosted[scene.tp]
    scene.cluster.run_until(lambda: other.remote is not None and other.remote.loaded, 30, "its remote log")
    assert other.start_offset == 7 and scene.fetch(6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert scene.read_all(7) == scene.written[7:]


def deleted_by_a_deposed_leader() -> set[str]:
    """The leader of the metadata partition is frozen while another one takes over and new segments are copied. Then it continues, with a cleanup due.
    Returns the objects that are deleted then."""
    scene = TieredScene(1, brokers=3)
    scene.produce(20)
    scene.until_tiered((1, 2, 3))
    partition_leader = scene.cluster.brokers[scene.state.leader].broker.remote_logs
    index = partition_leader.metadata.partition_of(scene.tp)
    assert index is not None

    def metadata_leader() -> int:
        topic = scene.cluster.image.topic_named(REMOTE_LOG_METADATA_TOPIC)
        assert topic is not None
        return topic.partitions[index].leader

    frozen = scene.cluster.brokers[metadata_leader()]
    frozen.freeze()
    scene.cluster.run_until(
        lambda: metadata_leader() not in (frozen.broker_id, -1), 30, "another leader of the metadata"
    )
    scene.cluster.run_until(lambda: scene.state.leader not in (frozen.broker_id, -1), 30, "a leader of the partition")
    copied = len(scene.store)
    scene.produce_under_any_leader(30)
    scene.cluster.run_until(lambda: len(scene.store) > copied + 4, 60, "new copies")
    cleanup = frozen.broker.remote_logs._cleanup
    cleanup._swept_ms.clear()
    cleanup._next_ms = 0
    before = set(scene.store)
    frozen.resume()
    scene.pass_ms(10_000)
    return before - set(scene.store)


def test_a_deposed_leader_of_the_metadata_deletes_no_newer_copy() -> None:
    assert deleted_by_a_deposed_leader() == set()


def test_a_cleanup_without_a_confirmed_leadership_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerReplicaHooks, "confirm_leadership", lambda self, done: done(True))
    assert deleted_by_a_deposed_leader()
