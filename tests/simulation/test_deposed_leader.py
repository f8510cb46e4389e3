"""A leader whose ZooKeeper follower lags does not know that it was deposed. It must not return an error that ends an idempotent producer."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import DesiredAssignment
from tests.simulation.cluster import BrokerNode
from tests.simulation.scene import Scene
from tests.simulation.world import S

pytestmark = pytest.mark.parametrize("seed", range(1, 4))
LAG_S = 4


def depose_leader(scene: Scene) -> tuple[BrokerNode, BrokerNode]:
    """(the deposed leader, which does not know it for some seconds, its successor). Producer 77 has written sequence 0 before."""
    old, new = scene.pair()
    assert scene.send(old.broker_id, "p0", producer=(77, 0)) == 0
    old.store.lag(LAG_S * S)
    state = scene.state
    scene.cluster.deliver_desired(
        DesiredAssignment(
            scene.topic_id, 0, (new.broker_id, old.broker_id), state.assignment_generation, "another order"
        )
    )
    scene.cluster.run_until(lambda: scene.state.leader == new.broker_id, 20, "the successor to lead")
    scene.pass_ms(300)
    assert old.broker.replica_manager.hosted[scene.tp].leads, (
        "the leader knows that it was deposed: the case did not happen"
    )
    return old, new


def test_a_deposed_leader_that_does_not_know_it_ends_no_idempotent_producer(seed: int) -> None:
    scene = Scene(seed)
    old, new = depose_leader(scene)
    assert scene.send(new.broker_id, "p1", acks=1, producer=(77, 1)) == 0
    assert scene.send(old.broker_id, "p2", acks=1, producer=(77, 2)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert scene.send(new.broker_id, "p2", acks=1, producer=(77, 2)) == 0
    assert scene.end() == ["p0", "p1", "p2"]


def test_a_leader_returns_the_fatal_error_after_a_confirmation(seed: int) -> None:
    scene = Scene(seed)
    leader, _ = scene.pair()
    assert scene.send(leader.broker_id, "p0", producer=(77, 0)) == 0
    before_us = scene.world.now_us
    assert scene.send(leader.broker_id, "p5", producer=(77, 5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert scene.world.now_us - before_us < 1 * S, "a confirmation is a round trip"
    leader.store.cut()
    assert scene.send(leader.broker_id, "p5", producer=(77, 5)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.store.heal()
    scene.cluster.run_until(scene.cluster.is_settled, 30, "the leader's connection")
    assert scene.send(scene.state.leader, "p1", producer=(77, 1)) == 0
    assert scene.end() == ["p0", "p1"]
