"""`make soak MINUTES=5`: producers, groups of both protocols and transactional copiers of three libraries, while brokers are restarted and killed.

A round is one fault (drawn from SEED): a broker stopped and restarted, in turn; a group's coordinator killed; any broker killed. Afterwards every group has
90 s to read all records acknowledged so far; otherwise the round failed and the reports of its members are printed. At the end no acknowledged record is
missing in the log or in a group, no record is in a log twice, each copy has each value once, and every client ends on request. Does not check rates,
memory or what a client logs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.group_members import coordinator_of
from tests.cluster.local import ROOT, LocalCluster, wait_for
from tests.faults.scene import wait_until_recovered
from tests.soak.ledger import Ledger

PARTITIONS = 6
CATCH_UP_SECONDS = 90
END_SECONDS = 120
TOPIC = "soak"
NEW: dict[str, Any] = {"group.protocol": "consumer"}
COOPERATIVE: dict[str, Any] = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 10_000}
RANGE: dict[str, Any] = {"partition.assignment.strategy": "range", "session.timeout.ms": 10_000}
PRODUCERS = ("confluent", "aiokafka", "kafka_python")
GROUPS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("new", "confluent", NEW),
    ("cooperative", "confluent", COOPERATIVE),
    ("range", "confluent", RANGE),
    ("aio", "aiokafka", {}),
    ("python", "kafka_python", {}),
)
"""Group, library, settings."""
COPIES: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("copied", "confluent", 2, {}),
    ("copied-new", "confluent", 2, NEW),
    ("copied-aio", "aiokafka", 1, {}),
)
"""Topic and group, library, members, settings."""


@dataclass(slots=True)
class Client:
    """A program and its latest reports."""

    name: str
    process: subprocess.Popen[bytes]
    errors: Path
    last: deque[str] = field(default_factory=lambda: deque(maxlen=6))
    said_at: float = 0.0

    def describe_state(self) -> str:
        state = "running" if self.process.poll() is None else f"ended with {self.process.returncode}"
        ago = f"{time.monotonic() - self.said_at:.0f} s ago" if self.said_at else "never"
        return f"  {self.name}: {state}, spoke {ago}: {' '.join(line[:160] for line in self.last)}"


class Soak:
    def __init__(self, cluster: LocalCluster, dice: random.Random, rate: float, members: int, debug: str) -> None:
        self.cluster, self.random, self.rate, self.members, self.debug = cluster, dice, rate, members, debug
        self.ledger, self.lock = Ledger(), threading.Lock()
        self.clients: list[Client] = []
        self.errors: Counter[str] = Counter()
        self.turn = 0
        self.done: Counter[str] = Counter()

    # -- clients -------------------------------------------------------------------------------------------------------------
    def start(self, role: str, name: str, group: str = "", **settings: Any) -> None:
        given = {"bootstrap": self.cluster.bootstrap, "topic": TOPIC, "name": name, "group": group, **settings}
        errors = self.cluster.folder / f"{name}.stderr"
        with errors.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.clients", role, json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=sink,
                cwd=ROOT,
            )
        client = Client(name, process, errors)
        self.clients.append(client)
        threading.Thread(target=self._listen, args=(client, group), daemon=True).start()

    def _listen(self, client: Client, group: str) -> None:
        assert client.process.stdout is not None
        for line in client.process.stdout:
            said = json.loads(line)
            client.said_at = time.monotonic()
            client.last.append(line.decode().strip())
            with self.lock:
                self.ledger.acked.update(said.get("acked", ()))
                self.ledger.read(group, said.get("read", ())) if "read" in said else None
                for value in said.get("failed", ()):
                    self.ledger.failed[value] = said["why"]
                if "error" in said:
                    self.errors[client.name] += 1

    def all_of_them(self) -> None:
        for make in PRODUCERS:
            self.start(f"{make}_producer", f"by-{make}", rate=self.rate)
        debug = {"debug": self.debug} if self.debug else {}
        for group, make, more in GROUPS:
            for i in range(self.members):
                own = {**more, **debug} if make == "confluent" else more
                self.start(f"{make}_consumer", f"{group}-{i}", group, more=own)
        for out, make, members, more in COPIES:
            for i in range(members):
                self.start(f"{make}_copier", f"{out}-{i}", out, out=out, more={**more, **debug})

    def end(self, clients: list[Client]) -> list[str]:
        """Ends the clients. Returns the names of those that do not end, or end with an error."""
        for c in clients:
            if c.process.poll() is None:
                c.process.send_signal(signal.SIGTERM)
        bad = []
        for c in clients:
            try:
                code = c.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                c.process.kill()
                code = None
            if code:
                bad.append(f"{c.name} ended with {code}: {c.errors.read_text(errors='replace')[-600:]}")
            elif code is None:
                bad.append(f"{c.name} did not end within {END_SECONDS} s of SIGTERM")
        return bad

    # -- faults --------------------------------------------------------------------------------------------------------------
    def restart_the_next(self) -> str:
        self.turn = self.turn % len(self.cluster.ports) + 1
        self.cluster.kill(f"broker-{self.turn}", signal.SIGTERM)
        self.cluster.start_broker(self.turn)
        return f"broker {self.turn} restarted"

    def kill_a_coordinator(self) -> str:
        group = self.random.choice([g for g, _, _ in GROUPS] + [c for c, _, _, _ in COPIES])
        at = coordinator_of(self.cluster, group)
        return f"coordinator {self._kill_broker(at)} of {group} killed"

    def kill_a_broker(self) -> str:
        return f"broker {self._kill_broker(self.random.choice(sorted(self.cluster.ports)))} killed"

    def _kill_broker(self, broker_id: int) -> int:
        self.cluster.kill(f"broker-{broker_id}")
        time.sleep(self.random.choice((0, 1, 5)))  # restarted before or after its session expires
        self.cluster.start_broker(broker_id)
        return broker_id

    # -- judging -------------------------------------------------------------------------------------------------------------
    def run_fault(self, faults: list[Callable[[], str]]) -> str:
        time.sleep(self.random.uniform(0, 2))
        fault = self.random.choice(faults)
        reported = fault()
        self.done[fault.__name__] += 1
        wait_until_recovered(self.cluster)
        with self.lock:
            before = set(self.ledger.acked)
        self.all_read(before)
        return reported

    def all_read(self, wanted: set[str], seconds: float = CATCH_UP_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        for group, _, _ in GROUPS:
            while True:
                with self.lock:
                    missing = self.ledger.missing_values(group, wanted)
                if not missing:
                    break
                if time.monotonic() > deadline:
                    mine = [c.describe_state() for c in self.clients if c.name.rpartition("-")[0] == group]
                    raise AssertionError(
                        f"group {group} has not read {len(missing)} values, e.g. {sorted(missing)[:3]}\n"
                        + "\n".join(mine)
                    )
                time.sleep(0.1)

    def log_of(self, topic: str) -> dict[int, list[str]]:
        """Read with read_committed by an independent client."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "truth",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        out: dict[int, list[str]] = {p: [] for p in range(PARTITIONS)}
        consumer.assign([TopicPartition(topic, p, 0) for p in out])
        ended: set[int] = set()
        deadline = time.monotonic() + 120
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for m in consumer.consume(500, 0.2):
                if not m.error():
                    out[m.partition()].append(m.value().decode())
                elif m.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(m.partition())
        consumer.close()
        return out

    def wait_for_copies(self, topic: str, seconds: float = CATCH_UP_SECONDS) -> dict[int, list[str]]:
        deadline = time.monotonic() + seconds
        while True:
            found = self.log_of(topic)
            if time.monotonic() > deadline or self.ledger.acked <= {v for values in found.values() for v in values}:
                return found
            time.sleep(1)


