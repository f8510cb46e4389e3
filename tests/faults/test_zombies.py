"""Those who do not know that they were replaced: frozen, cut off from ZooKeeper, or of an earlier life. R4, R6, R7, R9.

A frozen process is stopped by SIGSTOP past its ZooKeeper session; one that is cut off goes on talking to clients, and only its cable to ZooKeeper (a
proxy) is cut. Neither may acknowledge with acks=all, and all of them come back by themselves.
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
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.proxy import Cable
from tests.faults.raw import Raw
from tests.faults.scene import (
    Said,
    attempt,
    cluster,
    create,
    freeze,
    healed,
    leader,
    produce,
    recovered,
    state,
    thaw,
    values_of,
    wait_for_equal_logs,
    whole,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
SESSION_S = 3
ACKS_ALL = -1
FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Cable]]:
    """Broker 1 hangs on a cable of its own."""
    folder = tmp_path_factory.mktemp("zombies")
    with cluster(folder, 3, **{"replica.lag.time.max.ms": "3000"}) as running:
        cable = Cable(running.zookeeper_port)
        running.own_settings[1] = {"zookeeper.connect": f"127.0.0.1:{cable.port}"}
        running.kill("broker-1")
        running.start_broker(1)
        yield running, cable
        cable.close()


@pytest.fixture
def c(shared: tuple[LocalCluster, Cable]) -> LocalCluster:
    shared[1].mend()
    return healed(shared[0])


@pytest.fixture
def cable(shared: tuple[LocalCluster, Cable]) -> Cable:
    return shared[1]


def test_r4_a_frozen_leader_wakes_and_acknowledges_nothing_it_was_asked_in_its_sleep(c: LocalCluster) -> None:
    """KIP-320, KAFKA-6880. The requests lie in its socket before it knows that it was deposed: an old epoch's produce and fetch."""
    create(c, "r4", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "r4", written)
    old_epoch = state(c, "r4").leader_epoch
    everyone, one, reader = Raw(c, 1), Raw(c, 1), Raw(c, 1)
    said = Said(c, "broker-1")
    freeze(c, "broker-1")
    everyone.send_produce("r4", ["lost, had it been acknowledged"], ACKS_ALL)
    one.send_produce("r4", ["lost, had it been acknowledged"], 1)
    wait_for(lambda: leader(c, "r4") not in (-1, 1), "another leader")
    produce(c, "r4", ["meanwhile1", "meanwhile2"])
    thaw(c, "broker-1")
    for asked in (everyone, one):
        assert asked.produced().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wait_for(
        lambda: reader.fetch("r4", 0, epoch=old_epoch).responses[0].partitions[0].error_code in FENCED,
        "the refusal of a fetch of the old epoch (what it shows before was committed)",
    )
    assert said.lines("stood still for", "no produce until the metadata log was read again")
    recovered(c)
    whole(c, "r4", [*written, "meanwhile1", "meanwhile2"])


def test_r4_a_reader_of_a_tail_that_was_cut_hears_where_it_parts(c: LocalCluster) -> None:
    """It says the epoch of what it read last; the leader's log of that epoch ends earlier. An answer of records would be a silent skip."""
    create(c, "parted", replicas=(2, 3))
    produce(c, "parted", ["a", "b"])
    first_epoch = state(c, "parted").leader_epoch
    c.kill("broker-2")
    wait_for(lambda: leader(c, "parted") == 3, "the other to lead")
    produce(c, "parted", ["c", "d"])
    answer = Raw(c, 3).fetch("parted", 3, last_epoch=first_epoch).responses[0].partitions[0]
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (first_epoch, 2)
    assert not answer.records


def test_r9_a_follower_of_an_earlier_life_is_refused(c: LocalCluster) -> None:
    """KIP-380, KIP-903: what it asked before it bounced arrives after. It must not count as progress of the new life."""
    create(c, "r9", replicas=(2, 3))
    produce(c, "r9", ["x"] * 10)
    before = c.image.incarnation(3)
    assert before is not None
    c.kill("broker-3")
    c.start_broker(3)
    wait_for(lambda: c.image.incarnation(3) not in (None, before), "the new life")
    asked = Raw(c, 2)
    wait_for(
        lambda: asked.fetch("r9", 10, replica=(3, before)).error_code == ErrorCode.STALE_BROKER_EPOCH,
        "the refusal of a fetch of the earlier life",
    )


