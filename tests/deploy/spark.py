"""`make deploy-rehearsal ARGS=--spark`: two machines with the role spark-worker, PostgreSQL on a third one, and one archive to a lake that both reach.

The worker with the lease is killed with its drivers; later the machine of the holder loses its link. Each time the other worker gets the lease and starts the driver
again. Measured from outside: seconds until the other worker has the lock in PostgreSQL, and until it has archived records that were produced after the fault. Fails
if a record is missing in the table or there twice, or if a takeover takes longer than the lease allows. Each worker has process ids of its own, so that it
sees no driver of the other machine.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from controlplane.db.process_lock import LockName
from pipeline.lake.archiving import existing_table
from tests.cluster.local import wait_for
from tests.deploy.machines import RehearsedMachine
from tests.pipeline.lake import rows_of
from weir.spark_lease import LEASE_SECONDS, TAKEOVER_SECONDS
from weir_common.lake_catalog import LakeSettings

UNIT = "weir-spark-worker.service"
TOPIC = "archived"
RECORDS = 2_000
"""Before each step."""
LOCK_SECONDS_MAX = 16.0
"""PostgreSQL ends the connection of a lost machine within 11 s, and the other worker asks each second; the rest is for a busy machine."""
ARCHIVE_SECONDS = 240.0
"""For a driver to start and to commit."""
HOLDER = """select host(client_addr) from pg_locks join pg_stat_activity using (pid) where locktype = 'advisory' and granted and objid = """


class SparkTakeover:
    """`call` is the REST API, `say` prints a step and its seconds."""

    def __init__(
        self, machines: dict[str, RehearsedMachine], lake: Path, password: str, call: Any, say: Any, plug: Any
    ) -> None:
        self.machines, self.lake, self._password = machines, LakeSettings.of_folder(lake), password
        self._call, self._say, self._plug = call, say, plug
        self.produced = 0
        self.wrong: list[str] = []

    def holder(self) -> RehearsedMachine | None:
        """The machine whose worker has the lease in the database."""
        query = f"{HOLDER}{LockName.SPARK_DRIVERS.value}"
        words = ("psql", "-h", "127.0.0.1", "-U", "weir", "-d", "weir", "-tAc", query)
        addresses = self.machines["a"].run(*words, PGPASSWORD=self._password).split()
        assert len(addresses) <= 1, f"several workers have the lease: {addresses}"
        return next((m for m in self.machines.values() if m.address in addresses), None)

    def produce(self) -> None:
        bootstrap = ",".join(f"{m.address}:9092" for m in self.machines.values())
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0})
        for i in range(self.produced, self.produced + RECORDS):
            producer.produce(TOPIC, str(i).encode())
            producer.poll(0)
        assert producer.flush(120) == 0
        self.produced += RECORDS

    def archived_rows(self) -> int:
        """Rows of the table."""
        table = existing_table(self.lake.open(), TOPIC)
        snapshot = table.current_snapshot() if table is not None else None
        if snapshot is None or snapshot.summary is None:
            return 0
        return int(snapshot.summary.additional_properties.get("total-records") or 0)

    def until_archived(self, what: str) -> None:
        began = time.monotonic()
        wait_for(lambda: self.archived_rows() >= self.produced, what, ARCHIVE_SECONDS)
        self._say(what, time.monotonic() - began)

    def taken_over(self, lost: RehearsedMachine, what: str) -> RehearsedMachine:
        """The other machine, as soon as its worker has the lease."""
        began = time.monotonic()

        def other_holder() -> RehearsedMachine | None:
            found = self.holder()
            return found if found is not lost else None

        found = wait_for(other_holder, what, 120)
        seconds = time.monotonic() - began
        self._say(what, seconds)
        if seconds > LOCK_SECONDS_MAX:
            self.wrong.append(f"{what}: {seconds:.1f} s")
        assert isinstance(found, RehearsedMachine)
        return found

    def run(self) -> list[str]:
        """The violations."""
        first = wait_for(self.holder, "a worker with the lease", 120)
        topic = {"name": TOPIC, "partitions": 2, "replication_factor": 3, "comment": "rehearsal"}
        assert self._call("POST", "topics", topic) is not None
        self.produce()
        parameters = {"topics": [TOPIC], "value_format": "raw", "trigger_seconds": 1}
        job = self._call(
            "POST", "spark-jobs", {"name": TOPIC, "kind": "archive", "parameters": parameters, "comment": "rehearsal"}
        )
        assert job is not None
        self.until_archived(f"first records archived by machine {first.name}")
        print(f"machine {first.name}: its Spark worker and its drivers are killed", flush=True)
        first.units[UNIT].crash()
        second = self.taken_over(first, f"the other worker has the lease (it then waits {TAKEOVER_SECONDS:.0f} s)")
        self.produce()
        self.until_archived(f"records archived by machine {second.name}")
        print(f"machine {second.name}: link down, with the lease and a driver", flush=True)
        starts = second.units[UNIT].starts
        began = time.monotonic()
        self._plug(second.number, connected=False)
        third = self.taken_over(second, "the other worker has the lease")
        wait_for(lambda: second.units[UNIT].starts > starts, "the end of the worker without the lease", 60)
        seconds = time.monotonic() - began
        self._say(f"the worker without a network has ended (lease of {LEASE_SECONDS:.0f} s)", seconds)
        self.produce()
        self.until_archived(f"records archived by machine {third.name}")
        self._plug(second.number, connected=True)
        self._call("POST", f"spark-jobs/{job['id']}/stop", {"comment": "rehearsal"})
        wait_for(
            lambda: (self._call("GET", f"spark-jobs/{job['id']}") or {}).get("state") == "stopped",
            "the stop of the job",
            120,
        )
        self.check()
        return self.wrong

    def check(self) -> None:
        found = Counter(value or b"" for *_, value in rows_of(self.lake, TOPIC))
        missing = [i for i in range(self.produced) if not found[str(i).encode()]]
        twice = [value for value, times in found.items() if times > 1]
        print(f"records: produced {self.produced}, missing {len(missing)}, more than once {len(twice)}", flush=True)
        if missing or twice:
            self.wrong.append(f"records: missing {len(missing)}, more than once {len(twice)}")
