"""What ZooKeeper itself may do to us: its leader dies, its followers lag behind, an older image of it is put back. And wall clocks that jump.

The ensemble is three real servers; the third hangs on cables of its own, so that it can be made to answer from the past. An older image is the folder
as it was some entries ago: nobody may follow it, and nobody may delete anything because of it.
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
from controlplane.house import zookeeper
from tests.cluster.local import LocalCluster, free_port, wait_for
from tests.faults.proxy import Cable
from tests.faults.raw import Raw
from tests.faults.scene import Said, attempt, cluster, create, healed, leader, produce, recovered, segments, whole

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LAG = {"replica.lag.time.max.ms": "3000"}
HOUR_S = 3600


# -- one ZooKeeper -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its processes read the wall clock through the file `wall`: seconds to add."""
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
"""Read by every Python process of the cluster at its start. Only the wall clock: nothing sets a monotonic one."""


@pytest.fixture
def c(shared: LocalCluster) -> LocalCluster:
    (shared.folder / "wall").write_text("0")
    return healed(shared)


def test_wall_clocks_that_jump_an_hour_move_no_leader_and_lose_nothing(c: LocalCluster) -> None:
    """Sessions, lags and elections go by the monotonic clock; only records' times and retention know the wall's."""
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
    whole(c, "clocks", written)
    times = [h.max_timestamp for _, h in records.batches(memoryview(segments(c, 1, "clocks")))]
    assert max(times) - min(times) > 1.9 * HOUR_S * 1000, "the clocks did not jump: the scenario did not happen"


@pytest.mark.long
def test_an_older_image_of_zookeeper_is_followed_by_nobody_and_deletes_nothing(c: LocalCluster) -> None:
    data = c.folder / "zookeeper" / "data"
    create(c, "known", min_insync=2)
    produce(c, "known", ["a"])
    c.kill("zookeeper")
    shutil.copytree(data, c.folder / "older")
    c.start_zookeeper()
    recovered(c)
    create(c, "younger", min_insync=2)
    written = [f"r{i}" for i in range(20)]
    produce(c, "younger", written)
    time.sleep(6)  # how far the log was followed is written down every five seconds
    c.kill("zookeeper")
    c.stop_controller()
    shutil.move(data, c.folder / "newest")
    shutil.move(c.folder / "older", data)
    said = {i: Said(c, f"broker-{i}") for i in c.ports}
    held = {i: segments(c, i, "younger") for i in c.ports}
    c.kill("broker-3")
    c.start_zookeeper()
    c.start_controller()
    c.start_broker(3)  # one that starts into it, two that lived on
    for i in c.ports:
        said[i].wait("serving nothing new", "an older ZooKeeper")
    assert attempt(c, "younger", ["into the past"], message_timeout_ms=2_000)
    assert {i: segments(c, i, "younger") for i in c.ports} == held
    for i in c.ports:
        assert not said[i].lines("set aside"), "a younger topic's folder counts as a stranger's"
        c.kill(f"broker-{i}")
    c.stop_controller()
    c.kill("zookeeper")
    shutil.rmtree(data)
    shutil.move(c.folder / "newest", data)
    c.start_zookeeper()
    c.start_controller()
    for i in c.ports:
        c.start_broker(i)
    recovered(c)
    whole(c, "younger", written)


