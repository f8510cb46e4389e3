"""A cluster with two versions of the program: one without metadata levels and this one. Processes are upgraded, downgraded and upgraded under load.

The old version is a commit of this repository; a clone without it fails with a message.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster import znodes
from brokerd.cluster.blocking import connected
from brokerd.cluster.levels import FEATURE, LEVEL_MAX
from brokerd.cluster.store import Create, Set
from brokerd.cluster.zookeeper import ZooKeeperStore
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import ApiVersionsRequest
from controlplane.disaster.metalog import read_log
from tests.cluster.local import ROOT, LocalCluster, wait_for
from tests.cluster.test_failover import PARTITIONS, Verifier
from tests.faults.raw import RawConnection
from tests.faults.scene import all_in_sync, is_registered

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
OLD = "e4e53bbfd40aa2477ba74934c2c501f1a34f7e8f"
"""The last commit of main whose brokers and controllers have no metadata levels."""
MIN_INSYNC = 2


@pytest.fixture(scope="session")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    done = subprocess.run(
        ["git", "archive", OLD, "brokerd", "controlplane", "tests/__init__.py", "tests/cluster"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"commit {OLD[:12]}, the program that is upgraded from, is not in this clone ({done.stderr.decode().strip()}): "
        "a shallow one wants `git fetch --unshallow`"
    )
    # Not the module tarfile: its argument `filter` is missing in Debian's Python 3.11.2.
    subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)
    return folder


class MixedCluster(LocalCluster):
    """Each process runs one of two versions. The controller is a process here, and the image is read from ZooKeeper."""

    internal_topics = ("__consumer_offsets",)
    """The topics that the old version's controller creates."""

    def __init__(self, folder: Path, old: Path) -> None:
        super().__init__(folder, 3)
        self.trees = {"old": old, "new": ROOT}
        self.tree = "old"
        self.offsets_id = str(uuid4())
        self._number = 0

    def _spawn(self, name: str, command: list[str]) -> None:
        tree = self.trees[self.tree] if name != "zookeeper" else ROOT
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}
            )

    def start_controller(self) -> None:
        self._number += 1
        script = str(Path(__file__).with_name("controller.py"))
        name = f"controller-{self._number}"
        self._spawn("controller", [sys.executable, script, name, self.zookeeper_connect, self.offsets_id])

    def stop_controller(self) -> None:
        self.kill("controller", signal.SIGTERM)

    @property
    def image(self):  # type: ignore[no-untyped-def]
        return self.read_image()

    def read_image(self):  # type: ignore[no-untyped-def]
        with connected(ZooKeeperStore(self.zookeeper_connect, 6000)) as zk:
            return read_log(zk).image

    def runs(self, name: str) -> str:
        """The version of a running process."""
        folder = os.readlink(f"/proc/{self.processes[name].pid}/cwd")
        return next(n for n, tree in self.trees.items() if Path(folder) == tree)


class MetadataLogWatch:
    """Reads the whole metadata log during the upgrade: the smallest ISR of each partition with a leader."""

    def __init__(self, devcluster: MixedCluster) -> None:
        self._devcluster, self._stop = devcluster, threading.Event()
        self.least: dict[str, int] = {}
        self.looks = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with connected(ZooKeeperStore(self._devcluster.zookeeper_connect, 6000)) as zk:
            while not self._stop.wait(0.1):
                read = read_log(zk)
                self.looks += 1
                for topic, index, state in read.image.each_partition():
                    name = f"{topic.name}-{index}"
                    self.least[name] = min(len(state.isr), self.least.get(name, 9))

    def end(self) -> None:
        self._stop.set()
        self._thread.join(60)


@pytest.fixture
def devcluster(tmp_path: Path, old_tree: Path) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path, old_tree) as running:
        yield running


def controller_terms(devcluster: MixedCluster) -> int:
    """Log lines about a won election, in the words of the old and the new version."""
    text = devcluster.log("controller")
    return text.count("acts as controller") + text.count("controller elected")


def upgrade_in_order(
    devcluster: MixedCluster, tree: str, verifier: Verifier, brokers: Sequence[int] = (1, 2, 3)
) -> None:
    """The documented order: each broker is stopped cleanly and back in every ISR before the next; the controller is last."""
    devcluster.tree = tree
    for broker_id in brokers:
        assert devcluster.kill(f"broker-{broker_id}", signal.SIGTERM) == 0
        devcluster.start_broker(broker_id)
        wait_for(
            lambda i=broker_id: devcluster.listening(i) and is_registered(devcluster, i), f"broker {broker_id} back"
        )  # type: ignore[misc]
        wait_for(lambda: all_in_sync(devcluster), f"full ISR after broker {broker_id}")
        assert devcluster.runs(f"broker-{broker_id}") == tree
        verifier.progress(f"with broker {broker_id} of the {tree} program", 500)
    create_through_each(devcluster)
    devcluster.stop_controller()
    terms = controller_terms(devcluster)
    devcluster.start_controller()
    wait_for(lambda: controller_terms(devcluster) > terms, f"the {tree} controller")
    verifier.progress(f"with the {tree} controller", 500)


