"""The classic data-loss bugs of ISR replication, step by step in virtual time: R1, R2, R3, R8, R10. tests/faults does the same to processes.

Several seeds each: the steps are fixed, what happens between them (delays, elections) is the seed's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.znodes import BROKERS
from tests.simulation.scene import Scene
from tests.simulation.world import S

pytestmark = pytest.mark.parametrize("seed", range(1, 7))


def test_r1_a_follower_that_restarts_does_not_cut_to_its_high_watermark_and_then_lead(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    written = [f"r{i}" for i in range(10)]
    scene.write(*written)
    leader, follower = scene.pair()
    hosted = follower.broker.partitions.hosted[scene.tp]
    assert hosted.log.end_offset == 10
    follower.kill()
    leader.freeze()
    follower.start()
    scene.pass_ms(500)
    leader.kill()
    scene.until_leads(follower.broker_id)
    leader.start()
    assert scene.end() == written


def test_r2_after_both_died_with_tails_of_different_length_the_logs_converge_by_epoch(seed: int) -> None:
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


def test_r3_leadership_to_and_fro_with_an_epoch_missing_on_one_side_still_converges(seed: int) -> None:
    scene = Scene(seed, min_insync=2)
    scene.write("both")
    a, b = scene.pair()
    b.freeze()
    scene.write("a, first epoch", acks=1)
    a.kill()
    b.thaw()
    scene.until_leads(b.broker_id)
    scene.write("b, second epoch", acks=1)
    b.freeze()
    a.start()
    scene.until_leads(a.broker_id)
    scene.write("a, third epoch", acks=1)
    b.thaw()
    assert scene.end() == ["both", "a, first epoch", "a, third epoch"]


def test_r8_a_broker_whose_session_was_lost_takes_its_own_seat_again(seed: int) -> None:
    scene = Scene(seed)
    scene.write("before")
    node = scene.cluster.brokers[1]
    ensemble = scene.cluster.ensemble

    def seat() -> int:
        znode = ensemble.znodes.get(f"{BROKERS}/1")
        return znode.czxid if znode is not None else 0

    first = seat()
    ensemble.expire(node.store.zk_session)
    assert seat() == 0
    scene.cluster.until(lambda: seat() > first, 20, "the seat taken anew")
    second, session = seat(), node.store.zk_session
    scene.cluster.until(scene.cluster.settled, 20, "everything in step")
    node.kill()
    node.start()
    scene.cluster.until(
        lambda: seat() > second, 2, "the seat taken over from the dead one's session, which lasts longer"
    )
    third = seat()
    scene.world.run(scene.world.now_us + 6 * S)
    assert session not in ensemble.sessions
    assert seat() == third, "the dead session's end took the new seat with it"
    scene.write("after")
    assert scene.end() == ["before", "after"]
    assert {s.incarnation for s in scene.state.isr if s.broker_id == 1} == {third}


def test_r10_a_replica_that_comes_back_empty_is_in_no_isr_before_it_has_caught_up(seed: int) -> None:
    scene = Scene(seed, settings={"replica.lag.time.max.ms": "1500"})
    written = [f"r{i}" for i in range(12)]
    scene.write(*written)
    scene.pass_ms(1_500)  # the follower's checkpoint names what it holds
    keeper, emptied = scene.pair()
    emptied.freeze()
    scene.cluster.until(lambda: set(scene.state.isr_ids) == {keeper.broker_id}, 20, "the ISR without it")
    controller = scene.cluster.controllers[0]
    controller.freeze()  # what the leader proposes from here on stays on its way
    emptied.thaw()
    scene.pass_ms(800)
    emptied.kill()
    emptied.disk.rmtree(Path("/data/t-0"))
    keeper.freeze()  # so that it cannot catch up by being quick
    emptied.start()
    controller.thaw()
    scene.cluster.until(
        lambda: scene.cluster.image.incarnation(emptied.broker_id) == emptied.broker.membership.incarnation,
        20,
        "its new seat",
    )
    keeper.kill()
    scene.world.run(scene.world.now_us + 8 * S)
    assert scene.state.leader == -1, "an empty copy leads: everything acknowledged is lost"
    keeper.start()
    assert scene.end() == written