# -- three of them -----------------------------------------------------------------------------------------------------
class EnsembleCluster(LocalCluster):
    """Three ZooKeepers; who is not told otherwise knows two of them."""

    def __init__(self, folder: Path, brokers: int = 3) -> None:
        super().__init__(folder, brokers, LAG)
        self.zookeeper_ports = {1: self.zookeeper_port, 2: free_port(), 3: free_port()}
        self._quorum = {i: (free_port(), free_port()) for i in self.zookeeper_ports}
        self.cables = {i: Cable(self._quorum[i][0]) for i in (1, 2)}
        """What the third server hears of the others."""

    @property
    def hosts(self) -> str:
        """The two that do not lag."""
        return ",".join(f"127.0.0.1:{self.zookeeper_ports[i]}" for i in (1, 2))

    def start_zookeeper(self) -> None:
        for i in (1, 2):
            self.start_server(i)
        wait_for(lambda: self.role(1) and self.role(2), "two servers")
        self.start_server(3)  # comes late, and follows
        wait_for(lambda: self.role(3) == "follower", "the third server")

    def start_server(self, i: int) -> None:
        folder = self.folder / f"zookeeper-{i}"
        folder.mkdir(parents=True, exist_ok=True)
        command = zookeeper.prepare(folder, self.zookeeper_ports[i])
        (folder / "data" / "myid").write_text(str(i))
        with open(folder / "zoo.cfg", "a") as f:
            for other, (peer, election) in self._quorum.items():
                if i == 3 and other in self.cables:
                    peer = self.cables[other].port
                f.write(f"server.{other}=127.0.0.1:{peer}:{election}\n")
        command = [c.replace("server.ZooKeeperServerMain", "server.quorum.QuorumPeerMain") for c in command]
        self._spawn(f"zookeeper-{i}", command)

    def role(self, i: int) -> str:
        """leader, follower, or nothing while it does not serve."""
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
    """The head of the metadata log as this server knows it, without a sync."""
    zk = KazooClient(f"127.0.0.1:{c.zookeeper_ports[i]}")
    zk.start(timeout=20)
    try:
        yield lambda: int(zk.get_async(znodes.HEAD).get(timeout=4)[0])  # it does not answer for long
    finally:
        zk.stop()
        zk.close()


@pytest.mark.long
def test_an_ensemble_whose_follower_answers_from_the_past_and_whose_leader_dies(tmp_path: Path) -> None:
    """Broker 1 knows the third server only. While that one lags, broker 1 is deposed without a way to hear of it."""
    c = EnsembleCluster(tmp_path)
    c.own_settings = {1: {"zookeeper.connect": f"127.0.0.1:{c.zookeeper_ports[3]}"}}
    second = f"127.0.0.1:{c.ports[2]}"
    with c:
        create(c, "past", min_insync=2, replicas=(1, 2, 3))
        wait_for(lambda: leader(c, "past") == 1, "broker 1 to lead")
        produce(c, "past", ["before"])
        with head(c, 1) as present, head(c, 3) as past:
            heard = Said(c, "broker-2")
            for cable in c.cables.values():
                cable.cut()
            create(c, "news", min_insync=2, replicas=(2, 3), at=second)
            assert past() < present(), "the third server does not lag: the scenario did not happen"
            heard.wait(
                "leading past-0"
            )  # a write that reached broker 1 before would wait there until its request times out
            # A client that knows broker 1 only would be told by it that broker 1 leads (docs/non-obvious.md).
            produce(c, "past", ["meanwhile"], bootstrap_servers=second)
            # By now nobody follows broker 1 any more; a moment earlier it might rightly have acknowledged.
            client = Raw(c, 1)
            client.send_produce("past", ["lost, had it been acknowledged"], -1, timeout_ms=1_000)
            assert client.produced().error_code != ErrorCode.NONE
            for cable in c.cables.values():
                cable.mend()
        recovered(c)
        whole(c, "past", ["before", "meanwhile"])

        dead = next(i for i in (1, 2) if c.role(i) == "leader")
        c.kill(f"zookeeper-{dead}")
        produce(c, "past", ["without its leader"])
        create(c, "after", min_insync=2)  # and things can be changed again
        produce(c, "after", ["x"])
        c.start_server(dead)
        wait_for(lambda: c.role(dead) == "follower", "the dead server to follow")
        recovered(c)
        whole(c, "past", ["before", "meanwhile", "without its leader"])
        whole(c, "after", ["x"])
