"""How a follower truncates its log if it has no epoch for the leader's comparison. test_mutations removes the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.controller.events import DesiredReset
from tests.simulation.disk import SimDisk
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 5))


def test_an_empty_log_above_the_leaders_end_is_reset(seed: int) -> None:
    """The leader restarted with an empty disk. The follower has no record, and no epoch that the leader could compare."""
    scene = Scene(seed)
    scene.write(*(f"old{i}" for i in range(6)))
    leader, follower = scene.pair()
    old_log = leader.broker.replica_manager.hosted[scene.tp].log
    leader.enter(lambda: old_log.raise_start(old_log.end_offset))
    scene.cluster.deliver_desired(DesiredReset(scene.topic_id, 0, follower.broker_id, "reset"))
    copy = lambda: follower.broker.replica_manager.hosted[scene.tp].log  # noqa: E731
    scene.cluster.run_until(
        lambda: copy().start_offset == 6 and copy().last_epoch == -1, 10, "a replica that starts at 6"
    )
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 20, "the ISR without it")
    leader.kill()
    scene.cluster.run_until(lambda: not scene.cluster.image.live_brokers(), 20, "both deaths")
    leader.disk = SimDisk()
    leader.disk.mkdir(Path("/data"))
    leader.start()
    scene.until_leads(leader.broker_id)
    scene.write("new0", "new1")
    follower.start()
    assert scene.end() == ["new0", "new1"]
