"""`make mirror`: a rehearsal of a migration from Apache Kafka to Weir with MirrorMaker 2, and of a rollback.

One broker of Apache Kafka, and a secured local cluster of Weir with three brokers, a control plane and a database. Topics, configs, ACLs, records and
positions of groups are mirrored while producers and consumers work, a leader of Weir and MirrorMaker 2 are killed. Then the groups and the producers
are switched, and records that producers write to Weir are mirrored back to Kafka. Prints one line per step, `yes` or `no` with the reason; ends with 1
if one is `no`, with 2 if Maven does not have the jars.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path

from confluent_kafka.admin import NewPartitions, NewTopic

from bench.peer.fetch import Absent
from brokerd.config.types import properties as properties_of
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.mirror import traffic
from tests.mirror.copies import (
    Copy,
    Place,
    compacted_difference,
    config_differences,
    continuation,
    difference,
    seeds,
    without_timestamps,
)
from tests.mirror.processes import KAFKAS, VERSION, Mirror, SmallKafka, Tools, mirror_jars
from tests.mirror.traffic import ACCOUNTS, CLICKS, LEDGER, ORDERS, TOPICS, Settings, Writer, set_config

SECONDS = 240
"""Time limit of each wait for the mirror."""
GROUPS = {
    "billing": (ORDERS, 700, "classic"),
    "report": (ORDERS, 200, "consumer"),
    "audit": (LEDGER, 90, "classic"),
    "views": (ACCOUNTS, 10_000, "classic"),
}
"""Group -> (its topic, records that it reads from Kafka before the mirror starts, its protocol)."""
LAGGING = "report"
"""A group that reads nothing while a mirror runs. After a restart MirrorMaker 2 translates no new position that is before the last records copied before the
restart, so the other groups read past them."""
ROUNDS = 40
"""Rounds of the writer before the mirror starts."""


class Rehearsal:
    def __init__(self, folder: Path, lib: Path, kafka: SmallKafka, weir: DevCluster) -> None:
        self.kafka_cluster, self.weir_cluster = kafka, weir
        self.kafka: Settings = {"bootstrap.servers": kafka.bootstrap}
        self.weir: Settings = {k: str(v) for k, v in weir.client.items()}
        self.tools = Tools(lib, folder)
        self.secured = folder / "weir" / "client.properties"
        weir_java = {"bootstrap.servers": weir.bootstrap, **properties_of(self.secured)}
        clients = {"kafka": self.kafka, "weir": weir_java}
        self.there = Mirror(lib, folder, "kafka", "weir", clients)
        self.back = Mirror(lib, folder, "weir", "kafka", clients)
        self.writers: list[Writer] = []
        self.before: dict[str, dict[Place, list[Copy]]] = {}
        """Records of Kafka at the switch."""
        self.failed: list[str] = []
        self.groups = GROUPS
        if kafka.version != VERSION:  # with ZooKeeper there is only the classic protocol
            self.groups = {g: (topic, most, "classic") for g, (topic, most, _) in GROUPS.items()}

    def run_step(self, name: str, run: Callable[[], str | None], needed: bool = False) -> None:
        """`needed`: without this step the others cannot be tried."""
        started = time.monotonic()
        try:
            seen = run()
        except Exception as error:
            self.failed.append(name)
            traceback.print_exc()
            print(f"no  {name}: {type(error).__name__}: {error}", flush=True)
            if needed:
                raise SystemExit(1) from None
        else:
            print(f"yes {name} ({time.monotonic() - started:.0f} s){f': {seen}' if seen else ''}", flush=True)

    # -- parts of steps ------------------------------------------------------------------------------------------------------
    def write(self, cluster: Settings, name: str, rounds: int = 0, pause_s: float = 0.0) -> Writer:
        writer = Writer(cluster, name, rounds, pause_s)
        writer.start()
        self.writers.append(writer)
        return writer

    def read_and_write(self, cluster: Settings, name: str) -> Writer:
        """Groups read all records, except for the one that lags behind. Then records are written that no group has read."""
        for group, (topic, _, protocol) in self.groups.items():
            if group != LAGGING:
                traffic.consume(cluster, group, topic, 1_000_000, reset="earliest", protocol=protocol, idle_s=5)
        writer = self.write(cluster, name, 5)
        writer.join(SECONDS)
        writer.finish()
        return writer

    def counts(self, cluster: Settings, topics: Collection[str] = tuple(TOPICS)) -> dict[str, int]:
        return {
            t: sum(len(p) for p in traffic.read(cluster, t).values()) for t in topics if traffic.partitions(cluster, t)
        }

    def wait_for_records(self, mirror: Mirror, source: Settings, target: Settings) -> None:
        """Waits until the target has as many committed records of each topic as the source, except for a compacted one."""
        topics = (ORDERS, LEDGER, CLICKS)
        expected = self.counts(source, topics)

        def equal() -> bool:
            assert mirror.running(), f"the mirror ended; see {mirror.log}"
            return self.counts(target, topics) == expected

        wait_for(equal, f"{expected} in the target, found {self.counts(target, topics)}; see {mirror.log}", SECONDS)

    def compare(self, source: dict[str, dict[Place, list[Copy]]], target: Settings) -> str:
        wrong: list[str] = []
        total = 0
        for topic, places in source.items():
            found = traffic.read(target, topic)
            compared = compacted_difference if topic == ACCOUNTS else difference
            append_time = traffic.configs(target, topic).get("message.timestamp.type") == "LogAppendTime"
            for place, records in places.items():
                total += len(records)
                kept = without_timestamps if append_time else list
                if text := compared(kept(records), kept(found[place])):
                    wrong.append(f"{place}: {text}")
        assert not wrong, "\n".join(wrong)
        return f"{total} records"

    def kill_leader(self, topic: str) -> str:
        broker = self.weir_cluster.leaders(topic)[0]
        self.weir_cluster.kill(f"broker-{broker}")
        return f"broker {broker}"

    # -- to Weir -------------------------------------------------------------------------------------------------------------
    def fill(self) -> str:
        traffic.create_topics(self.kafka)
        traffic.create_acls(self.kafka)
        writer = self.write(self.kafka, "first", ROUNDS)
        writer.join(SECONDS)
        writer.finish()
        for group, (topic, most, protocol) in self.groups.items():
            traffic.consume(self.kafka, group, topic, most, reset="earliest", protocol=protocol, idle_s=5)
        return str(writer.committed)

    def first_copy(self) -> None:
        self.there.start()
        wait_for(
            lambda: all(traffic.partitions(self.weir, t) for t in TOPICS), f"topics; see {self.there.log}", SECONDS
        )
        self.wait_for_records(self.there, self.kafka, self.weir)

    def same_topics(self) -> str:
        for topic in TOPICS:
            assert traffic.partitions(self.weir, topic) == traffic.partitions(self.kafka, topic), topic

        def differences() -> dict[str, object]:
            pairs = {t: (traffic.configs(self.kafka, t), traffic.configs(self.weir, t)) for t in TOPICS}
            return {t: d for t, (one, other) in pairs.items() if (d := config_differences(one, other))}

        wait_for(lambda: not differences(), f"equal configs: {differences()}", SECONDS)
        return ", ".join(f"{t}: {traffic.configs(self.weir, t)}" for t in TOPICS)

    def changed_topic(self) -> None:
        """A config and the number of partitions are changed in Kafka while the mirror runs."""
        set_config(self.kafka, ORDERS, "retention.ms", "2592000000")
        set_config(self.kafka, ORDERS, "max.message.bytes", None)
        traffic.admin(self.kafka).create_partitions([NewPartitions(ORDERS, 8)])[ORDERS].result(60)
        wait_for(lambda: traffic.partitions(self.weir, ORDERS) == 8, "8 partitions", SECONDS)
        self.same_topics()

    def same_acls(self) -> str:
        # A mirror copies ACLs of single topics, ALL as READ, and no permission to write: the target is only read until the switch.
        expected = {
            (name, pattern, who, "READ" if (kind, op) == ("ALLOW", "ALL") else op, kind)
            for name, pattern, who, op, kind in traffic.topic_acls(self.kafka)
            if (op, kind) != ("WRITE", "ALLOW") and pattern == "LITERAL"
        }
        wait_for(
            lambda: expected <= traffic.topic_acls(self.weir),
            f"ACLs {expected - traffic.topic_acls(self.weir)}",
            SECONDS,
        )
        return f"{len(expected)} ACLs"

    def killed_leader(self) -> str:
        self.write(self.kafka, "second", pause_s=0.5)
        time.sleep(10)
        killed = self.kill_leader(ORDERS)
        time.sleep(20)
        assert self.there.running(), f"the mirror ended; see {self.there.log}"
        return killed

    def killed_mirror(self) -> None:
        self.there.stop(signal.SIGKILL)
        time.sleep(5)
        self.there.start()
        time.sleep(20)

    def stop_writers(self) -> str:
        writer = self.writers[-1]
        writer.finish()
        unread = self.read_and_write(self.kafka, "unread")
        self.wait_for_records(self.there, self.kafka, self.weir)
        self.before = {t: traffic.read(self.kafka, t) for t in TOPICS}
        return f"{writer.committed} and {unread.committed}"

    def group_positions(self) -> str:
        """In Weir each group has a position for each partition that has one in Kafka."""
        return self.wait_for_groups(self.there, self.kafka, self.weir, every=True)

    def wait_for_groups(self, mirror: Mirror, source: Settings, target: Settings, *, every: bool) -> str:
        """Waits until no group would lose records in the target and the positions of the groups do not change. Reports what they would read again.
        `every`: a group must have a position; otherwise it starts at the earliest record where it has none."""

        def state() -> tuple[list[str], dict[str, int]]:
            wrong: list[str] = []
            repeated: dict[str, int] = {}
            for group, (topic, _, _) in self.groups.items():
                originals, copies = traffic.read(source, topic), traffic.read(target, topic)
                translated = traffic.positions(target, group)
                for place, position in traffic.positions(source, group).items():
                    if every and place not in translated:
                        wrong.append(f"{group} has no position in {place}")
                        continue
                    seen = continuation(originals[place], position, copies[place], translated.get(place, 0))
                    repeated[group] = repeated.get(group, 0) + seen.repeated
                    if seen.lost:
                        wrong.append(f"{group} loses {seen.lost} records of {place}")
            return wrong, repeated

        deadline = time.monotonic() + SECONDS
        settled: dict[str, int] | None = None
        while True:
            wrong, repeated = state()
            if not wrong and repeated == settled:
                return f"read again: {repeated}"
            settled = repeated
            assert time.monotonic() < deadline, f"{wrong}; see {mirror.log}"
            time.sleep(12)

    def switch_groups(self) -> str:
        """The groups read from Weir what is left for them."""
        self.there.stop()
        seen = {}
        for group, (topic, _, protocol) in self.groups.items():
            positions = traffic.positions(self.kafka, group)
            expected = {
                c.id
                for place, copies in self.before[topic].items()
                for c in copies
                if c.offset >= positions.get(place, 0)
            }
            ids = traffic.consume(self.weir, group, topic, 1_000_000, reset="earliest", protocol=protocol)
            assert topic == ACCOUNTS or not (lost := expected - set(ids)), f"{group} lost {len(lost)} records"
            seen[group] = f"{len(expected)} expected, {len(ids)} read"
        return str(seen)

    # -- back to Kafka ---------------------------------------------------------------------------------------------------------
    def start_back(self) -> str:
        """The mirror back starts at the ends of Weir's topics, which Kafka has already: records of its offsets topic say so."""
        listing = self.tools.run(
            "kafka-get-offsets",
            "--bootstrap-server",
            self.weir_cluster.bootstrap,
            "--command-config",
            str(self.secured),
            "--topic",
            "|".join(TOPICS),
        )
        rows = [line.rsplit(":", 2) for line in listing.split()]
        ends = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
        assert len(ends) == sum(traffic.partitions(self.weir, t) for t in TOPICS), listing
        topic = "mm2-offsets.weir.internal"
        made = NewTopic(topic, 25, 1, config={"cleanup.policy": "compact"})
        traffic.admin(self.kafka).create_topics([made])[topic].result(60)
        lines = seeds(ends, "weir")
        self.tools.run(
            "kafka-console-producer",
            *("--bootstrap-server", self.kafka_cluster.bootstrap, "--topic", topic),
            *("--property", "parse.key=true", "--property", "key.separator=;"),
            stdin="".join(f"{key};{value}\n" for key, value in lines),
        )
        self.back.start()
        return f"{len(lines)} partitions"

    def changed_back(self) -> None:
        """A config that is changed in Weir arrives in Kafka."""
        set_config(self.weir, CLICKS, "retention.ms", "172800000")
        wait_for(
            lambda: traffic.configs(self.kafka, CLICKS).get("retention.ms") == "172800000",
            f"a config of Weir in Kafka; see {self.back.log}",
            SECONDS,
        )

    def switch_producers(self) -> str:
        writer = self.write(self.weir, "third", pause_s=0.5)
        time.sleep(30)
        killed = self.kill_leader(LEDGER)
        time.sleep(10)
        self.back.stop(signal.SIGKILL)
        time.sleep(5)
        self.back.start()
        time.sleep(20)
        writer.finish()
        unread = self.read_and_write(self.weir, "fourth")
        self.wait_for_records(self.back, self.weir, self.kafka)
        return f"{killed}, {writer.committed} and {unread.committed}"

    def same_back(self) -> str:
        return self.compare({t: traffic.read(self.weir, t) for t in TOPICS}, self.kafka)

    def groups_back(self) -> str:
        seen = self.wait_for_groups(self.back, self.weir, self.kafka, every=False)
        self.back.stop()
        return seen

    def run(self) -> None:
        self.run_step("Kafka has topics, ACLs, records and groups", self.fill, needed=True)
        self.run_step("MirrorMaker 2 copies all topics to Weir", self.first_copy, needed=True)
        self.run_step("partitions and configs of topics are equal", self.same_topics)
        self.run_step("a changed config and new partitions arrive", self.changed_topic)
        self.run_step("ACLs of topics arrive", self.same_acls)
        self.run_step("the leader of a partition in Weir is killed (kill -9) under load", self.killed_leader)
        self.run_step("MirrorMaker 2 is killed (kill -9) and started under load", self.killed_mirror)
        self.run_step("producers stop, all records arrive", self.stop_writers, needed=True)
        self.run_step(
            "each record is in Weir one time, in order and complete", lambda: self.compare(self.before, self.weir)
        )
        self.run_step("each group has a position in Weir, without loss", self.group_positions)
        self.run_step("groups continue on Weir", self.switch_groups)
        self.run_step("MirrorMaker 2 starts from Weir to Kafka at the ends of the topics", self.start_back, needed=True)
        self.run_step("a changed config arrives in Kafka", self.changed_back)
        self.run_step("producers write to Weir; a leader and MirrorMaker 2 are killed", self.switch_producers)
        self.run_step("each record is in Kafka one time, in order and complete", self.same_back)
        self.run_step("each group has a position in Kafka, without loss", self.groups_back)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mirror")
    parser.add_argument("--keep", type=Path, help="a folder for the files of brokers and mirrors")
    parser.add_argument(
        "--kafka", choices=KAFKAS, default=VERSION, help=f"version of the brokers of Kafka (default: {VERSION})"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-mirror-") as temporary:
        folder = (arguments.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kafka").mkdir()
        try:
            lib = mirror_jars()
            kafka = KAFKAS[arguments.kafka](folder / "kafka")
        except Absent as error:
            print(f"absent: {error}", file=sys.stderr)
            return 2
        rehearsal: Rehearsal | None = None
        weir: DevCluster | None = None
        try:
            kafka.start()
            weir = DevCluster(folder / "weir", "--secure")
            rehearsal = Rehearsal(folder, lib, kafka, weir)
            rehearsal.run()
        finally:
            if rehearsal is not None:
                for mirror in (rehearsal.there, rehearsal.back):
                    mirror.stop(signal.SIGKILL)
            if weir is not None:
                weir.down()
            kafka.close()
    return 1 if rehearsal.failed else 0


if __name__ == "__main__":
    sys.exit(main())
