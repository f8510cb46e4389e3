"""A private network: each broker in a network namespace, on a bridge that can drop packets by sender and receiver.

The loss is handled by the kernel's own TCP: no endpoint is notified, connections stay open, packets are sent again. The bridge is in a namespace too,
together with the test, ZooKeeper, the controller and clients ("home"): nothing is visible outside. Requires root, `ip` and `nft`. Does not delay or
duplicate packets (netem is in few kernels; the simulation does that).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.devcluster import zookeeper
from tests.cluster.local import LocalCluster, wait_for

CLONE_NEWNET = 0x40000000
SUBNET = "10.77.0"
HOME = 0
"""The namespace of ZooKeeper, the controller and clients. Brokers are named by their ids."""
HOME_ADDRESS = f"{SUBNET}.254"
_libc = ctypes.CDLL(None, use_errno=True)


def possible() -> str:
    """The reason why namespaces cannot be used; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    missing = [x for x in ("ip", "nft") if shutil.which(x) is None]
    return f"not installed: {', '.join(missing)} (apt install iproute2 nftables)" if missing else ""


def _run(*words: str, stdin: str | None = None) -> None:
    subprocess.run(words, check=True, input=stdin, text=True, capture_output=True)


@contextlib.contextmanager
def own_namespace() -> Iterator[None]:
    """A new network namespace for this thread and the threads that it starts."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if _libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare of the network")
        try:
            yield
        finally:
            _libc.setns(before, CLONE_NEWNET)
    finally:
        os.close(before)


@contextlib.contextmanager
def network_of(pid: int) -> Iterator[None]:
    """The network namespace of this process, for this thread and the threads that it starts."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if _libc.setns(other, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the network of process {pid}")
        try:
            yield
        finally:
            _libc.setns(before, CLONE_NEWNET)
    finally:
        os.close(other)
        os.close(before)


class Network:
    """A bridge with a port for each broker. Initially all packets pass."""

    def __init__(self, brokers: Sequence[int]) -> None:
        self._names = {i: f"weir-{os.getpid()}-{i}" for i in brokers}
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "home", "type", "bridge")
        _run("ip", "address", "add", f"{HOME_ADDRESS}/24", "dev", "home")
        _run("ip", "link", "set", "home", "up")
        for i, name in self._names.items():
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", f"b{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", f"b{i}", "master", "home", "up")
            _run("ip", "-n", name, "address", "add", f"{SUBNET}.{i}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")

    def command_prefix(self, broker_id: int) -> list[str]:
        """The command prefix that runs a command in that broker's namespace."""
        return ["ip", "netns", "exec", self._names[broker_id]]

    def drop(self, *ways: tuple[int, int], percent: int = 100) -> None:
        """Replaces the rules: of packets from the first to the second end of each of `ways`, this percentage is dropped; no others."""
        rules: dict[str, list[str]] = {"forward": [], "input": [], "output": []}
        chance = "" if percent == 100 else f"numgen random mod 100 < {percent} "
        for source, target in ways:
            hook = "output" if source == HOME else "input" if target == HOME else "forward"
            match = (f"iifname b{source} " if source != HOME else "") + (
                f"oifname b{target} " if target != HOME else ""
            )
            rules[hook].append(f"{match}ether type ip {chance}counter drop")
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0;\n" + "".join(f"{r}\n" for r in lines) + "}\n"
            for hook, lines in rules.items()
        )
        _run("nft", "-f", "-", stdin=f"flush ruleset\ntable bridge weir {{\n{chains}}}\n")

    def isolate(self, broker_id: int) -> None:
        everybody = [HOME, *(i for i in self._names if i != broker_id)]
        self.drop(*((broker_id, i) for i in everybody), *((i, broker_id) for i in everybody))

    def plug(self, broker_id: int, *, connected: bool) -> None:
        """The link of that namespace goes up or down, as when a cable is pulled."""
        _run("ip", "link", "set", f"b{broker_id}", "up" if connected else "down")

    def lose_packets(self, percent: int) -> None:
        everybody = [HOME, *self._names]
        self.drop(*((a, b) for a in everybody for b in everybody if a != b), percent=percent)

    def restore(self) -> None:
        _run("nft", "flush", "ruleset")

    def dropped_packets(self) -> int:
        """Packets dropped since the last change of the rules."""
        out = subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout.split()
        return sum(int(out[i + 1]) for i, word in enumerate(out) if word == "packets")

    def close(self) -> None:
        for name in self._names.values():
            _run("ip", "netns", "del", name)


class NetworkedCluster(LocalCluster):
    """Each broker in its own network namespace."""

    def __init__(self, folder: Path, network: Network, settings: dict[str, str]) -> None:
        super().__init__(folder, 3, settings)
        self.network = network

    def address(self, broker_id: int) -> str:
        return f"{SUBNET}.{broker_id}"

    @property
    def zookeeper_connect(self) -> str:
        return f"{HOME_ADDRESS}:{self.zookeeper_port}"

    def start_zookeeper(self) -> None:
        folder = self.folder / "zookeeper"
        folder.mkdir(parents=True, exist_ok=True)
        command = zookeeper.prepare(folder, self.zookeeper_port)
        settings = folder / "zoo.cfg"
        settings.write_text(settings.read_text().replace("clientPortAddress=127.0.0.1\n", ""))
        self._spawn("zookeeper", command)
        wait_for(lambda: zookeeper.ready(self.zookeeper_port), "ZooKeeper")

    def _spawn(self, name: str, command: list[str]) -> None:
        kind, _, number = name.partition("-")
        super()._spawn(name, [*self.network.command_prefix(int(number)), *command] if kind == "broker" else command)


@contextlib.contextmanager
def networked_cluster(folder: Path, **settings: str) -> Iterator[NetworkedCluster]:
    with own_namespace(), contextlib.ExitStack() as ends:
        network = Network((1, 2, 3))
        ends.callback(network.close)
        yield ends.enter_context(NetworkedCluster(folder, network, settings))
