"""`make zookeeper-restarts`: a broker is killed while a ZooKeeper server, or the active controller, is killed, restarted or frozen.

Three ZooKeeper servers, three brokers and two controllers run with the session time-outs and the settings of a production cluster
(`deploy/zookeeper/zoo.cfg`). Measured from outside: seconds until each living broker shows a living leader for every partition, and, if another controller
is elected meanwhile, the part of it after that election. A round that takes longer than `--slow` seconds is printed with the log lines of that time. A producer with `acks=all` and a consumer group run all the time. Exits with 1 if an
acknowledged record is lost, duplicated, out of order or not delivered. Does not cut links (`make deploy-rehearsal`).
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.cluster.protection import OPEN
from controlplane.clients.zookeeper_servers import server_states
from controlplane.devcluster import zookeeper
from controlplane.domain.zookeeper_server import ServerMode
from tests.cluster.controller_processes import CONTROLLERS, ELECTED
from tests.cluster.local import ROOT, LocalCluster, free_port, wait_for
from tests.cluster.test_failover import Count, Verifier
from tests.faults.scene import freeze, thaw

PARTITIONS = 30
RATE = 200
"""Records per second."""
TOPIC = "elected"
SESSION_MS = 18_000
RESTART_SECONDS = 1.0
"""As RestartSec of the units."""
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Fault:
    """`server`: the ZooKeeper server that gets the signal: leader, follower, or the one to which the active controller is connected."""

    name: str
    server: str = ""
    server_signal: signal.Signals = signal.SIGKILL
    controller_signal: signal.Signals | None = None
    session_file_lost: bool = False
    """The next process of a killed controller does not know its session, which then expires: as before decision 089."""


FAULTS = (
    Fault("a broker alone"),
    Fault("ZooKeeper's leader killed", "leader"),
    Fault("ZooKeeper's leader restarted", "leader", signal.SIGTERM),
    Fault("a ZooKeeper follower killed", "follower"),
    Fault("the controller's ZooKeeper server killed", "connected"),
    Fault("the controller's ZooKeeper server frozen", "connected", signal.SIGSTOP),
    Fault("ZooKeeper's leader frozen", "leader", signal.SIGSTOP),
    Fault("the active controller stopped", controller_signal=signal.SIGTERM),
    Fault("the active controller killed", controller_signal=signal.SIGKILL),
    Fault("the active controller killed, its session file lost", "", signal.SIGKILL, signal.SIGKILL, True),
    Fault("the active controller frozen", controller_signal=signal.SIGSTOP),
    Fault("ZooKeeper's leader killed, the active controller stopped", "leader", controller_signal=signal.SIGTERM),
    Fault("the controller's server killed, it is stopped", "connected", controller_signal=signal.SIGTERM),
)


class Production(LocalCluster):
    """Every process has the time-outs of production. Controllers are processes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 3, {"zookeeper.session.timeout.ms": str(SESSION_MS)})
        self.server_ports = {i: free_port() for i in (1, 2, 3)}
        self._quorum = {i: (free_port(), free_port()) for i in self.server_ports}

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(f"127.0.0.1:{p}" for p in self.server_ports.values())

    def _start(self) -> None:
        for i in self.server_ports:
            self.start_server(i)
        wait_for(self.ensemble_complete, "three ZooKeeper servers")
        for name in CONTROLLERS:
            self.start_candidate(name)
        for i in self.ports:
            self.start_broker(i)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def is_created() -> bool:
            try:
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})])[
                    TOPIC
                ].result(30)
            except KafkaException:
                return TOPIC in admin.list_topics(timeout=10).topics
            return True

        wait_for(lambda: all(self.listening(i) for i in self.ports), "brokers that listen")
        wait_for(is_created, "the topic")
        self.wait_until_whole()

    def start_server(self, i: int) -> None:
        folder = self.folder / f"zookeeper-{i}"
        command = zookeeper.prepare(folder, self.server_ports[i])
        (folder / "data" / "myid").write_text(str(i))
        text = (ROOT / "deploy/zookeeper/zoo.cfg").read_text()
        text = re.sub("(?m)^dataDir=.*", f"dataDir={folder / 'data'}", text)
        text = re.sub("(?m)^clientPort=.*", f"clientPort={self.server_ports[i]}\nclientPortAddress=127.0.0.1", text)
        text += "".join(f"server.{n}=127.0.0.1:{peer}:{vote}\n" for n, (peer, vote) in self._quorum.items())
        (folder / "zoo.cfg").write_text(text)
        self._spawn(f"zookeeper-{i}", command)

    def start_candidate(self, name: str) -> None:
        words = [sys.executable, "-m", "tests.faults.controller", name, self.zookeeper_connect, "--startup-topics", "3"]
        words += ["--session-timeout-ms", str(SESSION_MS), "--session-file", str(self.session_file(name))]
        self._spawn(name, words)

    def session_file(self, name: str) -> Path:
        return self.folder / f"{name}.session"

    def modes(self) -> dict[int, ServerMode]:
        """The modes of the servers that serve."""
        responses = server_states([("127.0.0.1", p) for p in self.server_ports.values()], OPEN)
        return {i: a.status.mode for i, a in zip(self.server_ports, responses, strict=True) if a.status is not None}

    def ensemble_complete(self) -> bool:
        return len(self.modes()) == len(self.server_ports)

    def active_controller(self) -> tuple[int, str]:
        """(controller epoch, name) of the controller that was elected last."""
        return max((int(m[2]), m[1]) for name in CONTROLLERS for m in ELECTED.finditer(self.log(name)))

    def server_of(self, name: str) -> int:
        """The ZooKeeper server to which this process is connected."""
        by_port = {p: i for i, p in self.server_ports.items()}

        def connected_port() -> int:
            found = psutil.Process(self.processes[name].pid).net_connections("tcp")
            return next(
                (
                    by_port[c.raddr.port]
                    for c in found
                    if c.raddr and c.status == "ESTABLISHED" and c.raddr.port in by_port
                ),
                0,
            )

        return int(wait_for(connected_port, f"{name} to be connected"))

    def leaders(self, broker_id: int) -> tuple[dict[int, int], bool]:
        """The leader of each partition as this broker says, and whether it shows every ISR complete. Empty while it does not respond."""
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports[broker_id]}", "log_level": 0})
        try:
            topic = admin.list_topics(TOPIC, timeout=2).topics[TOPIC]
        except KafkaException:
            return {}, False
        return (
            {i: p.leader for i, p in topic.partitions.items()},
            all(len(p.isrs) == 3 for p in topic.partitions.values()),
        )

    def wait_until_whole(self) -> None:
        def is_whole() -> bool:
            seen = [self.leaders(i) for i in self.ports]
            return all(len(x) == PARTITIONS and full and set(x.values()) == set(self.ports) for x, full in seen)

        wait_for(is_whole, "full ISRs and preferred leaders", 180)
        wait_for(lambda: all(self.probes_all(name) for name in CONTROLLERS), "probes of both controllers", 60)

    def probes_all(self, name: str) -> bool:
        """Whether this controller is connected to every broker, as it is some seconds after the start of either."""
        found = psutil.Process(self.processes[name].pid).net_connections("tcp")
        connected = {c.raddr.port for c in found if c.raddr and c.status == "ESTABLISHED"}
        return connected >= set(self.ports.values())


