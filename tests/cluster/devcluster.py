"""A whole local cluster for tests: `manage.py up`, and helpers that see it as an operator, a script and a client do."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from brokerd.config.kafka_client import ClientSettings
from controlplane.clients.supervisor import read_state
from tests import migrated_database
from tests.cluster.local import PATIENCE_SECONDS, ROOT, own_ports, wait_for


def free_base(count: int) -> int:
    """The first of `count` adjacent free ports, below the range from which the kernel assigns client ports."""
    for _ in range(200):
        base = random.SystemRandom().choice(own_ports(range(20_000, 32_000, 10)))
        try:
            for port in range(base, base + count):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise AssertionError("no free ports")


def manage(*arguments: str, seconds: float = 180, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | settings
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


class DevCluster:
    """The constructor starts the cluster; `up` starts it again after `down`. `arguments` are those of `up`, `settings` its environment.
    Three brokers unless `arguments` say otherwise, and no demo. `as_documented`: what the README's `make up` starts. A directory that exists gets a migrated
    database, unless `as_documented`. One that does not exist is created by `up`, with its database.
    """

    def __init__(self, folder: Path, *arguments: str, as_documented: bool = False, **settings: str) -> None:
        self.folder, self.settings, self._demo = folder, settings, as_documented
        self.base = free_base(6)
        self._second = ""
        if folder.is_dir() and not as_documented:
            migrated_database.put_into(folder)
        self.facts = self.up(*(() if as_documented or "--brokers" in arguments else ("--brokers", "3")), *arguments)

    def manage(self, *arguments: str) -> str:
        done = manage(*arguments, "--data-dir", str(self.folder), **self.settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self, *arguments: str) -> dict[str, str]:
        """Returns what `up --json` prints. That is all of its standard output."""
        demo = () if self._demo else ("--no-demo",)
        facts: dict[str, str] = json.loads(
            self.manage("up", "--detach", "--json", *demo, "--port-base", str(self.base), *arguments)
        )
        self.bootstrap, self.console, self.token = facts["bootstrap"], facts["console"], facts["token"]
        self.user, self.password = facts["user"], facts["password"]
        secured = facts.get("client_config")
        self.client: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            **(ClientSettings.load(Path(secured)).librdkafka() if secured else {}),
        }
        self.admin = AdminClient({**self.client, "log_level": 0})
        return facts

    def down(self) -> None:
        self.manage("down")

    def end(self) -> None:
        """Kill all processes. A test that does not test the shutdown needs three seconds of CPU less with it than with `down`."""
        recorded = read_state(self.folder)["supervisor"]
        if recorded is None or recorded["pid"] is None:
            self.down()  # ends the processes of a dead supervisor
            return
        supervisor = psutil.Process(recorded["pid"])
        supervisor.suspend()  # it starts no process again
        processes = [*supervisor.children(recursive=True), supervisor]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _, alive = psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)
        assert not alive, alive

    def pids(self) -> dict[str, int]:
        """{name: pid} of the running processes."""
        done = json.loads(self.manage("status", "--json"))["processes"]
        return {p["name"]: p["pid"] for p in done if p["state"] == "running"}

    def supervisor(self) -> int:
        return int(json.loads((self.folder / "processes.json").read_text())["supervisor"]["pid"])

    def wait_for_the_console(self) -> None:
        """An earlier test may have killed the console."""

        def listens() -> bool:
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.base)) == 0

        wait_for(listens, "the console to listen", 30)

    def pid(self, name: str) -> int:
        return int(wait_for(lambda: self.pids().get(name), f"{name} to run"))

    def kill(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGKILL)

    def call(self, method: str, path: str, body: object = None, token: str = "") -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{self.console}api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Token {token or self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                data = response.read()
                return response.status, json.loads(data) if data else None
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read() or b"null")

    def get(self, path: str) -> Any:
        status, response = self.call("GET", path)
        assert status == 200, (path, response)
        return response

    def post(self, path: str, body: object) -> Any:
        status, response = self.call("POST", path, body)
        assert status < 300, (path, response)
        return response

    def propose_and_approve(self, kind: str, target: str, arguments: object) -> Any:
        """One operator makes the proposal, another approves it. Returns the proposal after the approval."""
        proposal = self.post("proposals", {"kind": kind, "target": target, "arguments": arguments, "comment": "test"})
        if not self._second:
            made = manage(
                "ensure_operator", "--username", "second", "--password", "of-the-tests", WEIR_DATA_DIR=str(self.folder)
            )
            assert made.returncode == 0, made.stdout + made.stderr
            self._second = made.stdout.split()[-1]
        status, response = self.call("POST", f"proposals/{proposal['id']}/approve", {}, token=self._second)
        assert status < 300 and response["state"] == "done", response
        return response

    def topic(self, name: str, **more: Any) -> Any:
        self.post("topics", {"name": name, **more})
        return wait_for(lambda: self.active_topic(name), f"topic {name} to exist")

    def active_topic(self, name: str) -> Any:
        status, response = self.call("GET", f"topics/{name}")
        return response if status == 200 and response["row"]["state"] == "active" else None

    def partitions(self, name: str) -> list[dict[str, Any]]:
        return list(self.get(f"topics/{name}/partitions")["rows"])

    def fill(self, name: str, records: int = 2000) -> None:
        producer = Producer({**self.client, "acks": "all", "enable.idempotence": True})
        errors: list[object] = []
        for i in range(records):
            producer.produce(
                name, key=str(i), value=b"x" * 500, on_delivery=lambda e, m: errors.append(e) if e else None
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not errors

    def numbers_of(self, name: str) -> list[int]:
        """The number in each record of the topic."""
        reader = Consumer({**self.client, "group.id": "truth", "enable.auto.commit": False})
        try:
            parts = [TopicPartition(name, p, 0) for p in reader.list_topics(name, timeout=20).topics[name].partitions]
            total = sum(reader.get_watermark_offsets(p, timeout=20)[1] for p in parts)
            reader.assign(parts)
            out: list[int] = []
            deadline = time.monotonic() + 60
            while len(out) < total:
                assert time.monotonic() < deadline, f"{len(out)} of {total} records"
                out += [int(m.value()) for m in reader.consume(5000, 1) if not m.error()]
            return out
        finally:
            reader.close()

    def leaders(self, name: str) -> dict[int, int]:
        try:
            # List all topics: librdkafka requests a topic that was requested by name again at each reconnect, which creates it again after its deletion.
            topic = self.admin.list_topics(timeout=5).topics[name]
        except Exception:
            return {}
        return {i: p.leader for i, p in topic.partitions.items()}
