"""The classic data-loss bugs of ISR replication, step by step in virtual time: R1, R2, R3, R8, R10. tests/faults has the same cases on processes.

Several seeds each: the steps are fixed, the seed decides what happens between them (delays, elections).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.znodes import BROKERS
from tests.simulation.costs import LACKS_EPOCH, count_comparisons
from tests.simulation.scene import Scene
from tests.simulation.world import S

pytestmark = pytest.mark.parametrize("seed", range(1, 7))


def test_r1_a_restarted_follower_does_not_truncate_to_its_high_watermark_and_then_lead(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    written = [f"r{i}" for i in range(10)]
    scene.write(*written)
    leader, follower = scene.pair()
    hosted = follower.broker.replica_manager.hosted[scene.tp]
    assert hosted.log.end_offset == 10
    follower.kill()
    leader.freeze()
    follower.start()
    scene.pass_ms(500)
    leader.kill()
    scene.until_leads(follower.broker_id)
    leader.start()
    assert scene.end() == written


def test_r2_logs_with_different_tails_converge_by_leader_epoch(seed: int) -> None:
    scene = Scene(seed)
    scene.write("both1", "both2")
    longer, shorter = scene.pair()
    shorter.freeze()
    scene.write("alone1", "alone2", "alone3", acks=1)
    assert set(scene.state.isr_ids) == {1, 2}
    longer.kill()
    shorter.kill()
    shorter.start()
    scene.until_leads(shorter.broker_id)
    scene.write("new1")
    longer.start()
    assert scene.end() == ["both1", "both2", "new1"]


def test_r3_logs_converge_after_leader_changes_with_an_epoch_missing_on_one_side(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write("both")
    a, b = scene.pair()
    b.freeze()
    scene.write("a, first epoch", acks=1)
    a.kill()
    b.resume()
    scene.until_leads(b.broker_id)
    scene.write("b, second epoch", acks=1)
    b.freeze()
    a.start()
    scene.until_leads(a.broker_id)
    scene.write("a, third epoch", acks=1)
    b.resume()
    assert scene.end() == ["both", "a, first epoch", "a, third epoch"]


def test_r3_a_follower_without_the_leaders_epoch_truncates_by_its_own_epochs(seed: int) -> None:
    """KIP-279: the follower has epochs 0 and 2, the leader 0, 1 and 3. The leader names epoch 1 and its end, where the follower has epoch 2."""
    scene = Scene(seed, min_insync=2)
    scene.write("both")
    a, b = scene.pair()
    b.freeze()
    scene.write("a, first epoch", acks=1)
    a.kill()
    b.resume()
    scene.until_leads(b.broker_id)
    scene.write("b, second epoch", "b, again", acks=1)
    b.freeze()
    a.start()
    scene.until_leads(a.broker_id)
    scene.write("a, third epoch", acks=1)
    a.kill()
    b.resume()
    scene.until_leads(b.broker_id)
    scene.write("b, fourth epoch", acks=1)
    with count_comparisons(scene.world):
        a.start()
        assert scene.end() == ["both", "a, first epoch", "b, second epoch", "b, again", "b, fourth epoch"]
    assert scene.world.reached[LACKS_EPOCH], "the follower has the epoch that the leader names"


def test_r8_a_broker_that_lost_its_session_registers_and_joins_the_isr_again(seed: int) -> None:
    scene = Scene(seed)
    scene.write("before")
    node = scene.cluster.brokers[1]
    ensemble = scene.cluster.ensemble

    def isr_member() -> int:
        znode = ensemble.znodes.get(f"{BROKERS}/1")
        return znode.czxid if znode is not None else 0

    first = isr_member()
    ensemble.expire(node.store.zk_session)
    assert isr_member() == 0
    scene.cluster.run_until(lambda: isr_member() > first, 20, "the new registration")
    second, session = isr_member(), node.store.zk_session
    scene.cluster.run_until(scene.cluster.is_settled, 20, "everything in step")
    node.kill()
    node.start()
    scene.cluster.run_until(
        lambda: isr_member() > second, 2, "the registration to be taken over while the old session is open"
    )
    third = isr_member()
    scene.world.run(scene.world.now_us + 6 * S)
    assert session not in ensemble.sessions
    assert isr_member() == third, "the end of the old session removed the new registration"
    scene.write("after")
    assert scene.end() == ["before", "after"]
    assert {s.broker_epoch for s in scene.state.isr if s.broker_id == 1} == {third}


def test_r10_an_emptied_replica_joins_no_isr_before_it_has_caught_up(seed: int) -> None:
    scene = Scene(seed, settings={"replica.lag.time.max.ms": "1500"})
    written = [f"r{i}" for i in range(12)]
    scene.write(*written)
    scene.pass_ms(1_500)  # the follower's checkpoint has its records
    keeper, emptied = scene.pair()
    emptied.freeze()
    scene.cluster.run_until(lambda: set(scene.state.isr_ids) == {keeper.broker_id}, 20, "the ISR without it")
    controller = scene.cluster.controllers[0]
    controller.freeze()  # proposals of the leader stay in flight from here on
    emptied.resume()
    scene.pass_ms(800)
    emptied.kill()
    emptied.disk.rmtree(Path("/data/t-0"))
    keeper.freeze()  # so that it cannot catch up quickly
    emptied.start()
    controller.resume()
    scene.cluster.run_until(
        lambda: scene.cluster.image.broker_epoch(emptied.broker_id) == emptied.broker.membership.broker_epoch,
        20,
        "its new registration",
    )
    keeper.kill()
    scene.world.run(scene.world.now_us + 8 * S)
    assert scene.state.leader == -1, "an empty replica leads: all acknowledged records are lost"
    keeper.start()
    assert scene.end() == written
