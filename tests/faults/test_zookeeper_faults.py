"""Faults of ZooKeeper: its leader dies, its followers lag, an older state of it is restored. And wall clocks that jump.

The ensemble is three real servers. The third is connected by proxies, so that it can serve old data. The older state is ZooKeeper's directory of some
entries ago: no process may apply it, and no process may delete anything because of it.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from brokerd.cluster import znodes
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from controlplane.devcluster import zookeeper
from tests import log_phrases
from tests.cluster.local import LocalCluster, free_port, wait_for
from tests.faults.proxy import TcpProxy
from tests.faults.raw import RawConnection
from tests.faults.scene import (
    LogLines,
    attempt,
    check_records,
    cluster,
    create,
    heal_cluster,
    leader,
    produce,
    segments,
    wait_until_recovered,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LAG = {"replica.lag.time.max.ms": "3000"}
HOUR_S = 3600


# -- one ZooKeeper server -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its processes read the file `wall`: seconds to add to the wall clock."""
    folder = tmp_path_factory.mktemp("zookeeper")
    (folder / "wall").write_text("0")
    (folder / "sitecustomize.py").write_text(WALL.format(path=str(folder / "wall")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        with cluster(folder, 3, **LAG) as running:
            yield running


WALL = """\
import time
_time_ns, _path = time.time_ns, {path!r}
def _jumped():
    with open(_path) as f:
        return _time_ns() + int(f.read() or 0) * 1_000_000_000
time.time_ns = _jumped
"""
"""Loaded by every Python process of the cluster at its start. Changes the wall clock only: nothing sets a monotonic clock."""


@pytest.fixture
def c(shared_cluster: LocalCluster) -> LocalCluster:
    (shared_cluster.folder / "wall").write_text("0")
    return heal_cluster(shared_cluster)


def test_wall_clocks_that_jump_an_hour_cause_no_election_and_no_loss(c: LocalCluster) -> None:
    """Sessions, lags and elections use the monotonic clock. Only timestamps of records and retention use the wall clock."""
    create(c, "clocks", min_insync=2, message_timestamp_type="LogAppendTime")
    written = []
    epochs = {(t.name, i): p.leader_epoch for t, i, p in c.image.each_partition()}
    for seconds in (0, HOUR_S, -HOUR_S, 0):
        (c.folder / "wall").write_text(str(seconds))
        new = [f"at {seconds}, {len(written) + i}" for i in range(20)]
        produce(c, "clocks", new)
        written += new
        time.sleep(1.5)
    assert {(t.name, i): p.leader_epoch for t, i, p in c.image.each_partition()} == epochs
    assert all(len(p.isr) == 3 for _, _, p in c.image.each_partition())
    check_records(c, "clocks", written)
    times = [h.max_timestamp for _, h in records.batches(memoryview(segments(c, 1, "clocks")))]
    assert max(times) - min(times) > 1.9 * HOUR_S * 1000, "the clocks did not jump: the scenario did not happen"


@pytest.mark.long
def test_a_restored_older_zookeeper_is_not_applied_and_deletes_nothing(c: LocalCluster) -> None:
    data = c.folder / "zookeeper" / "data"
    create(c, "known", min_insync=2)
    produce(c, "known", ["a"])
    c.kill("zookeeper")
    shutil.copytree(data, c.folder / "older")
    c.start_zookeeper()
    wait_until_recovered(c)
    create(c, "younger", min_insync=2)
    written = [f"r{i}" for i in range(20)]
    produce(c, "younger", written)
    time.sleep(6)  # the applied metadata offset is checkpointed every five seconds
    c.kill("zookeeper")
    c.stop_controller()
    shutil.move(data, c.folder / "newest")
    shutil.move(c.folder / "older", data)
    log_lines = {i: LogLines(c, f"broker-{i}") for i in c.ports}
    held = {i: segments(c, i, "younger") for i in c.ports}
    c.kill("broker-3")
    c.start_zookeeper()
    c.start_controller()
    c.start_broker(3)  # one broker that starts with it, two that kept running
    # The log ends too early, or the new controller has written past the applied entry by now and the hash chain does not fit.
    for i in c.ports:
        log_lines[i].wait(log_phrases.PRODUCE_SUSPENDED)
    assert attempt(c, "younger", ["into the past"], message_timeout_ms=2_000)
    assert {i: segments(c, i, "younger") for i in c.ports} == held
    for i in c.ports:
        assert not log_lines[i].lines(log_phrases.DIRECTORY_STRAY), (
            "the directory of a newer topic was taken for an unknown one"
        )
        c.kill(f"broker-{i}")
    c.stop_controller()
    c.kill("zookeeper")
    shutil.rmtree(data)
    shutil.move(c.folder / "newest", data)
    c.start_zookeeper()
    c.start_controller()
    for i in c.ports:
        c.start_broker(i)
    wait_until_recovered(c)
    check_records(c, "younger", written)


# -- three ZooKeeper servers -----------------------------------------------------------------------------------------------------
class EnsembleCluster(LocalCluster):
    """Three ZooKeeper servers. By default processes know two of them."""

    def __init__(self, folder: Path, brokers: int = 3) -> None:
        super().__init__(folder, brokers, LAG)
        self.zookeeper_ports = {1: self.zookeeper_port, 2: free_port(), 3: free_port()}
        self._quorum = {i: (free_port(), free_port()) for i in self.zookeeper_ports}
        self.zk_proxies = {i: TcpProxy(self._quorum[i][0]) for i in (1, 2)}
        """The proxies through which the third server receives from the others."""

    @property
    def zookeeper_connect(self) -> str:
        """The two servers that do not lag."""
        return ",".join(f"127.0.0.1:{self.zookeeper_ports[i]}" for i in (1, 2))

    def start_zookeeper(self) -> None:
        for i in (1, 2):
            self.start_server(i)
        wait_for(lambda: self.role(1) and self.role(2), "two servers")
        self.start_server(3)  # started last, so it is a follower
        wait_for(lambda: self.role(3) == "follower", "the third server")

    def start_server(self, i: int) -> None:
        folder = self.folder / f"zookeeper-{i}"
        folder.mkdir(parents=True, exist_ok=True)
        command = zookeeper.prepare(folder, self.zookeeper_ports[i])
        (folder / "data" / "myid").write_text(str(i))
        with open(folder / "zoo.cfg", "a") as f:
            for other, (peer, election) in self._quorum.items():
                if i == 3 and other in self.zk_proxies:
                    peer = self.zk_proxies[other].port
                f.write(f"server.{other}=127.0.0.1:{peer}:{election}\n")
        command = [c.replace("server.ZooKeeperServerMain", "server.quorum.QuorumPeerMain") for c in command]
        self._spawn(f"zookeeper-{i}", command)

    def role(self, i: int) -> str:
        """leader, follower, or empty while the server does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.zookeeper_ports[i]), timeout=1) as s:
                s.sendall(b"srvr")
                s.settimeout(1)
                out = b""
                while chunk := s.recv(4096):
                    out += chunk
        except OSError:
            return ""
        return out.partition(b"Mode: ")[2].split(b"\n")[0].decode()


@contextlib.contextmanager
def head(c: EnsembleCluster, i: int) -> Iterator[Callable[[], int]]:
    """The head of the metadata log on this server, without a sync."""
    zk = KazooClient(f"127.0.0.1:{c.zookeeper_ports[i]}")
    zk.start(timeout=20)
    try:
        yield lambda: int(zk.get_async(znodes.HEAD).get(timeout=4)[0])  # it stops responding soon
    finally:
        zk.stop()
        zk.close()


@pytest.mark.long
def test_an_ensemble_with_a_follower_that_serves_old_data_and_a_leader_that_dies(tmp_path: Path) -> None:
    """Broker 1 knows the third server only. While that server lags, broker 1 is replaced as leader and cannot notice."""
    c = EnsembleCluster(tmp_path)
    c.own_settings = {1: {"zookeeper.connect": f"127.0.0.1:{c.zookeeper_ports[3]}"}}
    second = f"127.0.0.1:{c.ports[2]}"
    with c:
        create(c, "past", min_insync=2, replicas=(1, 2, 3))
        wait_for(lambda: leader(c, "past") == 1, "broker 1 to lead")
        produce(c, "past", ["before"])
        with head(c, 1) as present, head(c, 3) as past:
            received = LogLines(c, "broker-2")
            for zk_proxy in c.zk_proxies.values():
                zk_proxy.cut()
            create(c, "news", min_insync=2, replicas=(2, 3), at=second)
            assert past() < present(), "the third server does not lag: the scenario did not happen"
            received.wait(
                f"{log_phrases.BECAME_LEADER}past-0"
            )  # an earlier write to broker 1 would wait there until its request times out
            # A client with only broker 1 as bootstrap server would learn from it that broker 1 leads (docs/pitfalls.md).
            produce(c, "past", ["meanwhile"], bootstrap_servers=second)
            # By now no follower fetches from broker 1. A moment earlier it might rightly have acknowledged.
            client = RawConnection(c, 1)
            client.send_produce("past", ["lost, had it been acknowledged"], -1, timeout_ms=1_000)
            assert client.receive_produce_response().error_code != ErrorCode.NONE
            for zk_proxy in c.zk_proxies.values():
                zk_proxy.restore()
        wait_until_recovered(c)
        check_records(c, "past", ["before", "meanwhile"])

        dead = next(i for i in (1, 2) if c.role(i) == "leader")
        c.kill(f"zookeeper-{dead}")
        produce(c, "past", ["without its leader"])
        create(c, "after", min_insync=2)  # metadata can be changed again
        produce(c, "after", ["x"])
        c.start_server(dead)
        wait_for(lambda: c.role(dead) == "follower", "the dead server to follow")
        wait_until_recovered(c)
        check_records(c, "past", ["before", "meanwhile", "without its leader"])
        check_records(c, "after", ["x"])