def create_through_each(devcluster: MixedCluster) -> None:
    """A broker of either version forwards to a controller of the other."""
    for port in devcluster.ports.values():
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        topic = f"made-{len(devcluster.read_image().topics)}"
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(30)
        wait_for(lambda t=topic: devcluster.read_image().topic_named(t), f"{topic} in the log")  # type: ignore[misc]


def raise_level(devcluster: MixedCluster) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "upgrade_metadata", "--zookeeper", devcluster.zookeeper_connect],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def finalised_features(devcluster: MixedCluster, broker_id: int) -> dict[str, int]:
    raw = RawConnection(devcluster, broker_id)
    try:
        raw.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        response = raw.receive(ApiKey.API_VERSIONS, 3)
        return {f.name: f.max_version_level for f in response.finalized_features}
    finally:
        raw.close()


@pytest.mark.parametrize("tried", [(1,), pytest.param((1, 2, 3), marks=pytest.mark.long)], ids=["one", "all"])
def test_a_cluster_is_upgraded_and_downgraded_and_upgraded_under_load_and_its_level_is_raised_last(
    devcluster: MixedCluster, tried: tuple[int, ...]
) -> None:
    """`tried`: the brokers that are upgraded and downgraded before all are upgraded."""
    assert {devcluster.runs(p) for p in devcluster.processes if p != "zookeeper"} == {"old"}
    admin = AdminClient({"bootstrap.servers": devcluster.bootstrap})
    admin.create_topics([NewTopic("verified", PARTITIONS, 3, config={"min.insync.replicas": str(MIN_INSYNC)})])[
        "verified"
    ].result(30)
    wait_for(lambda: all_in_sync(devcluster), "full ISR")
    verifier, watch = Verifier(devcluster, "verified", 2_000), MetadataLogWatch(devcluster)
    try:
        upgrade_and_downgrade(devcluster, verifier, watch, tried)
    finally:
        watch.end()
        verifier.stop()
    verifier.finish()


def upgrade_and_downgrade(
    devcluster: MixedCluster, verifier: Verifier, watch: MetadataLogWatch, tried: tuple[int, ...]
) -> None:
    verifier.progress("before the upgrade", 500)

    upgrade_in_order(devcluster, "new", verifier, tried)
    if len(tried) < len(devcluster.ports):
        rejected = raise_level(devcluster)
        assert rejected.returncode != 0 and "brokers [2, 3]" in rejected.stderr, rejected.stderr
        assert devcluster.read_image().metadata_version == 1
    upgrade_in_order(devcluster, "old", verifier, tried)  # a downgrade, before the level is raised

    upgrade_in_order(devcluster, "new", verifier)
    done = raise_level(devcluster)
    assert done.returncode == 0 and f"level {LEVEL_MAX}" in done.stdout, done.stderr
    for broker_id in devcluster.ports:
        wait_for(
            lambda i=broker_id: finalised_features(devcluster, i)[FEATURE] == LEVEL_MAX,
            f"the level at broker {broker_id}",
        )  # type: ignore[misc]
    verifier.progress("at the new level", 500)
    watch.end()
    assert watch.looks > 20 and min(watch.least.values()) >= MIN_INSYNC, watch.least

    # After the level is raised, a downgrade is rejected: the old version stops itself without damage, and the new version replaces it.
    devcluster.tree = "old"
    assert devcluster.kill("broker-3", signal.SIGTERM) == 0
    said = len(devcluster.log("broker-3"))
    devcluster.start_broker(3)
    wait_for(
        lambda: "MetadataLevelRaised" in devcluster.log("broker-3")[said:], "the old version to log the unknown record"
    )
    assert not devcluster.listening(3)
    verifier.progress("beside an old broker that stays out", 500)
    devcluster.kill("broker-3")
    devcluster.tree = "new"
    devcluster.start_broker(3)
    wait_for(lambda: is_registered(devcluster, 3) and all_in_sync(devcluster), "broker 3 back with the new program")


def test_a_controller_that_cannot_read_the_log_releases_its_role(tmp_path: Path) -> None:
    """A controller that was not upgraded. (Here: this version, with a record of a later one.)"""
    with LocalCluster(tmp_path, 1) as cluster:
        assert cluster.controller is not None
        with connected(ZooKeeperStore(cluster.zookeeper_connect, 6000)) as zk:
            read = read_log(zk)
            later = {
                "seq": read.image.seq + 1,
                "epoch": read.image.controller_epoch,
                "batch": "later",
                "previous": read.image.chain_hash,
                "records": [{"type": "OfALaterProgram", "version": 1}],
            }
            head = zk.get(znodes.HEAD)
            assert head.stat is not None
            zk.in_pieces(
                [
                    Create(znodes.entry(later["seq"]), zlib.compress(json.dumps(later).encode())),
                    Set(znodes.HEAD, str(later["seq"]).encode(), head.stat.version),
                ]
            )
            wait_for(lambda: cluster.controller and cluster.controller.tailer.halted, "the controller to halt")
            wait_for(lambda: not zk.get(znodes.CONTROLLER).ok, "the controller node to be released")
            epoch = zk.get(znodes.CONTROLLER_EPOCH).data
            time.sleep(3)  # three polls of a candidate
            assert zk.get(znodes.CONTROLLER_EPOCH).data == epoch and not zk.get(znodes.CONTROLLER).ok
            wait_for(lambda: "OfALaterProgram" in cluster.log("broker-1"), "the broker to log the unknown record")
