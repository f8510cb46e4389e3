"""Processes that do not know that they were replaced: frozen, cut off from ZooKeeper, or with an earlier broker epoch. R4, R6, R7, R9.

A frozen process is stopped by SIGSTOP past its ZooKeeper session. A process that is cut off still serves clients: only its connection to ZooKeeper (a
proxy) is cut. Neither process may acknowledge with acks=all, and both recover automatically.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from brokerd.cluster import znodes
from brokerd.cluster.metadata import Entry
from brokerd.wire.errors import ErrorCode
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.proxy import TcpProxy
from tests.faults.raw import RawConnection
from tests.faults.scene import (
    LogLines,
    attempt,
    check_records,
    cluster,
    create,
    freeze,
    heal_cluster,
    leader,
    produce,
    state,
    thaw,
    values_of,
    wait_for_equal_logs,
    wait_until_recovered,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
SESSION_S = 3
ACKS_ALL = -1
FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture(scope="module")
def shared_cluster_and_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, TcpProxy]]:
    """Broker 1 is connected to ZooKeeper by a proxy."""
    folder = tmp_path_factory.mktemp("zombies")
    with cluster(folder, 3, **{"replica.lag.time.max.ms": "3000"}) as running:
        zk_proxy = TcpProxy(running.zookeeper_port)
        running.own_settings[1] = {"zookeeper.connect": f"127.0.0.1:{zk_proxy.port}"}
        running.kill("broker-1")
        running.start_broker(1)
        yield running, zk_proxy
        zk_proxy.close()


@pytest.fixture
def c(shared_cluster_and_proxy: tuple[LocalCluster, TcpProxy]) -> LocalCluster:
    shared_cluster_and_proxy[1].restore()
    return heal_cluster(shared_cluster_and_proxy[0])


@pytest.fixture
def zk_proxy(shared_cluster_and_proxy: tuple[LocalCluster, TcpProxy]) -> TcpProxy:
    return shared_cluster_and_proxy[1]


def test_r4_a_leader_frozen_past_its_session_acknowledges_no_queued_request(c: LocalCluster) -> None:
    """KIP-320, KAFKA-6880. The requests, a produce and a fetch of the old epoch, are in the broker's socket before it knows that it was replaced."""
    create(c, "r4", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "r4", written)
    old_epoch = state(c, "r4").leader_epoch
    everyone, one, reader = RawConnection(c, 1), RawConnection(c, 1), RawConnection(c, 1)
    log_lines = LogLines(c, "broker-1")
    freeze(c, "broker-1")
    everyone.send_produce("r4", ["lost, had it been acknowledged"], ACKS_ALL)
    one.send_produce("r4", ["lost, had it been acknowledged"], 1)
    wait_for(lambda: leader(c, "r4") not in (-1, 1), "another leader")
    produce(c, "r4", ["meanwhile1", "meanwhile2"])
    thaw(c, "broker-1")
    for requested in (everyone, one):
        assert requested.receive_produce_response().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wait_for(
        lambda: reader.fetch("r4", 0, epoch=old_epoch).responses[0].partitions[0].error_code in FENCED,
        "a fetch of the old epoch to be rejected (records that it returns before were committed)",
    )
    assert log_lines.lines(log_phrases.EVENT_LOOP_STALLED, "produce=suspended")
    wait_until_recovered(c)
    check_records(c, "r4", [*written, "meanwhile1", "meanwhile2"])


def test_r4_a_reader_of_a_truncated_tail_gets_the_diverging_epoch(c: LocalCluster) -> None:
    """The fetch has the epoch of the last record read. The leader's log of that epoch ends earlier. A response with records would silently skip some."""
    create(c, "parted", replicas=(2, 3))
    produce(c, "parted", ["a", "b"])
    first_epoch = state(c, "parted").leader_epoch
    c.kill("broker-2")
    wait_for(lambda: leader(c, "parted") == 3, "the other to lead")
    produce(c, "parted", ["c", "d"])
    response = RawConnection(c, 3).fetch("parted", 3, last_epoch=first_epoch).responses[0].partitions[0]
    assert (response.diverging_epoch.epoch, response.diverging_epoch.end_offset) == (first_epoch, 2)
    assert not response.records


def test_r9_a_fetch_with_an_earlier_broker_epoch_is_rejected(c: LocalCluster) -> None:
    """KIP-380, KIP-903: a fetch from before the broker's restart arrives after it. It must not count as progress of the new incarnation."""
    create(c, "r9", replicas=(2, 3))
    produce(c, "r9", ["x"] * 10)
    before = c.image.broker_epoch(3)
    assert before is not None
    c.kill("broker-3")
    c.start_broker(3)
    wait_for(lambda: c.image.broker_epoch(3) not in (None, before), "the new registration")
    requested = RawConnection(c, 2)
    wait_for(
        lambda: requested.fetch("r9", 10, replica=(3, before)).error_code == ErrorCode.STALE_BROKER_EPOCH,
        "a fetch with the earlier broker epoch to be rejected",
    )


