"""Packet loss under the brokers' own TCP: an isolated broker, links that work in one direction only, a network that loses one packet in twenty.

No endpoint is notified of a dead connection, as when a switch fails: no refusal, no reset. No acknowledged record is lost, and all brokers recover when
packets pass again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.local import wait_for
from tests.faults import namespaces
from tests.faults.namespaces import HOME, NetworkedCluster, networked_cluster
from tests.faults.scene import (
    LogLines,
    check_records,
    create,
    heal_cluster,
    leader,
    produce,
    state,
    wait_until_recovered,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(namespaces.possible()), reason=namespaces.possible()),
]


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedCluster]:
    with networked_cluster(tmp_path_factory.mktemp("networks")) as running:
        yield running


@pytest.fixture
def c(shared_cluster: NetworkedCluster) -> NetworkedCluster:
    shared_cluster.network.restore()
    heal_cluster(shared_cluster)
    return shared_cluster


def test_an_isolated_leader_is_replaced_and_returns_as_a_follower(c: NetworkedCluster) -> None:
    create(c, "alone", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "alone", written)
    process = c.processes["broker-1"].pid
    c.network.isolate(1)
    wait_for(lambda: leader(c, "alone") in (2, 3), "another leader")
    produce(c, "alone", ["meanwhile1", "meanwhile2"], bootstrap_servers=f"{c.address(2)}:{c.ports[2]}")
    assert c.network.dropped_packets() > 0
    c.network.restore()
    wait_until_recovered(c)
    assert c.processes["broker-1"].pid == process
    check_records(c, "alone", [*written, "meanwhile1", "meanwhile2"])


@pytest.mark.parametrize("way", [(1, 2), (2, 1)], ids=["responses", "requests"])
def test_a_one_way_link_costs_isr_membership_and_no_record(c: NetworkedCluster, way: tuple[int, int]) -> None:
    """Leader 1 and follower 2 both reach ZooKeeper. Packets from one of them to the other are lost."""
    name = f"oneway{way[0]}{way[1]}"
    create(c, name, min_insync=2, replicas=(1, 2, 3))
    produce(c, name, ["before"])
    c.network.drop(way)
    wait_for(lambda: set(state(c, name).isr_ids) == {1, 3}, "the follower to leave the ISR")
    produce(c, name, ["meanwhile"])
    assert leader(c, name) == 1 and c.network.dropped_packets() > 0
    c.network.restore()
    wait_until_recovered(c)
    check_records(c, name, ["before", "meanwhile"])


def test_a_follower_behind_an_isolated_leader_follows_the_next_one(c: NetworkedCluster) -> None:
    """The leader's machine is isolated while one follower is behind: the follower with all records leads."""
    create(c, "behind", min_insync=2, replicas=(1, 2, 3))
    produce(c, "behind", ["before"])
    c.network.drop((1, 2), (2, 1))
    wait_for(lambda: set(state(c, "behind").isr_ids) == {1, 3}, "the follower that is behind to leave the ISR")
    produce(c, "behind", ["two have it"])
    c.network.isolate(1)
    wait_for(lambda: leader(c, "behind") == 3, "the follower with all records to lead")
    wait_for(lambda: set(state(c, "behind").isr_ids) == {2, 3}, "the other follower to follow it")
    produce(c, "behind", ["after"], bootstrap_servers=f"{c.address(3)}:{c.ports[3]}")
    c.network.restore()
    wait_until_recovered(c)
    check_records(c, "behind", ["before", "two have it", "after"])


def test_a_network_that_loses_one_packet_in_twenty_loses_no_record(c: NetworkedCluster) -> None:
    """Under load, and with a kill of the leader."""
    create(c, "lossy", min_insync=2, replicas=(1, 2, 3))
    c.network.lose_packets(5)
    first, second = [f"a{i}" for i in range(3_000)], [f"b{i}" for i in range(3_000)]
    produce(c, "lossy", first)
    log_lines = LogLines(c, "broker-2")
    c.kill("broker-1")
    produce(c, "lossy", second)
    assert leader(c, "lossy") in (2, 3) and c.network.dropped_packets() > 5
    c.network.restore()
    c.start_broker(1)
    wait_until_recovered(c)
    assert not log_lines.lines("Traceback")
    check_records(c, "lossy", [*first, *second])


def test_a_broker_whose_packets_to_zookeeper_are_lost_leaves_the_isr_and_joins_it_again(c: NetworkedCluster) -> None:
    """The broker still receives packets from ZooKeeper, clients and all brokers. Its packets to their namespace are lost."""
    create(c, "unreachable", min_insync=2, replicas=(1, 2, 3))
    produce(c, "unreachable", ["before"])
    before = c.image.broker_epoch(1)
    c.network.drop((1, HOME))
    wait_for(lambda: leader(c, "unreachable") in (2, 3), "another leader")
    produce(c, "unreachable", ["meanwhile"], bootstrap_servers=f"{c.address(2)}:{c.ports[2]}")
    c.network.restore()
    wait_until_recovered(c)
    assert c.image.broker_epoch(1) != before
    check_records(c, "unreachable", ["before", "meanwhile"])
