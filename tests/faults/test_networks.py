"""Packets that are lost under the brokers' own TCP: a broker that nobody reaches any more, cables that carry one way only, a network that loses one packet in twenty.

Nobody is told that a connection is dead, as when a switch dies: no refusal, no reset. What was acknowledged stays, and all heal once packets pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.local import wait_for
from tests.faults import namespaces
from tests.faults.namespaces import HOME, NetworkedCluster, networked
from tests.faults.scene import Said, create, healed, leader, produce, recovered, state, whole

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(namespaces.possible()), reason=namespaces.possible()),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedCluster]:
    with networked(tmp_path_factory.mktemp("networks")) as running:
        yield running


@pytest.fixture
def c(shared: NetworkedCluster) -> NetworkedCluster:
    shared.network.mend()
    healed(shared)
    return shared


def test_a_leader_that_nobody_reaches_any_more_is_replaced_and_comes_back_as_a_follower(c: NetworkedCluster) -> None:
    create(c, "alone", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "alone", written)
    process = c.processes["broker-1"].pid
    c.network.isolate(1)
    wait_for(lambda: leader(c, "alone") in (2, 3), "another leader")
    produce(c, "alone", ["meanwhile1", "meanwhile2"], bootstrap_servers=f"{c.address(2)}:{c.ports[2]}")
    assert c.network.dropped() > 0
    c.network.mend()
    recovered(c)
    assert c.processes["broker-1"].pid == process
    whole(c, "alone", [*written, "meanwhile1", "meanwhile2"])


@pytest.mark.parametrize("way", [(1, 2), (2, 1)], ids=["answers", "requests"])
def test_a_cable_that_carries_one_way_only_costs_a_seat_in_the_isr_and_no_record(
    c: NetworkedCluster, way: tuple[int, int]
) -> None:
    """Leader 1 and follower 2 both hear ZooKeeper; what one of them sends the other never arrives."""
    name = f"oneway{way[0]}{way[1]}"
    create(c, name, min_insync=2, replicas=(1, 2, 3))
    produce(c, name, ["before"])
    c.network.drop(way)
    wait_for(lambda: set(state(c, name).isr_ids) == {1, 3}, "the one that hears nothing to leave the ISR")
    produce(c, name, ["meanwhile"])
    assert leader(c, name) == 1 and c.network.dropped() > 0
    c.network.mend()
    recovered(c)
    whole(c, name, ["before", "meanwhile"])


def test_a_follower_that_lost_its_leader_alone_follows_the_next_one(c: NetworkedCluster) -> None:
    """The leader's machine is swallowed while its follower is behind: who has everything leads."""
    create(c, "behind", min_insync=2, replicas=(1, 2, 3))
    produce(c, "behind", ["before"])
    c.network.drop((1, 2), (2, 1))
    wait_for(lambda: set(state(c, "behind").isr_ids) == {1, 3}, "the other to leave the ISR")
    produce(c, "behind", ["two have it"])
    c.network.isolate(1)
    wait_for(lambda: leader(c, "behind") == 3, "the one that has everything to lead")
    wait_for(lambda: set(state(c, "behind").isr_ids) == {2, 3}, "the other to follow it")
    produce(c, "behind", ["after"], bootstrap_servers=f"{c.address(3)}:{c.ports[3]}")
    c.network.mend()
    recovered(c)
    whole(c, "behind", ["before", "two have it", "after"])


def test_a_network_that_loses_one_packet_in_twenty_loses_no_record(c: NetworkedCluster) -> None:
    """Under load, and through a kill of the leader."""
    create(c, "lossy", min_insync=2, replicas=(1, 2, 3))
    c.network.lossy(5)
    first, second = [f"a{i}" for i in range(3_000)], [f"b{i}" for i in range(3_000)]
    produce(c, "lossy", first)
    said = Said(c, "broker-2")
    c.kill("broker-1")
    produce(c, "lossy", second)
    assert leader(c, "lossy") in (2, 3) and c.network.dropped() > 5
    c.network.mend()
    c.start_broker(1)
    recovered(c)
    assert not said.lines("Traceback")
    whole(c, "lossy", [*first, *second])


def test_a_broker_that_zookeeper_does_not_hear_loses_its_seat_and_takes_it_again(c: NetworkedCluster) -> None:
    """It still hears home, clients and ZooKeeper included, and all brokers; what it sends home is lost."""
    create(c, "unheard", min_insync=2, replicas=(1, 2, 3))
    produce(c, "unheard", ["before"])
    before = c.image.incarnation(1)
    c.network.drop((1, HOME))
    wait_for(lambda: leader(c, "unheard") in (2, 3), "another leader")
    produce(c, "unheard", ["meanwhile"], bootstrap_servers=f"{c.address(2)}:{c.ports[2]}")
    c.network.mend()
    recovered(c)
    assert c.image.incarnation(1) != before
    whole(c, "unheard", ["before", "meanwhile"])