class LeadersWatch(threading.Thread):
    """When this broker first showed a living leader for every partition, as `time.monotonic()`; 0: not yet."""

    def __init__(self, cluster: Production, broker_id: int, dead: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.broker_id, self.dead = cluster, broker_id, dead
        self.at = 0.0

    def run(self) -> None:
        while not self.at:
            found, _ = self.cluster.leaders(self.broker_id)
            if len(found) == PARTITIONS and self.dead not in found.values() and min(found.values()) > 0:
                self.at = time.monotonic()
            time.sleep(LOOK_SECONDS)


class ControllerElectionWatch(threading.Thread):
    """When the controllers logged a later election than `epoch`, as `time.monotonic()`; 0: not yet."""

    def __init__(self, cluster: Production, epoch: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.epoch = cluster, epoch
        self.at, self.over = 0.0, False

    def run(self) -> None:
        while not self.at and not self.over:
            if self.cluster.active_controller()[0] > self.epoch:
                self.at = time.monotonic()
            time.sleep(LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Round:
    seconds: float
    """Until all partitions have leaders again."""
    after_election: float | None
    """The part of it after the election of another controller. None: there was no election."""


def run_round(cluster: Production, fault: Fault, dice: random.Random, slow: float) -> Round:
    modes, (epoch, active) = cluster.modes(), cluster.active_controller()
    servers = {"leader": [i for i, m in modes.items() if m is ServerMode.LEADER]}
    servers["follower"] = [i for i in modes if i not in servers["leader"]]
    servers["connected"] = [cluster.server_of(active)]
    server = dice.choice(servers[fault.server]) if fault.server else 0
    dead = dice.choice(sorted(cluster.ports))
    sizes = {name: len(cluster.log(name)) for name in cluster.processes}
    began, wall = time.monotonic(), datetime.now(UTC).astimezone()
    frozen = fault.server_signal is signal.SIGSTOP
    ended = []
    if server and frozen:
        freeze(cluster, f"zookeeper-{server}")
    elif server:
        cluster.processes[f"zookeeper-{server}"].send_signal(fault.server_signal)
        ended.append(f"zookeeper-{server}")
    election = ControllerElectionWatch(cluster, epoch)
    election.start()
    if fault.controller_signal is signal.SIGSTOP:
        freeze(cluster, active)
    elif fault.controller_signal is not None:
        time.sleep(dice.choice((0, 0, 0.05, 0.3)))
        cluster.processes[active].send_signal(fault.controller_signal)
        ended.append(active)
        if fault.session_file_lost:
            cluster.session_file(active).unlink()
    cluster.kill(f"broker-{dead}")
    looks = [LeadersWatch(cluster, i, dead) for i in cluster.ports if i != dead]
    for look in looks:
        look.start()
    restarts = threading.Thread(target=restart_processes, args=(cluster, ended), daemon=True)
    restarts.start()
    wait_for(lambda: all(look.at for look in looks), "leaders of all partitions", 180)
    ended_at = max(look.at for look in looks)
    seconds = ended_at - began
    election.over = True
    restarts.join(60)
    if seconds > slow:
        print(
            f"    from {wall:%H:%M:%S.%f}; {active} was active, at {servers['connected']}; broker {dead} killed, server {server}"
        )
        for name in sorted({*sizes, *cluster.processes}):
            for line in cluster.log(name)[sizes.get(name, 0) :].splitlines()[:40]:
                print(f"      {name:13} {line[:220]}")
    if server and frozen:
        thaw(cluster, f"zookeeper-{server}")
    if fault.controller_signal is signal.SIGSTOP:
        thaw(cluster, active)
    cluster.start_broker(dead)
    wait_for(cluster.ensemble_complete, "three ZooKeeper servers")
    cluster.wait_until_whole()
    return Round(seconds, max(0.0, ended_at - election.at) if election.at else None)


def metrics(values: list[float]) -> str:
    """Number of values, smallest, median, greatest."""
    if not values:
        return "  0                     "
    return f"{len(values):3} {min(values):6.2f} {statistics.median(values):6.2f} {max(values):6.2f}"


def restart_processes(cluster: Production, names: list[str]) -> None:
    """Each of these processes starts again RESTART_SECONDS after its end, as under systemd."""
    for name in names:
        cluster.processes[name].wait(60)
    time.sleep(RESTART_SECONDS)
    for name in names:
        if name in CONTROLLERS:
            cluster.start_candidate(name)
        else:
            cluster.start_server(int(name.removeprefix("zookeeper-")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of each fault")
    parser.add_argument("--minutes", type=float, default=600.0, help="no round begins after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=float, default=3.0, help="seconds from which a round is printed with its log")
    parser.add_argument("--faults", default="", help="only faults whose names contain one of these texts, with commas")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    chosen = [f for f in FAULTS if any(text in f.name for text in options.faults.split(","))]
    rounds: dict[str, list[Round]] = {f.name: [] for f in chosen}
    deadline = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="weir-elections-") as folder:
        cluster = Production(Path(folder))
        with cluster:
            verifier = Verifier(cluster, TOPIC, RATE)
            verifier.progress("before the first fault", RATE)
            for number, fault in ((n, f) for n in range(options.rounds) for f in chosen):
                if time.monotonic() < deadline:
                    done = run_round(cluster, fault, dice, options.slow)
                    rounds[fault.name].append(done)
                    after = "" if done.after_election is None else f", {done.after_election:.2f} s after the election"
                    print(f"  {number + 1:3} {done.seconds:6.2f} s  {fault.name}{after}", flush=True)
            count = verifier.count()
    print(
        "\nseconds until all partitions have leaders: rounds, shortest, median, longest; then after the election of another controller"
    )
    for name, found in rounds.items():
        after_elections = [r.after_election for r in found if r.after_election is not None]
        print(f"  {metrics([r.seconds for r in found])}  {metrics(after_elections)}  {name}")
    print(f"records: {count._asdict()}")
    return 1 if count != Count(count.acked, 0, 0, 0, 0, 0) else 0


if __name__ == "__main__":
    sys.exit(main())
