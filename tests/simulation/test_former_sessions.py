"""The next process of a killed controller ends its ZooKeeper session: another controller is elected at once. An end while the process lives is an early expiry."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import SESSION_MS, ControllerNode
from tests.simulation.probes import ProbeAccuracy
from tests.simulation.scene import Scene

FOUND = ProbeAccuracy(reported=1, wrong=0, together=1)
WRITTEN = [f"r{i}" for i in range(5)]
LEADERS_MS_MAX = 1_000
"""From the end of the session until another leader: a notification, an election, and two refused probes."""

pytestmark = pytest.mark.parametrize("seed", range(1, 6))


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


def other_leader(scene: Scene, dead: int) -> None:
    scene.cluster.run_until(lambda: scene.state.leader not in (dead, -1), 20, "another leader")


def test_leaders_of_a_broker_that_died_with_the_controller_move_after_the_end_of_its_session(seed: int) -> None:
    scene, acting, standby = scene_with_standby(seed)
    session, dead = acting.store.zk_session, scene.state.leader
    acting.crash()
    scene.cluster.brokers[dead].kill()
    scene.pass_ms(SESSION_MS // 10)
    assert not standby.is_acting, "the session of the dead controller is open"
    ended_us = scene.world.now_us
    scene.cluster.ensemble.expire(session)
    acting.start()
    other_leader(scene, dead)
    assert scene.world.now_us - ended_us <= LEADERS_MS_MAX * 1_000
    scene.cluster.brokers[dead].start()
    assert scene.end() == WRITTEN


def test_a_controller_whose_session_is_ended_while_it_acts_changes_nothing_after_the_next_election(seed: int) -> None:
    """The lock of the session file prevents this. Safety does not depend on it: the controller epoch fences the writes."""
    scene, acting, standby = scene_with_standby(seed)
    epoch, session, dead = scene.cluster.image.controller_epoch, acting.store.zk_session, scene.state.leader
    acting.freeze()
    scene.cluster.brokers[dead].kill()  # when it continues, it sees the death and writes
    scene.cluster.ensemble.expire(session)
    scene.cluster.run_until(lambda: standby.is_acting, 20, "the standby controller to be elected")
    acting.resume()
    other_leader(scene, dead)
    scene.cluster.run_until(lambda: not acting.is_acting, 20, "the former controller to be deposed")
    assert scene.cluster.image.controller_epoch > epoch
    scene.cluster.brokers[dead].start()
    assert scene.end() == WRITTEN
