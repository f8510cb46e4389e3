"""Consumers that read remote records from the follower in their rack (KIP-392 with KIP-405), and mutations that the readers must detect."""

from __future__ import annotations

from functools import partial

import pytest

from brokerd.remote.view import FollowerView, RemoteView
from brokerd.replication.replica import Replica
from tests.simulation.checkers import Violation
from tests.simulation.tiered_scene import NearReader, TieredScene

SEEDS = range(2)
BITING_SEED = 0


def faulty_run(seed: int) -> list[NearReader]:
    """Readers in every rack, while leaders are killed and the store and the helpers fail."""
    scene = TieredScene(seed, brokers=3, racks=3)
    cluster = scene.cluster
    readers = [NearReader(scene, f"rack-{i}") for i in range(3)]
    for rounds in range(3):
        cluster.remote_store.failing = 0.1
        for node in cluster.brokers.values():
            if node.remote_helper is not None:
                node.remote_helper.fails = 0.1
        scene.produce_under_any_leader(25)
        scene.pass_ms(4_000)
        if rounds:
            leader = cluster.brokers[scene.state.leader]
            leader.kill()
            cluster.run_until(partial(scene.leads_another, leader.broker_id), 30, "another leader")
            leader.start()
            cluster.run_until(cluster.is_settled, 60, "everything in sync")
    cluster.remote_store.failing = 0
    for node in cluster.brokers.values():
        if node.remote_helper is not None:
            node.remote_helper.fails = 0
    scene.until_tiered((1, 2, 3))
    done = [r.rounds + 2 for r in readers]
    cluster.run_until(lambda: all(r.rounds >= n for r, n in zip(readers, done, strict=True)), 300, "two rounds more")
    for reader in readers:
        reader.stopped = True
    assert scene.end() == scene.written[-len(scene.end()) :]
    return readers


@pytest.mark.parametrize("seed", SEEDS)
def test_followers_serve_remote_records_and_never_deny_a_retained_one(seed: int) -> None:
    readers = faulty_run(seed)
    assert sum(r.remote_records for r in readers) > 50, "nothing was read from the tier by a follower"


def test_a_follower_denies_records_that_were_deleted_in_both_tiers() -> None:
    scene = TieredScene(1, brokers=3, racks=3)
    scene.produce(40)
    scene.until_tiered((1, 2, 3))
    near = next(b for b in (1, 2, 3) if b != scene.state.leader)
    reader = NearReader(scene, f"rack-{near % 3}")
    scene.cluster.run_until(lambda: reader.remote_records > 0, 60, "a remote record from the follower")
    reader.deleted_below = 9
    assert scene.delete_below(9) == (0, 9)
    rounds = reader.rounds
    scene.cluster.run_until(lambda: reader.rounds > rounds + 1, 120, "the rest")
    replica = scene.cluster.brokers[near].broker.replica_manager.hosted[scene.tp]
    scene.cluster.run_until(lambda: replica.start_offset == replica.remote_start_offset == 9, 30, "the log start")


def late_metadata_run(seed: int) -> NearReader:
    """The metadata of the follower stops while its leader copies, deletes local segments and so raises the follower's local log start."""
    scene = TieredScene(seed, brokers=3, racks=3)
    scene.produce(40)
    scene.until_tiered((1, 2, 3))
    near = next(b for b in (1, 2, 3) if b != scene.state.leader)
    reader = NearReader(scene, f"rack-{near % 3}")
    scene.cluster.run_until(lambda: reader.remote_records > 0, 60, "a remote record from the follower")
    metadata = scene.cluster.brokers[near].broker.remote_logs.metadata
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "poll", lambda: None)
        chain_end = scene.cluster.brokers[near].broker.remote_logs.followers.followed[scene.tp].view.chain.end
        scene.produce(40)
        scene.cluster.run_until(
            lambda: scene.local_start(near) > chain_end, 60, "a local log start above the known chain"
        )
        rounds = reader.rounds
        scene.cluster.run_until(lambda: reader.rounds > rounds + 1, 120, "a round with late metadata")
    replica = scene.cluster.brokers[near].broker.replica_manager.hosted[scene.tp]
    scene.cluster.run_until(lambda: replica.remote_start_offset == 0, 30, "the metadata")
    seen, rounds = reader.remote_records, reader.rounds
    scene.cluster.run_until(
        lambda: reader.rounds > rounds + 1 and reader.remote_records > seen, 120, "reads from the follower"
    )
    return reader


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_with_late_metadata_denies_nothing(seed: int) -> None:
    assert late_metadata_run(seed).remote_records > 0


def test_a_follower_that_takes_its_remote_log_for_complete_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FollowerView, "reaches_below", RemoteView.reaches_below)
    monkeypatch.setattr(FollowerView, "start_offset", RemoteView.start_offset)
    with pytest.raises(Violation, match="out of range"):
        late_metadata_run(0)


def test_a_follower_without_a_view_that_denies_remote_records_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that has just resigned, or started, has no view yet."""

    def only_known(replica: Replica) -> bool:
        return replica.remote is not None and replica.remote.reaches_below(replica.log.start_offset)

    monkeypatch.setattr(Replica, "reads_remote", property(only_known))
    with pytest.raises(Violation, match="out of range"):
        faulty_run(BITING_SEED)
