"""min.insync.replicas: the effective minimum is never more than a partition has replicas, and leader and controller use the same one. test_mutations
removes each rule."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import ALL_BROKERS
from brokerd.cluster.metadata import BROKER
from brokerd.cluster.model import PartitionState
from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import DesiredAccess, DesiredAssignment
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 4))
SHORT_LAG_TIME = {"replica.lag.time.max.ms": "1500"}


def for_all_brokers(scene: Scene, generation: int, min_insync: int) -> None:
    """Sets the cluster-wide default, like IncrementalAlterConfigs with the empty name. Returns when every broker has applied it."""
    value = {"min.insync.replicas": str(min_insync)}
    scene.cluster.deliver_desired(DesiredAccess(BROKER, str(ALL_BROKERS), generation, value))

    def is_known() -> bool:
        nodes = [n for n in scene.cluster.brokers.values() if n.alive and not n.frozen]
        return all(n.broker.replica_manager.image.broker_configs.get(ALL_BROKERS) == (generation, value) for n in nodes)

    scene.cluster.run_until(is_known, 20, "every broker to know the setting")


@pytest.mark.parametrize(("replicas", "min_insync"), [(1, 2), (2, 3)])
def test_a_topic_with_fewer_replicas_than_the_minimum_is_written_and_read(
    seed: int, replicas: int, min_insync: int
) -> None:
    scene = Scene(seed, min_insync=min_insync, brokers=3, replicas=replicas)
    scene.write("all")
    scene.write("one", acks=1)
    assert scene.end() == ["all", "one"], "acknowledged records must be below the high watermark"


def test_with_as_many_replicas_as_the_minimum_none_may_be_missing(seed: int) -> None:
    scene = Scene(seed, min_insync=3)
    scene.write("both")
    leader, follower = scene.pair()
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.elr == (follower.broker_id,), 20, "the follower in the ELR")
    scene.pass_ms(500)
    assert scene.send(leader.broker_id, "refused") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.send(leader.broker_id, "alone", acks=1) == 0
    scene.pass_ms(1_000)
    assert leader.broker.replica_manager.hosted[scene.tp].core.high_watermark == 1, "committed by one replica of two"
    leader.power_cut()
    follower.start()
    scene.until_leads(follower.broker_id)
    leader.start()
    scene.cluster.run_until(scene.cluster.is_settled, 60, "both in sync")
    scene.write("after")
    assert scene.end()[0] == "both" and scene.end()[-1] == "after"


def test_a_topic_with_one_replica_stays_open_while_it_is_copied(seed: int) -> None:
    scene = Scene(seed, min_insync=2, brokers=3, replicas=1)
    scene.write("before")
    (old,) = scene.state.replicas
    target = tuple(b for b in scene.cluster.brokers if b != old)
    for broker_id in target:
        node = scene.cluster.brokers[broker_id]
        scene.cluster.network.cut |= {(node.name, scene.cluster.brokers[old].name)}
    generation = scene.state.assignment_generation
    scene.cluster.deliver_desired(DesiredAssignment(scene.topic_id, 0, target, generation, "move"))
    scene.cluster.run_until(lambda: scene.state.reassigning, 20, "the reassignment")
    scene.pass_ms(500)
    scene.write("meanwhile")
    scene.cluster.network.cut.clear()
    scene.cluster.run_until(
        lambda: scene.state.target == scene.state.replicas == target, 60, "the end of the reassignment"
    )
    scene.pass_ms(500)
    assert scene.state.effective_min_insync(2) == 2
    scene.write("after")
    assert scene.end() == ["before", "meanwhile", "after"]


def test_a_lowered_default_minimum_elects_no_replica_without_the_latest_records(seed: int) -> None:
    """The follower is in the ELR when the minimum is lowered. From then on the leader alone may acknowledge, so the follower must not be elected."""
    scene = Scene(seed, min_insync=None, settings=SHORT_LAG_TIME)
    for_all_brokers(scene, 1, 2)
    scene.write("both")
    leader, follower = scene.pair()
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.elr == (follower.broker_id,), 20, "the follower in the ELR")
    scene.pass_ms(500)
    assert scene.send(leader.broker_id, "refused") == ErrorCode.NOT_ENOUGH_REPLICAS
    for_all_brokers(scene, 2, 1)
    scene.write("alone")
    state: PartitionState = scene.state
    assert (state.isr_ids, state.elr) == ((leader.broker_id,), ())
    leader.kill()
    follower.start()
    scene.pass_ms(5_000)
    assert scene.state.leader != follower.broker_id, "it lacks records that the leader alone acknowledged"
    leader.start()
    assert scene.end() == ["both", "alone"]


def test_a_cluster_wide_minimum_applies_to_topics_without_their_own(seed: int) -> None:
    scene = Scene(seed, min_insync=None, settings=SHORT_LAG_TIME)
    scene.write("both")
    leader, follower = scene.pair()
    for_all_brokers(scene, 1, 2)
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.elr == (follower.broker_id,), 20, "the follower in the ELR")
    scene.pass_ms(500)
    assert scene.send(leader.broker_id, "refused") == ErrorCode.NOT_ENOUGH_REPLICAS
    follower.start()
    scene.cluster.run_until(scene.cluster.is_settled, 60, "both in sync")
    scene.write("after")
    assert scene.end() == ["both", "after"]
