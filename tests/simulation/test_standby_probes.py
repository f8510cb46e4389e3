"""A standby controller keeps connections to the brokers: once elected, it finds brokers that died before within a second. Its earlier observations are no verdict."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import SESSION_MS, ControllerNode
from tests.simulation.probes import ProbeAccuracy
from tests.simulation.scene import Scene

FOUND = ProbeAccuracy(reported=1, wrong=0, together=1)
WRITTEN = [f"r{i}" for i in range(5)]
ELECTION_MS_MAX = 1_000
"""From the election of a controller to the election of leaders."""

pytestmark = pytest.mark.parametrize("seed", range(1, 4))


def scene_with_standby(seed: int) -> tuple[Scene, ControllerNode, ControllerNode]:
    """(the scene, the active controller, the standby controller, which is connected to every broker)."""
    scene = Scene(seed, 2, brokers=3, probes=FOUND, controllers=2)
    scene.write(*WRITTEN)
    (acting,) = (c for c in scene.cluster.controllers if c.is_acting)
    (standby,) = (c for c in scene.cluster.controllers if not c.is_acting)
    scene.cluster.run_until(
        lambda: all(standby.probes.is_connected(b) for b in (1, 2, 3)), 5, "probes of the standby controller"
    )
    return scene, acting, standby


def test_a_broker_that_died_before_the_election_loses_its_leaders_within_a_second(seed: int) -> None:
    scene, acting, standby = scene_with_standby(seed)
    acting.crash()
    scene.pass_ms(SESSION_MS // 2)  # the session of the broker then outlives that of the controller
    dead = scene.state.leader
    scene.cluster.brokers[dead].kill()
    scene.cluster.run_until(lambda: standby.is_acting, 20, "the standby controller to be elected")
    elected_us = scene.world.now_us
    scene.cluster.run_until(lambda: scene.state.leader not in (dead, -1), 20, "another leader")
    assert scene.world.now_us - elected_us <= ELECTION_MS_MAX * 1_000
    scene.cluster.brokers[dead].start()
    acting.start()
    assert scene.end() == WRITTEN


def test_refused_connections_before_the_election_end_no_broker(seed: int) -> None:
    scene, acting, standby = scene_with_standby(seed)
    before = {b.broker_id: b.broker_epoch for b in scene.cluster.image.live_brokers()}
    for broker_id in before:
        standby.probes.refuse(broker_id, 6_000)
    scene.pass_ms(10_000)
    acting.crash()
    scene.cluster.run_until(lambda: standby.is_acting, 20, "the standby controller to be elected")
    scene.pass_ms(3_000)
    assert {b.broker_id: b.broker_epoch for b in scene.cluster.image.live_brokers()} == before
    acting.start()
    assert scene.end() == WRITTEN
