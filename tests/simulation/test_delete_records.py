"""DeleteRecords is answered when the deletion survives a power failure of every replica. test_mutations removes the rules."""

from __future__ import annotations

import pytest

from brokerd.wire.errors import ErrorCode
from tests.simulation.checkers import values
from tests.simulation.cluster import BrokerNode
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 7))
WRITTEN = [f"r{i}" for i in range(12)]


def restart(scene: Scene, node: BrokerNode) -> None:
    node.start()
    scene.cluster.run_until(lambda: scene.leads_now(node), 30, "the restarted broker to lead")
    scene.pass_ms(300)


def readable(scene: Scene) -> list[tuple[int, str]]:
    return [(offset, v.decode()) for offset, v in values(scene.cluster, scene.state.leader, scene.tp)]


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_power_failure_of_all_replicas_brings_no_deleted_record_back(seed: int, brokers: int) -> None:
    scene = Scene(seed, brokers=brokers, flush_messages="1")
    scene.write(*WRITTEN)
    assert scene.delete_below(5) == (ErrorCode.NONE, 5)
    assert scene.delete_below(8) == (ErrorCode.NONE, 8)
    nodes = list(scene.cluster.brokers.values())
    for node in nodes:
        node.power_cut()
    scene.pass_ms(4_000)
    for node in nodes:
        node.start()
    scene.cluster.run_until(scene.cluster.is_settled, 60, "all replicas in sync")
    scene.write("after")
    assert readable(scene) == [*((i, f"r{i}") for i in range(8, 12)), (12, "after")]


def test_a_repeated_request_is_flushed_although_the_log_starts_there_already(seed: int) -> None:
    """The first request was not answered: its leader was killed between the change and the flush."""
    scene = Scene(seed, brokers=1, flush_messages="1")
    scene.write(*WRITTEN)
    (node,) = scene.cluster.brokers.values()
    log = node.broker.replica_manager.hosted[scene.tp].log
    node.enter(lambda: log.raise_start(6))
    node.kill()
    restart(scene, node)
    assert scene.delete_below(6) == (ErrorCode.NONE, 6)
    node.power_cut()
    restart(scene, node)
    scene.write("after")
    assert readable(scene)[0] == (6, "r6")


def test_a_log_that_lost_its_end_hides_no_later_record(seed: int) -> None:
    """The records were not flushed and are lost, the log start offset was. Later records with the same offsets are not deleted ones."""
    scene = Scene(seed, brokers=1)
    scene.write(*WRITTEN)
    assert scene.delete_below(9) == (ErrorCode.NONE, 9)
    (node,) = scene.cluster.brokers.values()
    node.power_cut()
    restart(scene, node)
    log = node.broker.replica_manager.hosted[scene.tp].log
    before = log.end_offset
    scene.write(*(f"new{i}" for i in range(12)))
    node.kill()
    restart(scene, node)
    assert [v for _, v in readable(scene)][-12:] == [f"new{i}" for i in range(12)], f"the log ended at {before}"


def test_a_follower_whose_next_records_are_deleted_knows_their_producers(seed: int) -> None:
    """It leads later, and a producer sends its last batch again."""
    scene = Scene(seed, brokers=2)
    leader, follower = scene.pair()
    scene.write("r0")
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 20, "the ISR without the follower")
    assert scene.send(leader.broker_id, "a", producer=(7, 0)) == ErrorCode.NONE
    assert scene.send(leader.broker_id, "b", producer=(7, 1)) == ErrorCode.NONE
    assert scene.delete_below(3, timeout_ms=2_000)[1] == 3
    follower.start()
    scene.cluster.run_until(scene.cluster.is_settled, 60, "the follower in the ISR")
    log = follower.broker.replica_manager.hosted[scene.tp].log
    assert (log.start_offset, log.end_offset) == (3, 3)
    leader.kill()
    scene.until_leads(follower.broker_id)
    for text, sequence in (("a", 0), ("b", 1)):
        assert scene.send(follower.broker_id, text, producer=(7, sequence)) == ErrorCode.NONE
    assert scene.send(follower.broker_id, "c", producer=(7, 2)) == ErrorCode.NONE
    assert readable(scene) == [(3, "c")], "the batches were sent twice, and appended once"
    follower.kill()
    restart(scene, follower)
    assert scene.send(follower.broker_id, "c", producer=(7, 2)) == ErrorCode.NONE
    assert readable(scene) == [(3, "c")], "also after a restart"
