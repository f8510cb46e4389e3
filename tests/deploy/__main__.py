"""`make deploy-rehearsal`: a cluster on three network namespaces, by the files of deploy/, under load: machines are cut off and return, all units restart.

Measured from outside: no acknowledged record is lost, duplicated or out of order; each failover and each return to full ISR, in seconds. Exits with 1
if a record is lost, a unit does not end cleanly, or a failover does not happen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.cluster.local import ROOT, wait_for
from tests.cluster.test_failover import PARTITIONS, Verifier
from tests.deploy.live import live_update_arrives
from tests.deploy.machines import RehearsedMachine, configure, install, missing_programs, mount_points, write_inventory
from tests.deploy.spark import UNIT as SPARK_UNIT
from tests.deploy.spark import SparkTakeover
from tests.deploy.upgrade import Upgrade, export_old_version, old_configure
from tests.faults.namespaces import Network, own_namespace, possible
from tests.pki import Authority

TOPIC = "rehearsal"
SERVER_NAME = "weir.example"
SIGNED_OUT = 4401
"""Close code of the websocket for a browser without a login (`console.sockets`)."""
RATE = 500
"""Records per second: the rehearsal shares two cores with twenty processes."""
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


def print_time(what: str, seconds: float) -> None:
    print(f"  {seconds:7.1f} s  {what}", flush=True)


class Rehearsal:
    """`bootstrap` is what the load addresses."""

    def __init__(self, machines: dict[str, RehearsedMachine], network: Network) -> None:
        self.machines, self.network = machines, network
        self.a, self.b, self.c = machines["a"], machines["b"], machines["c"]
        self.bootstrap = ",".join(f"{m.address}:9092" for m in machines.values())
        self.token = ""
        self.login = ("", "")
        """User name and password of an operator."""
        self.unclean: list[str] = []

    # -- what is seen from outside -------------------------------------------------------------------------------------
    def status(self, url: str, host: str = SERVER_NAME) -> int:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, headers={"Host": host}), timeout=6, context=UNVERIFIED
            ) as response:
                return int(response.status)
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return 0

    def broker_ready(self, machine: RehearsedMachine) -> bool:
        return self.status(f"http://{machine.address}:9404/readyz") == 200

    def web_ready(self, machine: RehearsedMachine) -> bool:
        return self.status(f"https://{machine.address}/readyz", "load-balancer") == 200

    def call(self, machine: RehearsedMachine, method: str, path: str, body: object = None) -> Any:
        """The response of the REST API through nginx of this machine; None if there is none."""
        headers = {"Host": SERVER_NAME, "Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"https://{machine.address}/api/v1/{path}", method=method, data=data, headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=UNVERIFIED) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as e:
            text = f"{method} {path}: {e.code} {e.read()[:300]!r}"
            if e.code < 500:
                raise AssertionError(text) from e
            print(f"            {text}", flush=True)
            return None
        except OSError as e:
            print(f"            {method} {path}: {e}", flush=True)
            return None

    def overview(self, machine: RehearsedMachine) -> dict[str, Any]:
        return self.call(machine, "GET", "overview") or {}

    def websocket_passes(self, machine: RehearsedMachine) -> bool:
        """nginx passes the upgrade and the origin: the console itself closes a socket without a login."""
        tcp = socket.create_connection((machine.address, 443), timeout=20)
        origin = Origin(f"https://{SERVER_NAME}")
        with connect(f"wss://{SERVER_NAME}/ws/live", sock=tcp, ssl=UNVERIFIED, origin=origin, open_timeout=20) as live:
            try:
                live.recv(timeout=20)
            except ConnectionClosed as e:
                return e.rcvd is not None and e.rcvd.code == SIGNED_OUT
        return False

    def leaders(self, machine: RehearsedMachine) -> dict[int, int]:
        """The leader of each partition, as the broker of this machine says."""
        admin = AdminClient({"bootstrap.servers": f"{machine.address}:9092", "log_level": 0, "socket.timeout.ms": 3000})
        try:
            topic = admin.list_topics(timeout=5).topics.get(TOPIC)
        except KafkaException:
            return {}
        return {i: p.leader for i, p in topic.partitions.items()} if topic is not None else {}

    def minimum_set(self) -> bool:
        """Whether min.insync.replicas is a cluster-wide dynamic config."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})
        broker = ConfigResource(ConfigResource.Type.BROKER, "1")
        try:
            entry = admin.describe_configs([broker])[broker].result(20)["min.insync.replicas"]
        except KafkaException:
            return False
        return bool(entry.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)

    def all_in_sync(self) -> bool:
        """Every broker says that it is ready, and each of them shows the full ISR of each partition of every topic."""
        for machine in self.machines.values():
            if not self.broker_ready(machine):
                return False
            admin = AdminClient(
                {"bootstrap.servers": f"{machine.address}:9092", "log_level": 0, "socket.timeout.ms": 3000}
            )
            try:
                topics = admin.list_topics(timeout=5).topics
            except KafkaException:
                return False
            if not all(len(p.isrs) == len(p.replicas) for t in topics.values() for p in t.partitions.values()):
                return False
        return True

    def ensemble_complete(self) -> bool:
        """Every ZooKeeper server has a mode."""
        for machine in self.machines.values():
            try:
                with socket.create_connection((machine.address, 2181), timeout=3) as s:
                    s.sendall(b"srvr")
                    if b"Mode:" not in s.makefile("rb").read():
                        return False
            except OSError:
                return False
        return True

    # -- steps ---------------------------------------------------------------------------------------------------------
    def wait_and_print(self, what: str, condition: Callable[[], Any], seconds: float = 180) -> None:
        began = time.monotonic()
        wait_for(condition, what, seconds)
        print_time(what, time.monotonic() - began)

    def start(self, password: str, authority: Authority) -> None:
        print("start", flush=True)
        began = time.monotonic()
        self.a.start_redis()
        self.a.start_postgresql(password, authority)
        for machine in self.machines.values():
            machine.units["weir-zookeeper.service"].start()
        (self.b.root / "var/lib/weir/control").mkdir(parents=True, exist_ok=True)
        self.b.run("/opt/weir/current/bin/weir", "migrate", "-v", "0")
        for machine in self.machines.values():
            for name, unit in machine.units.items():
                if name != "weir-zookeeper.service":
                    unit.start()
        for machine in (self.b, self.c):
            machine.start_nginx(authority)
        self.login = ("ann", secrets.token_urlsafe(20))
        made = self.b.run(
            "/opt/weir/current/bin/weir",
            "ensure_operator",
            "--username",
            self.login[0],
            WEIR_PASSWORD=self.login[1],
        )
        self.token = made.split()[-1]
        self.wait_and_print("brokers ready", self.all_in_sync)
        self.wait_and_print("web processes ready", lambda: self.web_ready(self.b) and self.web_ready(self.c))
        print_time("from the first process to a ready cluster", time.monotonic() - began)
        assert self.websocket_passes(self.b) and self.websocket_passes(self.c), "nginx does not pass the websocket"
        self.wait_and_print("three brokers in the console", lambda: self.overview(self.c).get("brokers_alive") == 3)
        self.live_updates()
        changed = {"configs": {"min.insync.replicas": "2"}, "cluster_wide": True, "comment": "rehearsal"}
        self.wait_and_print("an active controller", lambda: self.overview(self.b).get("controller_id"))
        # A request that timed out may have been applied, and the same value again is rejected.
        wait_for(
            lambda: self.minimum_set() or self.call(self.b, "PATCH", "brokers/1/configs", changed) is not None,
            "the cluster-wide config",
        )
        topic = {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3, "comment": "rehearsal"}
        assert self.call(self.c, "POST", "topics", topic) is not None
        self.wait_and_print(
            "topic with leaders", lambda: len([x for x in self.leaders(self.a).values() if x > 0]) == PARTITIONS
        )

    def cut_off(self, lost: RehearsedMachine, other: RehearsedMachine, verifier: Verifier) -> None:
        """The machine with the active controller loses its link. Everything continues on the others."""
        print(f"machine {lost.name}: link down", flush=True)
        self.network.plug(lost.number, connected=False)
        self.wait_and_print(
            "leaders moved",
            lambda: (x := self.leaders(self.a)) and lost.number not in x.values() and min(x.values()) > 0,
        )
        before = len(verifier.acked)
        self.wait_and_print("next 500 acknowledgements", lambda: len(verifier.acked) > before + 500)
        self.wait_and_print("web of the other machine ready", lambda: self.web_ready(other))
        self.wait_and_print(
            "another controller active", lambda: self.overview(other).get("controller_id") == other.number
        )
        self.wait_and_print(
            "another monitor active (metrics younger than 5 s)",
            lambda: (self.overview(other).get("sample_age_s") or 99) < 5,
        )
        name = f"made-without-{lost.name}"
        made = self.call(
            other, "POST", "topics", {"name": name, "partitions": 1, "replication_factor": 2, "comment": "rehearsal"}
        )
        assert made is not None, "no topic can be created"
        self.wait_and_print("a new topic exists", lambda: self.topic_exists(other, name))

    def reconnect(self, machine: RehearsedMachine) -> None:
        print(f"machine {machine.name}: link up", flush=True)
        self.network.plug(machine.number, connected=True)
        self.wait_and_print("all brokers ready, full ISR", self.all_in_sync)
        if machine.unit("weir-web"):
            self.wait_and_print("its web process ready", lambda: self.web_ready(machine))

    def lose_database(self, verifier: Verifier) -> None:
        print("machine a: link down (PostgreSQL, Redis, a broker, a ZooKeeper server)", flush=True)
        self.network.plug(self.a.number, connected=False)
        self.wait_and_print(
            "leaders moved", lambda: (x := self.leaders(self.c)) and 1 not in x.values() and min(x.values()) > 0
        )
        before = len(verifier.acked)
        self.wait_and_print("next 500 acknowledgements", lambda: len(verifier.acked) > before + 500)
        self.wait_and_print("web processes not ready", lambda: self.status(f"https://{self.b.address}/readyz") == 503)
        assert self.status(f"https://{self.b.address}/healthz") == 200
        self.reconnect(self.a)
        self.wait_and_print("web processes ready again", lambda: self.web_ready(self.b) and self.web_ready(self.c))
        self.wait_and_print("metrics younger than 5 s", lambda: (self.overview(self.b).get("sample_age_s") or 99) < 5)

    def redis_hangs(self) -> None:
        """Redis is stopped without closing a connection: pages and changes work, without live updates."""
        print("machine a: Redis does not respond (SIGSTOP)", flush=True)
        redis = self.a.servers["redis"]
        redis.send_signal(signal.SIGSTOP)
        try:
            self.wait_and_print("a page without Redis", lambda: self.overview(self.b).get("brokers_alive") == 3)
            name = "made-without-redis"
            body: dict[str, Any] = {"name": name, "assignment": {"0": [1, 2]}, "comment": "rehearsal"}
            self.wait_and_print(
                "a new topic without Redis", lambda: self.call(self.b, "POST", "topics", body) is not None
            )
            self.wait_and_print("the topic exists", lambda: self.topic_exists(self.b, name))
            scope = {"kind": "partitions", "partitions": [{"topic": name, "partition": 0, "replicas": [3, 2]}]}
            body = {"scope": scope, "start": True, "comment": "rehearsal"}
            began = time.monotonic()
            move = self.call(self.b, "POST", "moves", body)
            assert move is not None, "no move can be started"
            print_time("start of a move without Redis (the request wakes the worker)", time.monotonic() - began)
        finally:
            redis.send_signal(signal.SIGCONT)
        self.wait_and_print(
            "the worker has ended the move",
            lambda: (self.call(self.b, "GET", f"moves/{move['id']}") or {}).get("finished_at"),
        )
        self.wait_and_print("metrics younger than 5 s", lambda: (self.overview(self.b).get("sample_age_s") or 99) < 5)
        self.live_updates()

    def live_updates(self) -> None:
        """One monitor is active on one machine: its updates reach the pages of both web processes through Redis."""

        def is_updated(machine: RehearsedMachine) -> bool:
            return live_update_arrives(machine.address, SERVER_NAME, self.login, self.create_topic)

        for machine in (self.b, self.c):
            self.wait_and_print(f"a live update on machine {machine.name}", partial(is_updated, machine))

    def create_topic(self) -> None:
        body = {"name": f"live-{time.time_ns()}", "assignment": {"0": [1, 2]}, "comment": "rehearsal"}
        self.call(self.b, "POST", "topics", body)

    def topic_exists(self, machine: RehearsedMachine, name: str) -> bool:
        row = (self.call(machine, "GET", f"topics/{name}") or {}).get("row", {})
        return bool(row.get("state") == "active")

    def restart_all(self) -> None:
        """A rolling restart as in the guide: each unit by its stop signal; after a broker, wait until it is ready."""
        for machine in self.machines.values():
            print(f"machine {machine.name}: restart of its units", flush=True)
            for name, unit in machine.units.items():
                code, seconds = unit.stop()
                print_time(f"stop of {name}, exit code {code}", seconds)
                if not unit.ended_cleanly(code):
                    self.unclean.append(f"{machine.name} {name}: {code}")
                unit.start()
                if name == "weir-zookeeper.service":
                    self.wait_and_print("three ZooKeeper servers with a mode", self.ensemble_complete)
                    self.wait_and_print("all brokers ready, full ISR", self.all_in_sync)
                elif name == "weir-broker.service":
                    self.wait_and_print("all brokers ready, full ISR", self.all_in_sync)
            if machine.unit("weir-web"):
                self.wait_and_print("its web process ready", lambda m=machine: self.web_ready(m))  # type: ignore[misc]

    def active_controller(self) -> RehearsedMachine:
        number = wait_for(lambda: self.overview(self.b).get("controller_id"), "an active controller")
        return next(m for m in self.machines.values() if m.number == number)

    def take_over_spark(self, lake: Path, password: str) -> int:
        """The exit code."""
        plug = self.network.plug
        takeover = SparkTakeover(self.machines, lake, password, lambda *words: self.call_any(*words), print_time, plug)
        wrong = takeover.run()
        for text in wrong:
            print(f"wrong: {text}")
        print("FAILED" if wrong else "PASSED")
        return 1 if wrong else 0

    def call_any(self, method: str, path: str, body: object = None) -> Any:
        """The response through the first machine whose nginx answers."""
        for machine in (self.b, self.c):
            if self.web_ready(machine):
                return self.call(machine, method, path, body)
        return None

    def upgrade(self, out: Path) -> int:
        """`out`: the files of the newer version. The exit code."""
        verifier = Verifier(self, TOPIC, RATE)  # type: ignore[arg-type]
        verifier.progress("before the upgrade")
        Upgrade(self, out).run()
        verifier.progress("after the upgrade")
        return self.count_problems(verifier)

    def run(self) -> int:
        """The exit code."""
        verifier = Verifier(self, TOPIC, RATE)  # type: ignore[arg-type]
        verifier.progress("before the first fault")
        lost = self.active_controller()
        other = self.c if lost is self.b else self.b
        self.cut_off(lost, other, verifier)
        self.reconnect(lost)
        self.lose_database(verifier)
        self.redis_hangs()
        self.restart_all()
        verifier.progress("after the last restart")
        return self.count_problems(verifier)

    def count_problems(self, verifier: Verifier) -> int:
        count = verifier.count()
        print(f"records: {count._asdict()}", flush=True)
        for text in self.unclean:
            print(f"not clean: {text}")
        failed = count.lost or count.doubled or count.disordered or count.failed or count.undelivered or self.unclean
        print("FAILED" if failed else "PASSED")
        return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy")
    parser.add_argument("--spark", action="store_true", help="only the takeover of Spark jobs by a second worker")
    parser.add_argument("--upgrade", action="store_true", help="only a rolling upgrade from an older version")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs")
    options = parser.parse_args()
    if problem := possible() or ", ".join(missing_programs()):
        print(f"the rehearsal cannot run: {problem}", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="weir-rehearsal-"))
    folder.chmod(0o755)  # PostgreSQL runs as its own user
    print(f"logs: {folder / 'logs'}", flush=True)
    passed = False
    try:
        (folder / "logs").mkdir()
        password = secrets.token_urlsafe(20)
        lake = folder / "lake" if options.spark else None
        authority, inventory = Authority(folder / "authority"), write_inventory(folder, password, lake)
        opt = install(folder, export_old_version(folder) if options.upgrade else ROOT)
        out = old_configure(opt, inventory) if options.upgrade else configure(inventory, folder / "out")
        if options.upgrade:
            install(folder)
        with own_namespace(), mount_points(), contextlib.ExitStack() as ends:
            network = Network((1, 2, 3))
            ends.callback(network.close)
            machines = {
                name: RehearsedMachine(
                    name,
                    number,
                    out / name,
                    opt,
                    network,
                    folder / "logs",
                    frozenset({SPARK_UNIT}) if lake else frozenset(),
                )
                for number, name in enumerate(("a", "b", "c"), 1)
            }
            for machine in machines.values():
                ends.callback(machine.end)
            rehearsal = Rehearsal(machines, network)
            rehearsal.start(password, authority)
            if options.upgrade:
                code = rehearsal.upgrade(configure(inventory, folder / "new"))
            else:
                code = rehearsal.run() if lake is None else rehearsal.take_over_spark(lake, password)
            passed = code == 0
            return code
    finally:
        if passed and not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
