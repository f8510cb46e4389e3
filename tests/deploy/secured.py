"""`make secured-rehearsal`: the secured files of three machines on three loopback addresses, with a client that uses SCRAM over TLS.

ZooKeeper servers, brokers and controllers start with the files that `weir configure` writes for an inventory with `[security]`; only their paths are
changed. A user gets a password and ACLs over the listener of certificates, then produces and consumes over the listener of passwords while all
processes of a machine are killed. Exits with 1 if an acknowledged record is lost or duplicated, or if a client without a right or without TLS is served. Does not
start the console, nginx, PostgreSQL and Redis, and the database of the controllers is in memory.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokerd.config import zookeeper_client
from controlplane.clients.zookeeper_servers import server_states
from controlplane.devcluster.zookeeper import server_command
from tests.cluster.local import ROOT, wait_for
from weir.deployment import command
from weir.deployment.inventory import PLACEHOLDER, Inventory, Machine, parse
from weir.deployment.security import CLIENT_PORT, INTERNAL_PORT, MECHANISM, ZOOKEEPER_PORT

TOPIC, USER, PASSWORD = "secured", "alice", "in wonderland"
SUBNET = "127.77.0"
ZOOKEEPER_PASSWORD = "rehearsed-rehearsed"
RECORDS = 2_000


def inventory_text() -> str:
    """deploy/cluster.toml with loopback addresses and the table [security]."""
    text = (ROOT / "deploy" / "cluster.toml").read_text()
    text = text.replace(PLACEHOLDER, "rehearsal").replace("10.0.0", SUBNET)
    text = text.replace('"listeners" = "PLAINTEXT://{address}:9092"\n', "")
    return f'{text}\n[security]\nzookeeper_password = "{ZOOKEEPER_PASSWORD}"\ncertificates = "generated"\n'


class SecuredMachines:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cluster.toml").write_text(inventory_text())
        assert command.main([str(folder / "cluster.toml"), "--to", str(folder / "out")]) == 0
        self.inventory: Inventory = parse(tomllib.loads(inventory_text()))
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        for machine in self.inventory.machines:
            self._move(machine)

    def root(self, machine: Machine) -> Path:
        return self.folder / "out" / machine.name

    def _move(self, machine: Machine) -> None:
        root = self.root(machine)
        for path in (root / "etc/weir").iterdir():
            if path.is_file():
                text = path.read_text().replace("/etc/weir", f"{root}/etc/weir")
                path.write_text(text.replace("/var/lib/weir", f"{root}/var/lib/weir"))
        (root / "var/lib/weir/broker").mkdir(parents=True, exist_ok=True)

    def start(self, machine: Machine) -> None:
        etc = self.root(machine) / "etc/weir"
        data = self.root(machine) / "var/lib/weir/zookeeper"
        data.mkdir(parents=True, exist_ok=True)
        jaas = (f"-Djava.security.auth.login.config={etc / 'jaas.conf'}", "-Dzookeeper.fips-mode=false")
        self._spawn(machine, "zookeeper", server_command(etc / "zoo.cfg", *jaas, heap="-Xmx192m"))
        if machine.name != "a":
            words = [sys.executable, "-m", "tests.faults.controller", f"controller-{machine.id}", self.zookeeper]
            config = ["--zookeeper-config", str(etc / "zookeeper.properties"), "--session-timeout-ms", "6000"]
            config += ["--startup-topics", "3"]
            self._spawn(machine, "controller", [*words, *config])
        self._spawn(machine, "broker", [sys.executable, "-m", "brokerd", "--config", str(etc / "broker.properties")])

    def _spawn(self, machine: Machine, name: str, words: list[str]) -> None:
        with (self.folder / f"{machine.name}-{name}.log").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, cwd=ROOT)
        self.processes.setdefault(machine.name, []).append(process)

    @property
    def zookeeper(self) -> str:
        return ",".join(f"{m.address}:{ZOOKEEPER_PORT}" for m in self.inventory.machines)

    def kill(self, machine: Machine) -> None:
        for process in self.processes.pop(machine.name, []):
            process.send_signal(signal.SIGKILL)
            process.wait(60)

    def ensemble_complete(self) -> bool:
        etc = self.root(self.inventory.machines[1]) / "etc/weir"
        servers = [(m.address, ZOOKEEPER_PORT) for m in self.inventory.machines]
        states = server_states(servers, zookeeper_client.load(etc / "zookeeper.properties"))
        return all(state.status is not None for state in states)

    def client(self, port: int, **more: str) -> dict[str, Any]:
        """Settings of librdkafka for this port of all brokers."""
        ca = self.root(self.inventory.machines[0]) / "etc/weir/tls/ca.pem"
        hosts = ",".join(f"{m.address}:{port}" for m in self.inventory.machines)
        return {"bootstrap.servers": hosts, "ssl.ca.location": str(ca), "log_level": 0, **more}

    def operator(self) -> AdminClient:
        """A client with the certificate of a machine."""
        pem = str(self.root(self.inventory.machines[0]) / "etc/weir/tls/machine.pem")
        return AdminClient(
            self.client(
                INTERNAL_PORT, **{"security.protocol": "SSL", "ssl.certificate.location": pem, "ssl.key.location": pem}
            )
        )

    def user(self, name: str = USER, password: str = PASSWORD, **more: str) -> dict[str, Any]:
        login = {"sasl.mechanism": MECHANISM, "sasl.username": name, "sasl.password": password}
        return self.client(CLIENT_PORT, **{"security.protocol": "SASL_SSL", **login, **more})


@contextlib.contextmanager
def running(folder: Path) -> Iterator[SecuredMachines]:
    machines = SecuredMachines(folder)
    try:
        for machine in machines.inventory.machines:
            machines.start(machine)
        wait_for(machines.ensemble_complete, "three ZooKeeper servers")
        yield machines
    finally:
        for machine in machines.inventory.machines:
            machines.kill(machine)


def prepare(machines: SecuredMachines) -> None:
    """The topic, the user and its rights, over the listener of certificates."""
    admin = machines.operator()

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(TOPIC, 6, 3, config={"min.insync.replicas": "2"})])[TOPIC].result(30)
        except KafkaException as e:
            print(f"  not yet: {e.args[0].str()}", flush=True)
            return TOPIC in admin.list_topics(timeout=10).topics
        return True

    wait_for(lambda: len(admin.list_topics(timeout=10).brokers) == 3, "three brokers")
    wait_for(is_created, "the topic")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for name in (USER, "mallory"):
        change = UserScramCredentialUpsertion(name, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[name].result(30)
    rights = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in (
            (ResourceType.TOPIC, TOPIC, AclOperation.READ),
            (ResourceType.TOPIC, TOPIC, AclOperation.WRITE),
            (ResourceType.GROUP, TOPIC, AclOperation.READ),
        )
    ]
    for future in admin.create_acls(rights).values():
        future.result(30)


def produce_records(machines: SecuredMachines, begin: int) -> set[bytes]:
    """The acknowledged records of this call."""
    acknowledged: set[bytes] = set()
    more = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 120_000}
    producer = Producer({**machines.user(), **more})
    for i in range(begin, begin + RECORDS):
        value = str(i).encode()
        producer.produce(TOPIC, value, on_delivery=lambda e, m: acknowledged.add(m.value()) if e is None else None)
        producer.poll(0)
    assert producer.flush(130) == 0
    return acknowledged


def consume_records(machines: SecuredMachines, wanted: set[bytes]) -> list[bytes]:
    consumer = Consumer({**machines.user(), "group.id": TOPIC, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    deadline = time.monotonic() + 120
    while not wanted <= set(found) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def wrongly_handled_requests(machines: SecuredMachines) -> list[str]:
    """Requests that were served and must not be, or were rejected for another reason."""
    wrong = []
    for name, settings in (
        ("a wrong password", machines.user(password="guess")),
        ("no certificate at the listener of brokers", machines.client(INTERNAL_PORT, **{"security.protocol": "SSL"})),
        ("no TLS", {"bootstrap.servers": machines.client(CLIENT_PORT)["bootstrap.servers"], "log_level": 0}),
    ):
        with contextlib.suppress(KafkaException):
            AdminClient(settings).list_topics(timeout=5)
            wrong.append(name)
    # librdkafka's error equals an error code only. A comparison with None raises TypeError.
    codes: list[int | None] = []
    producer = Producer({**machines.user("mallory"), "message.timeout.ms": 15_000})
    producer.produce(TOPIC, b"without a right", on_delivery=lambda e, m: codes.append(None if e is None else e.code()))
    producer.flush(20)
    if codes != [KafkaError.TOPIC_AUTHORIZATION_FAILED]:
        wrong.append(f"a user without a right, error codes {codes}")
    with contextlib.suppress(OSError), socket.create_connection((f"{SUBNET}.1", ZOOKEEPER_PORT), timeout=5) as plain:
        plain.sendall(b"srvr")
        if plain.recv(100).startswith(b"Zookeeper"):
            wrong.append("ZooKeeper without TLS")
    return wrong


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-secured-") as folder, running(Path(folder)) as machines:
        prepare(machines)
        acknowledged = produce_records(machines, 0)
        print(f"  acknowledged before the kill: {len(acknowledged)}", flush=True)
        began = time.monotonic()
        machines.kill(machines.inventory.machines[2])
        acknowledged |= produce_records(machines, RECORDS)
        print(f"  acknowledged with two machines: {len(acknowledged)}, {time.monotonic() - began:.1f} s", flush=True)
        found = consume_records(machines, acknowledged)
        wrong = wrongly_handled_requests(machines)
        lost, twice = acknowledged - set(found), len(found) - len(set(found))
        print(
            f"  acknowledged {len(acknowledged)}, lost {len(lost)}, duplicated {twice}; served wrongly: {wrong or 'nothing'}"
        )
        return 1 if lost or twice or wrong or len(acknowledged) < 2 * RECORDS else 0


if __name__ == "__main__":
    sys.exit(main())