def test_r7_a_leader_cut_off_from_zookeeper_acknowledges_nothing_and_recovers_without_a_restart(
    c: LocalCluster, zk_proxy: TcpProxy
) -> None:
    """KAFKA-2729: clients still reach the leader. Once the ISR has changed without it, no acks=all write to it may succeed."""
    create(c, "r7", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "r7", written)
    process, log_lines = c.processes["broker-1"].pid, LogLines(c, "broker-1")
    client, other_log_lines = RawConnection(c, 1), LogLines(c, "broker-2")
    zk_proxy.cut()
    other_log_lines.wait(
        f"{log_phrases.BECAME_LEADER}r7-0"
    )  # an earlier write to broker 1 would wait there until its request times out
    # A client with only broker 1 as bootstrap server would learn from it that broker 1 leads (docs/pitfalls.md).
    produce(c, "r7", ["meanwhile"], bootstrap_servers=f"127.0.0.1:{c.ports[2]}")
    # By now no follower fetches from broker 1. A moment earlier it might rightly have acknowledged.
    client.send_produce("r7", ["lost, had it been acknowledged"], ACKS_ALL, timeout_ms=1_000)
    assert client.receive_produce_response().error_code != ErrorCode.NONE
    zk_proxy.restore()
    began = time.monotonic()
    wait_until_recovered(c)
    assert time.monotonic() - began < 30
    assert c.processes["broker-1"].pid == process
    assert log_lines.lines(log_phrases.SESSION_EXPIRED)
    check_records(c, "r7", [*written, "meanwhile"])


@pytest.mark.parametrize("seconds", [SESSION_S + 2, pytest.param(60, marks=pytest.mark.long)])
def test_without_zookeeper_a_complete_isr_continues_and_an_incomplete_one_acknowledges_nothing(
    c: LocalCluster, seconds: int
) -> None:
    name = f"away{seconds}"
    create(c, name, min_insync=2, replicas=(1, 2, 3))
    produce(c, name, ["before"])
    freeze(c, "zookeeper")
    began = time.monotonic()
    produce(c, name, ["without ZooKeeper"])
    c.kill("broker-3")
    time.sleep(max(0, began + seconds - 2 - time.monotonic()))
    assert attempt(
        c, name, ["in doubt"], message_timeout_ms=2_000
    )  # no process can remove the dead replica from the ISR
    thaw(c, "zookeeper")
    c.start_broker(3)
    wait_until_recovered(c)
    produce(c, name, ["after"])
    log = values_of(wait_for_equal_logs(c, name))
    assert [v for v in log if v != "in doubt"] == ["before", "without ZooKeeper", "after"]
    assert log.count("in doubt") <= 1


def test_a_broker_without_metadata_accepts_no_connections(c: LocalCluster) -> None:
    """For a client, a broker without metadata would be a cluster without topics."""
    create(c, "known", replicas=(2, 3))
    c.kill("broker-2")
    freeze(c, "zookeeper")
    log_lines = LogLines(c, "broker-2")
    c.start_broker(2)
    time.sleep(2.5)  # far longer than a start takes
    assert not c.listening(2)
    thaw(c, "zookeeper")
    wait_for(lambda: c.listening(2), "the broker to listen")
    assert log_lines.lines(f"{log_phrases.METADATA_LOADED}: entry=")
    wait_until_recovered(c)


def test_r6_a_frozen_and_replaced_controller_writes_nothing_when_it_continues(c: LocalCluster) -> None:
    """KAFKA-3083, KAFKA-6082: another controller was elected and has moved leaders meanwhile. The frozen one missed the same deaths."""
    create(c, "r6", replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(10)]
    produce(c, "r6", written)
    c.stop_controller()
    c._spawn("controller", [sys.executable, "-m", "tests.faults.controller", "sleeper", c.zookeeper_connect])
    sleeper = LogLines(c, "controller")
    try:
        sleeper.wait(f"{log_phrases.CONTROLLER_ELECTED}sleeper")
        time.sleep(1)
        freeze(c, "controller")
        c.kill("broker-1")  # a death that it would have to handle
        c.start_controller()
        wait_for(lambda: c.controller is not None and c.controller.core.acting, "another controller")
        epoch = c.image.controller_epoch
        wait_for(lambda: leader(c, "r6") not in (-1, 1), "another leader")
        thaw(c, "controller")
        sleeper.wait(f"{log_phrases.CONTROLLER_DEPOSED}sleeper")
        c.start_broker(1)
        wait_until_recovered(c)
        assert c.image.controller_epoch >= epoch
        assert epochs_of_entries(c) == sorted(epochs_of_entries(c)), "an entry of a replaced controller"
        check_records(c, "r6", written)
    finally:
        c.kill("controller")


def epochs_of_entries(c: LocalCluster) -> list[int]:
    """The controller epoch of each entry of the metadata log."""
    zk = KazooClient(f"127.0.0.1:{c.zookeeper_port}")
    zk.start(timeout=20)
    try:
        return [
            Entry.decode(zk.get(f"{znodes.LOG}/{n}")[0]).controller_epoch for n in sorted(zk.get_children(znodes.LOG))
        ]
    finally:
        zk.stop()
        zk.close()
