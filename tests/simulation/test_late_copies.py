"""A replica whose log starts above its leader's log start enters the ISR again automatically (decision 037): by retention if that applies, else by a reset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import TopicPartition
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.wire.errors import ErrorCode
from controlplane.controller import proposals
from tests.simulation.cluster import BrokerNode
from tests.simulation.scene import Scene

LAG_MS, RETENTION_MS = 1_500, 3_000
START = 6


def copy(scene: Scene, node: BrokerNode) -> Replica:
    replica = node.broker.replica_manager.hosted[scene.tp]
    assert isinstance(replica, Replica)
    return replica


@pytest.mark.parametrize("seed", [8, 9])
def test_deleted_records_stay_deleted_under_every_in_sync_successor(seed: int) -> None:
    scene = Scene(seed)
    scene.write(*(f"r{i}" for i in range(10)))
    old, new = scene.pair()
    assert scene.delete_below(START, broker_id=old.broker_id) == (ErrorCode.NONE, START)
    assert copy(scene, new).log.start_offset == START, "the deletion must reach the follower before the response"
    old.kill()
    scene.until_leads(new.broker_id)
    old.start()
    assert scene.end() == [f"r{i}" for i in range(START, 10)]


def scene_with_former_leader(seed: int, **configs: str) -> tuple[Scene, BrokerNode, BrokerNode]:
    """(scene, the leader now, the former leader: it deleted records that its successor still has, and has restarted). All records but the last are an hour old."""
    settings = {"replica.lag.time.max.ms": str(LAG_MS), "log.retention.check.interval.ms": str(RETENTION_MS)}
    scene = Scene(seed, settings=settings, **configs)
    scene.write(*(f"r{i}" for i in range(9)), age_ms=3_600_000)
    scene.write("r9")
    old, new = scene.pair()
    scene.cluster.run_until(lambda: copy(scene, new).core.high_watermark == 10, 5, "both to know what is committed")
    scene.pass_ms(RETENTION_MS)
    assert copy(scene, old).log.start_offset == 0, "no segment ends below the young record"
    scene.cluster.network.cut.add((old.name, new.name))
    assert scene.delete_below(START, timeout_ms=1_000, broker_id=old.broker_id)[0] == ErrorCode.REQUEST_TIMED_OUT, (
        "it may come back"
    )
    assert copy(scene, old).log.start_offset == START
    old.kill()
    scene.cluster.network.cut.clear()
    scene.until_leads(new.broker_id)
    assert copy(scene, new).log.start_offset == 0, "the follower knows of the deletion: the scenario did not happen"
    old.start()
    scene.cluster.run_until(
        lambda: scene.leads_now(new) and scene.tp in old.broker.replica_manager.hosted, 10, "both to be there"
    )
    return scene, new, old


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_replica_that_deleted_more_than_its_successor_is_reset(seed: int) -> None:
    scene, new, old = scene_with_former_leader(seed)
    before, epoch = copy(scene, old), scene.state.leader_epoch
    scene.pass_ms(RETENTION_MS)
    assert scene.state.isr_ids == (new.broker_id,) and copy(scene, old) is before, "retention may pass yet"
    assert scene.end() == [f"r{i}" for i in range(10)], "a record is missing on a replica"
    assert copy(scene, old) is not before and copy(scene, old).log.start_offset == 0
    assert scene.state.leader_epoch > epoch, "fetches from before the reset still count"


@pytest.mark.parametrize("seed", [4, 5])
def test_the_replica_is_kept_if_its_successor_deletes_the_same_records(seed: int) -> None:
    scene, new, old = scene_with_former_leader(seed)
    before = copy(scene, old)
    scene.pass_ms(LAG_MS)
    assert scene.delete_below(START, broker_id=new.broker_id) == (ErrorCode.NONE, START)
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"


@pytest.mark.parametrize("seed", [6, 7])
def test_the_replica_is_kept_if_retention_deletes_the_same_on_its_successor(seed: int) -> None:
    """Segments of two replicas need not end at the same offsets: the deletion on one may end within a segment of the other."""
    scene, _, old = scene_with_former_leader(seed, retention_ms="1800000")
    before = copy(scene, old)
    assert scene.end() == [f"r{i}" for i in range(START, 10)]
    assert copy(scene, old) is before, "no byte was copied"


@pytest.mark.parametrize("seed", [10, 11])
def test_the_reset_does_not_wait_for_retention_that_deletes_nothing(seed: int) -> None:
    scene, _, old = scene_with_former_leader(seed, retention_ms="-1")
    before = copy(scene, old)
    scene.pass_ms(RETENTION_MS)
    assert copy(scene, old) is not before, "only the lag is waited for"
    assert scene.end() == [f"r{i}" for i in range(10)]


def last_to_delete(seed: int) -> tuple[Scene, BrokerNode, list[BrokerNode]]:
    """Shares 75: two of three replicas of a log without retention have deleted records, and the third one leads. (scene, the leader, the others)."""
    settings = {"replica.lag.time.max.ms": str(LAG_MS), "log.retention.check.interval.ms": str(RETENTION_MS)}
    scene = Scene(seed, 2, settings=settings, brokers=3, retention_ms="-1")
    scene.write(*(f"r{i}" for i in range(10)))
    nodes = scene.cluster.brokers
    order = [b for b in scene.state.replicas if b != scene.state.leader]
    old, last, other = nodes[scene.state.leader], nodes[order[0]], nodes[order[1]]
    scene.cluster.run_until(lambda: copy(scene, last).core.high_watermark == 10, 5, "all to know what is committed")
    scene.cluster.network.cut.add((old.name, last.name))
    assert scene.delete_below(START, timeout_ms=800)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert copy(scene, other).log.start_offset == START and copy(scene, last).log.start_offset == 0
    old.kill()
    scene.cluster.network.cut.clear()
    scene.until_leads(last.broker_id)
    other.kill()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (last.broker_id,), 10, "the others to leave the ISR")
    old.start()
    other.start()
    return scene, last, [old, other]


def ends_at_resets(seed: int, patch: pytest.MonkeyPatch) -> list[list[int]]:
    """The log ends of the two replicas before each reset of one of them. At the end all replicas are in sync and have all records."""
    scene, leader, others = last_to_delete(seed)
    ends: list[list[int]] = []
    reset = ReplicaManager._reset

    def record_and_reset(self: ReplicaManager, tp: Any, reset_id: str, now: Any) -> None:
        ends.append([copy(scene, node).log.end_offset for node in others])
        reset(self, tp, reset_id, now)

    patch.setattr(ReplicaManager, "_reset", record_and_reset)
    assert scene.end() == [f"r{i}" for i in range(10)] and scene.state.leader == leader.broker_id
    return ends


@pytest.mark.parametrize("seed", [12, 13])
def test_two_replicas_that_deleted_more_are_reset_one_after_the_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ends_at_resets(seed, monkeypatch) == [[10, 10], [10, 10]], "the records were on one disk only"


def test_two_resets_at_the_same_time_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets that are not bound to the leader epoch in which they were proposed."""

    def of_any_epoch(plan: Any, broker_id: int, broker_epoch: int, proposal: Any) -> None:
        state = plan.state(TopicPartition(proposal.topic_id, proposal.partition))
        one(plan, broker_id, broker_epoch, replace(proposal, leader_epoch=state.leader_epoch))

    one = proposals._reset_late_replica
    monkeypatch.setattr(proposals, "_reset_late_replica", of_any_epoch)
    assert ends_at_resets(12, monkeypatch)[:2] != [[10, 10], [10, 10]]


def test_a_wait_for_retention_that_deletes_nothing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicConfig, "retention_deletes", True)
    with pytest.raises(AssertionError, match="only the lag"):
        test_the_reset_does_not_wait_for_retention_that_deletes_nothing(10)