def test_r7_a_leader_cut_off_from_zookeeper_acknowledges_nothing_and_heals_without_a_restart(
    c: LocalCluster, cable: Cable
) -> None:
    """KAFKA-2729: its clients still reach it. Once the ISR moves on without it no write of acks=all may succeed there."""
    create(c, "r7", min_insync=2, replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(20)]
    produce(c, "r7", written)
    process, said = c.processes["broker-1"].pid, Said(c, "broker-1")
    client, heard = Raw(c, 1), Said(c, "broker-2")
    cable.cut()
    heard.wait("leading r7-0")  # a write that reached broker 1 before would wait there until its request times out
    # A client that knows broker 1 only would be told by it that broker 1 leads (docs/non-obvious.md).
    produce(c, "r7", ["meanwhile"], bootstrap_servers=f"127.0.0.1:{c.ports[2]}")
    # By now nobody follows broker 1 any more; a moment earlier it might rightly have acknowledged.
    client.send_produce("r7", ["lost, had it been acknowledged"], ACKS_ALL, timeout_ms=1_000)
    assert client.produced().error_code != ErrorCode.NONE
    cable.mend()
    began = time.monotonic()
    recovered(c)
    assert time.monotonic() - began < 30
    assert c.processes["broker-1"].pid == process
    assert said.lines("the ZooKeeper session has expired: registering anew")
    whole(c, "r7", [*written, "meanwhile"])


@pytest.mark.parametrize("seconds", [SESSION_S + 2, pytest.param(60, marks=pytest.mark.long)])
def test_without_zookeeper_a_whole_isr_goes_on_and_a_broken_one_acknowledges_nothing(
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
    assert attempt(c, name, ["in doubt"], message_timeout_ms=2_000)  # nobody can take the dead one out of the ISR
    thaw(c, "zookeeper")
    c.start_broker(3)
    recovered(c)
    produce(c, name, ["after"])
    log = values_of(wait_for_equal_logs(c, name))
    assert [v for v in log if v != "in doubt"] == ["before", "without ZooKeeper", "after"]
    assert log.count("in doubt") <= 1


def test_a_broker_that_cannot_read_the_metadata_log_lets_nobody_in(c: LocalCluster) -> None:
    """To a client, a broker that knows nothing would be a cluster without topics."""
    create(c, "known", replicas=(2, 3))
    c.kill("broker-2")
    freeze(c, "zookeeper")
    said = Said(c, "broker-2")
    c.start_broker(2)
    time.sleep(2.5)  # far longer than a start takes
    assert not c.listening(2)
    thaw(c, "zookeeper")
    wait_for(lambda: c.listening(2), "the door to open")
    assert said.lines("metadata loaded up to entry")
    recovered(c)


def test_r6_a_controller_that_was_frozen_writes_nothing_when_it_wakes(c: LocalCluster) -> None:
    """KAFKA-3083, KAFKA-6082: another was elected and has moved leaders meanwhile. The frozen one slept over the same deaths."""
    create(c, "r6", replicas=(1, 2, 3))
    written = [f"before{i}" for i in range(10)]
    produce(c, "r6", written)
    c.stop_controller()
    c._spawn("controller", [sys.executable, "-m", "tests.faults.controller", "sleeper", str(c.zookeeper_port)])
    sleeper = Said(c, "controller")
    try:
        sleeper.wait("sleeper acts as controller")
        time.sleep(1)
        freeze(c, "controller")
        c.kill("broker-1")  # whose death it would have to answer
        c.start_controller()
        wait_for(lambda: c.controller is not None and c.controller.core.acting, "another controller")
        epoch = c.image.controller_epoch
        wait_for(lambda: leader(c, "r6") not in (-1, 1), "another leader")
        thaw(c, "controller")
        sleeper.wait("sleeper no longer acts as controller")
        c.start_broker(1)
        recovered(c)
        assert c.image.controller_epoch >= epoch
        assert epochs_of_entries(c) == sorted(epochs_of_entries(c)), "an entry of a deposed controller"
        whole(c, "r6", written)
    finally:
        c.kill("controller")


def epochs_of_entries(c: LocalCluster) -> list[int]:
    """Of the controllers that wrote the metadata log, entry by entry."""
    zk = KazooClient(f"127.0.0.1:{c.zookeeper_port}")
    zk.start(timeout=20)
    try:
        return [
            Entry.decode(zk.get(f"{znodes.LOG}/{n}")[0]).controller_epoch for n in sorted(zk.get_children(znodes.LOG))
        ]
    finally:
        zk.stop()
        zk.close()