def topics(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    names = [TOPIC, *(out for out, _, _, _ in COPIES)]
    for done in admin.create_topics(
        [NewTopic(n, PARTITIONS, 3, config={"min.insync.replicas": "2"}) for n in names]
    ).values():
        done.result(60)
    for name in names:
        wait_for(
            lambda name=name: (
                (t := cluster.image.topic_named(name)) and t.ready and all(p.leader > 0 for p in t.partitions.values())
            ),
            f"leaders of {name}",
        )  # type: ignore[misc]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=100, help="values per second of each producer")
    parser.add_argument("--members", type=int, default=2, help="number of members of each group")
    parser.add_argument("--faults", default="restart,coordinator,kill", help="kinds of faults to draw from")
    parser.add_argument(
        "--debug", default="", help="librdkafka's debug contexts of the groups' members, into their .stderr"
    )
    parser.add_argument("--keep", type=Path, help="a directory for the files of all processes")
    arguments = parser.parse_args()
    began, failures = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with LocalCluster(folder, 3, {"replica.lag.time.max.ms": "2000", "transaction.version": "2"}) as cluster:
            soak = Soak(cluster, random.Random(arguments.seed), arguments.rate, arguments.members, arguments.debug)
            every = {
                "restart": soak.restart_the_next,
                "coordinator": soak.kill_a_coordinator,
                "kill": soak.kill_a_broker,
            }
            faults = [every[name] for name in arguments.faults.split(",")]
            try:
                topics(cluster)
                soak.all_of_them()
                wait_for(lambda: all(soak.ledger.seen.get(g) for g, _, _ in GROUPS), "every group to read", 90)
                until = time.monotonic() + arguments.minutes * 60
                while time.monotonic() < until:
                    print(
                        f"{time.monotonic() - began:4.0f} s: {soak.run_fault(faults)}, {len(soak.ledger.acked)} acknowledged",
                        flush=True,
                    )
            except AssertionError as e:
                failures.append(str(e))
            failures += soak.end([c for c in soak.clients if c.name.startswith("by-")])
            try:
                soak.all_read(set(soak.ledger.acked))
            except AssertionError as e:
                failures.append(str(e))
            copies = {out: soak.ledger.check_log(soak.wait_for_copies(out), ordered=False) for out, _, _, _ in COPIES}
            failures += soak.end([c for c in soak.clients if not c.name.startswith("by-")])
            log = soak.ledger.check_log(soak.log_of(TOPIC))
            reads = {g: (sum(soak.ledger.seen[g].values()), soak.ledger.repeated_count(g)) for g in soak.ledger.seen}
            gave_up = len(soak.ledger.failed)
    kinds = ", ".join(f"{name} {n}" for name, n in sorted(soak.done.items()))
    print(
        f"{time.monotonic() - began:.0f} s, faults {sum(soak.done.values())} ({kinds}), clients {len(soak.clients)}, seed {arguments.seed}"
    )
    print(
        f"acknowledged {len(soak.ledger.acked)}, given up {gave_up}; log: lost {log.lost}, doubled {log.doubled}, out of order {log.disordered}"
    )
    for out, found in copies.items():
        print(f"copy {out}: lost {found.lost}, doubled {found.doubled}")
    print("groups: " + ", ".join(f"{g} read {n}, {again} of them again" for g, (n, again) in reads.items()))
    print("errors reported by clients: " + (", ".join(f"{n} {c}" for n, c in sorted(soak.errors.items())) or "none"))
    for f in failures:
        print(f"FAILED: {f}")
    well = log.is_correct and all(c.lost == c.doubled == 0 for c in copies.values()) and not gave_up
    return 0 if well and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
