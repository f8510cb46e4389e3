"""`make connect`: two workers of Apache Kafka's Connect in distributed mode on three brokers of Weir, driven by the client of the console.

A file source with exactly-once support writes each line of a file to a topic, and a file sink writes the topic to a file. Meanwhile connectors are paused,
stopped, restarted and changed, a worker and the leader of the topic are killed. At the end the topic has each line once and in order, and the file of the
sink has each line. Prints one line per step, `yes` or `no` with the reason; ends with 1 if one is `no`, with 2 if Maven does not have the jars.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.peer.fetch import Absent
from controlplane.clients import connectors as api
from controlplane.clients.connect import ConnectClient, ConnectUnavailable, ConnectUnknown
from controlplane.domain.connect import ConnectorState, ConnectorType
from tests.cluster.local import LocalCluster, wait_for
from tests.connect.workers import GROUP, INTERNAL_TOPICS, VERSION, Worker, connect_jars
from tests.faults.scene import heal_cluster

TOPIC = "lines"
SOURCE, SINK = "file source", "file sink (1)"
"""Names with characters that an address has to quote. The workers accept no address with a quoted slash (Jetty)."""
SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK_CLASS = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES = 1_000
"""Lines that each step adds to the file of the source."""
SECONDS = 180
"""Time limit of each wait: a worker starts in some 10 s on an idle machine."""


class Check:
    """Steps and what they share. `written`: lines of the source's file so far."""

    def __init__(self, folder: Path, cluster: LocalCluster, workers: list[Worker]) -> None:
        self.cluster, self.workers = cluster, workers
        self.client = ConnectClient("check", tuple(w.url for w in workers))
        self.input, self.output = folder / "input.txt", folder / "output.txt"
        self.input.touch()
        self.written = 0
        self.failed = False

    def run_step(self, name: str, run: Callable[[], None]) -> None:
        if self.failed:
            print(f"–   {name}: not tried", flush=True)
            return
        started = time.monotonic()
        try:
            run()
        except Exception as error:
            self.failed = True
            traceback.print_exc()
            print(f"no  {name}: {type(error).__name__}: {error}", flush=True)
        else:
            print(f"yes {name} ({time.monotonic() - started:.0f} s)", flush=True)

    def write(self) -> None:
        with self.input.open("a") as file:
            file.writelines(f"line {n}\n" for n in range(self.written, self.written + LINES))
        self.written += LINES

    def has_arrived(self) -> bool:
        """Return whether the file of the sink has each line."""
        if not self.output.exists():
            return False
        return len(set(self.output.read_text().splitlines())) == self.written

    def flow(self) -> None:
        self.write()
        wait_for(self.has_arrived, f"{self.written} lines in the file of the sink", SECONDS)

    def state_of(self, name: str) -> tuple[ConnectorState, list[ConnectorState]]:
        """(state of the connector, states of its tasks); unknown while no worker answers."""
        try:
            found = [c for c in api.connectors(self.client) if c.name == name]
        except ConnectUnavailable:
            found = []
        return (found[0].state, [t.state for t in found[0].tasks]) if found else (ConnectorState.UNKNOWN, [])

    def wait_for_state(self, name: str, state: ConnectorState, tasks: list[ConnectorState]) -> None:
        wait_for(lambda: self.state_of(name) == (state, tasks), f"{name} {state} with tasks {tasks}", SECONDS)

    def until_running(self) -> None:
        for name in (SOURCE, SINK):
            self.wait_for_state(name, ConnectorState.RUNNING, [ConnectorState.RUNNING])

    # -- steps ----------------------------------------------------------------------------------------------------------------
    def wait_until_responding(self) -> None:
        for worker in self.workers:
            alone = ConnectClient("check", (worker.url,))

            def version(alone: ConnectClient = alone) -> bool:
                alone.workers[0].retry_at = 0.0
                try:
                    return api.worker_info(alone).version == VERSION
                except ConnectUnavailable:
                    return False

            wait_for(version, f"worker {worker.name}; see {worker.log}", SECONDS)
        self.client = ConnectClient("check", tuple(w.url for w in self.workers))

    def internal_topics(self) -> None:
        for name in INTERNAL_TOPICS:
            topic = self.cluster.image.topic_named(name)
            assert topic is not None, f"{name} does not exist"
            assert topic.configs.get("cleanup.policy") == "compact", f"{name} has {topic.configs}"

    def plugins(self) -> None:
        found = {p.class_name: p.type for p in api.plugins(self.client)}
        assert found[SOURCE_CLASS] is ConnectorType.SOURCE and found[SINK_CLASS] is ConnectorType.SINK, found

    def validation(self) -> None:
        config = {
            "connector.class": SINK_CLASS,
            "name": "wrong",
            "tasks.max": "many",
            "topics": TOPIC,
            "file": "/tmp/x",
        }
        errors = {d.name: d.errors for d in api.validate(self.client, config) if d.errors}
        assert list(errors) == ["tasks.max"], errors
        secrets = api.secret_configs(self.client, SINK_CLASS)
        assert secrets == frozenset(), secrets

    def create(self) -> None:
        source = {"connector.class": SOURCE_CLASS, "file": str(self.input), "topic": TOPIC, "batch.size": "100"}
        source |= {"exactly.once.support": "required", "topic.creation.default.replication.factor": "3"}
        source |= {"topic.creation.default.partitions": "1"}
        api.create(self.client, SOURCE, source)
        # The source creates the topic with its settings. A consumer that asks first would create it with those of the brokers.
        self.write()
        wait_for(lambda: self.cluster.image.topic_named(TOPIC), f"topic {TOPIC}", SECONDS)
        api.create(self.client, SINK, {"connector.class": SINK_CLASS, "file": str(self.output), "topics": TOPIC})
        self.until_running()
        self.flow()

    def reports(self) -> None:
        wait_for(lambda: api.active_topics(self.client, SINK) == [TOPIC], "the topic of the sink", SECONDS)
        position = self.input.stat().st_size
        expected = [(f'{{"filename": "{self.input}"}}', f'{{"position": {position}}}')]
        wait_for(lambda: api.offsets(self.client, SOURCE) == expected, f"offsets {expected} of the source", SECONDS)

        def of_sink() -> bool:
            [(partition, offset)] = api.offsets(self.client, SINK) or [("", "")]
            return TOPIC in partition and offset != ""

        wait_for(of_sink, "offsets of the sink", SECONDS)

    def groups(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        found = {g.group_id for g in admin.list_consumer_groups().result(60).valid}
        assert f"connect-{SINK}" in found, found
        [group] = admin.list_groups(GROUP, timeout=60)
        assert (group.protocol_type, group.state, len(group.members)) == ("connect", "Stable", 2), group

    def pause(self) -> None:
        api.pause(self.client, SOURCE)
        self.wait_for_state(SOURCE, ConnectorState.PAUSED, [ConnectorState.PAUSED])
        api.resume(self.client, SOURCE)
        self.until_running()
        self.flow()

    def stop(self) -> None:
        api.stop(self.client, SINK)
        self.wait_for_state(SINK, ConnectorState.STOPPED, [])
        self.write()
        api.resume(self.client, SINK)
        self.until_running()
        wait_for(self.has_arrived, f"{self.written} lines in the file of the sink", SECONDS)

    def change(self) -> None:
        config = api.connector_config(self.client, SINK) | {"consumer.override.max.poll.records": "50"}
        api.change_config(self.client, SINK, config)
        assert api.connector_config(self.client, SINK) == config
        self.until_running()
        self.flow()

    def restart(self) -> None:
        api.restart(self.client, SOURCE, include_tasks=True, only_failed=False)
        api.restart_task(self.client, SINK, 0)
        self.until_running()
        self.flow()

    def failed_task(self) -> None:
        name = "broken"
        config = {"connector.class": SINK_CLASS, "file": "/nonexistent/folder/file", "topics": TOPIC}
        api.create(self.client, name, config)
        self.wait_for_state(name, ConnectorState.RUNNING, [ConnectorState.FAILED])
        [found] = [c for c in api.connectors(self.client) if c.name == name]
        assert "/nonexistent/folder/file" in found.tasks[0].trace, found.tasks[0].trace
        api.delete(self.client, name)

    def killed_worker(self) -> None:
        dead = self.workers[0]
        dead.kill()
        self.flow()
        dead.start()
        self.wait_until_responding()
        self.until_running()
        self.flow()

    def killed_leader(self) -> None:
        topic = self.cluster.image.topic_named(TOPIC)
        assert topic is not None
        self.cluster.kill(f"broker-{topic.partitions[0].leader}")
        self.flow()
        heal_cluster(self.cluster)
        self.flow()

    def each_line_once(self) -> None:
        """The topic, read by another client, as a consumer of committed records sees it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "check-reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[str] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < self.written and time.monotonic() < deadline:
            for m in consumer.consume(1_000, 1.0):
                if not m.error():
                    values.append((m.value() or b"").decode())
        more = [m for m in consumer.consume(10, 3.0) if not m.error()]
        consumer.close()
        assert not more, f"{len(more)} records too many"
        assert values == [f"line {n}" for n in range(self.written)], (
            f"{len(values)} records, {len(set(values))} different"
        )

    def delete(self) -> None:
        for name in (SOURCE, SINK):
            api.delete(self.client, name)
        wait_for(lambda: api.connectors(self.client) == [], "no connectors", SECONDS)
        try:
            api.connector_config(self.client, SOURCE)
        except ConnectUnknown:
            return
        raise AssertionError(f"{SOURCE} is there after its deletion")

    def run(self) -> None:
        self.run_step("two workers start", self.wait_until_responding)
        self.run_step("internal topics are compacted", self.internal_topics)
        self.run_step("plugins are listed", self.plugins)
        self.run_step("a config is validated", self.validation)
        self.run_step("a source and a sink are created, lines flow", self.create)
        self.run_step("topics and offsets are reported", self.reports)
        self.run_step("the workers are a group of the type connect, the sink has a consumer group", self.groups)
        self.run_step("pause and resume", self.pause)
        self.run_step("stop and resume", self.stop)
        self.run_step("a config is changed", self.change)
        self.run_step("a connector and a task are restarted", self.restart)
        self.run_step("a failed task has a trace", self.failed_task)
        self.run_step("a worker is killed (kill -9) and started", self.killed_worker)
        self.run_step("the leader of the topic is killed (kill -9) and started", self.killed_leader)
        self.run_step("each line is in the topic one time and in order", self.each_line_once)
        self.run_step("the connectors are deleted", self.delete)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make connect")
    parser.add_argument("--keep", type=Path, help="a folder for the files of brokers and workers")
    arguments = parser.parse_args()
    try:
        lib = connect_jars()
    except Absent as error:
        print(f"absent: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="weir-connect-") as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with LocalCluster(folder, brokers=3) as cluster:
            workers = [Worker(f"worker-{n}", lib, cluster.bootstrap, folder) for n in (1, 2)]
            check = Check(folder, cluster, workers)
            try:
                for worker in workers:
                    worker.start()
                check.run()
            finally:
                for worker in workers:
                    worker.kill()
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
