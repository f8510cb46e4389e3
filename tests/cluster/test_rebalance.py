"""Every supported client creates a topic, and its group rebalances when a member joins and when it leaves. Also with two different clients in one
group, of which the first is the group leader and computes the assignment.

The tests read the coordinator's state with an admin client, and the records that the members saw, not the clients' own reports of assignments.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
PARTITIONS = 4
IDLE_S_MAX = 40
"""Without records for so long, a member of kafka-python is started again: a third of the shortest deadline of a wait."""


class Member(ABC):
    """A group member in its own thread or process. `seen_values`: the values it received."""

    def __init__(self, cluster: LocalCluster, topic: str, group: str, folder: Path) -> None:
        self.cluster, self.topic, self.group, self.folder = cluster, topic, group, folder
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.run)
        self._thread.start()

    @property
    def seen_values(self) -> set[str]:
        return set(self._seen)

    @staticmethod
    @abstractmethod
    def create_topic(cluster: LocalCluster, name: str) -> None: ...

    @abstractmethod
    def run(self) -> None: ...

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Librdkafka(Member):
    @staticmethod
    def create_topic(cluster: LocalCluster, name: str) -> None:
        admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap}
        )  # the client must live until its request is answered
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(30)

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
            }
        )
        consumer.subscribe([self.topic])
        while not self._stop.is_set():
            self._seen.update(m.value().decode() for m in consumer.consume(100, 0.2) if not m.error())
        consumer.close()


class KafkaPython(Member):
    @staticmethod
    def create_topic(cluster: LocalCluster, name: str) -> None:
        from kafka.admin import KafkaAdminClient
        from kafka.admin import NewTopic as Topic

        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        admin.create_topics([Topic(name, num_partitions=PARTITIONS, replication_factor=3)])
        admin.close()

    def run(self) -> None:
        while not self._stop.is_set():
            self._run_until_idle()

    def _run_until_idle(self) -> None:
        """kafka-python 3.0.12 sometimes stops for good after a rebalance: its coordinator reports `the consumer is not part of an active group`, and
        its event loop spins (docs/clients.md). An application would start it again, and so does this member."""
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            bootstrap_servers=self.cluster.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        # Metadata is loaded before the join: otherwise it joins without it and joins again when it arrives. On a busy machine one time in five it then
        # stops in this way.
        consumer.partitions_for_topic(self.topic)
        consumer.subscribe([self.topic])
        last_record = time.monotonic()
        while not self._stop.is_set() and time.monotonic() - last_record < IDLE_S_MAX:
            for found in consumer.poll(200).values():
                self._seen.update(r.value.decode() for r in found)
                last_record = time.monotonic()
        consumer.close()


class Aiokafka(Member):
    @staticmethod
    def create_topic(cluster: LocalCluster, name: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.admin import NewTopic as Topic

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
            await admin.start()
            await admin.create_topics([Topic(name, num_partitions=PARTITIONS, replication_factor=3)])
            await admin.close()

        asyncio.run(create())

    def run(self) -> None:
        from aiokafka import AIOKafkaConsumer

        async def consume() -> None:
            consumer = AIOKafkaConsumer(
                self.topic,
                bootstrap_servers=self.cluster.bootstrap,
                group_id=self.group,
                auto_offset_reset="earliest",
                session_timeout_ms=6000,
                heartbeat_interval_ms=300,
            )
            await consumer.start()
            while not self._stop.is_set():
                for found in (await consumer.getmany(timeout_ms=200)).values():
                    self._seen.update(r.value.decode() for r in found)
            await consumer.stop()

        asyncio.run(consume())


class Kcat(Member):
    @staticmethod
    def create_topic(cluster: LocalCluster, name: str) -> None:
        """kcat has no admin commands: a metadata request for the topic creates it (auto.create.topics.enable, num.partitions)."""
        assert shutil.which("kcat"), "kcat is missing: apt install kcat"
        subprocess.run(
            ["kcat", "-b", cluster.bootstrap, "-q", "-P", "-t", name],
            input="first\n",
            text=True,
            check=True,
            timeout=60,
        )

    def run(self) -> None:
        out = self.folder / f"{uuid4().hex}.out"
        with out.open("wb") as sink:
            process = subprocess.Popen(
                [
                    "kcat",
                    "-b",
                    self.cluster.bootstrap,
                    "-q",
                    "-u",
                    "-X",
                    "auto.offset.reset=earliest",
                    "-X",
                    "session.timeout.ms=6000",
                    "-X",
                    "heartbeat.interval.ms=300",
                    "-G",
                    self.group,
                    self.topic,
                ],
                stdout=sink,
                stderr=subprocess.DEVNULL,
            )
            while not self._stop.wait(0.2):
                self._seen.update(out.read_text().split())
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        self._seen.update(out.read_text().split())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    with LocalCluster(tmp_path_factory.mktemp("rebalance"), 3, {"num.partitions": str(PARTITIONS)}) as running:
        yield running


def assignments(cluster: LocalCluster, group: str) -> list[set[int]] | None:
    """The partitions of each member according to the coordinator. None while the group is not stable."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    try:
        description = admin.describe_consumer_groups([group], request_timeout=10)[group].result(15)
    except Exception:
        return None
    if description.state.name != "STABLE":
        return None
    return [{tp.partition for tp in m.assignment.topic_partitions} for m in description.members]


def wait_until_assigned(cluster: LocalCluster, group: str, count: int) -> None:
    def is_shared() -> bool:
        found = assignments(cluster, group)
        if found is None or len(found) != count:
            return False
        everything = [p for share in found for p in share]
        assert len(everything) == len(set(everything)), f"a partition has two owners: {found}"
        return set(everything) == set(range(PARTITIONS)) and all(found)

    wait_for(is_shared, f"{count} members to own {PARTITIONS} partitions", 60)


def produce(cluster: LocalCluster, topic: str, values: set[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, value, key=value)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("client", "other"),
    [
        (Librdkafka, Librdkafka),
        (KafkaPython, KafkaPython),
        (Aiokafka, Aiokafka),
        (Kcat, Kcat),
        (Librdkafka, KafkaPython),
        (KafkaPython, Librdkafka),
        (Aiokafka, Librdkafka),
        (Librdkafka, Aiokafka),
    ],
    ids=lambda c: c.__name__,
)
def test_a_group_rebalances_when_a_member_joins_and_when_it_leaves(
    cluster: LocalCluster, client: type[Member], other: type[Member], tmp_path: Path
) -> None:
    topic = group = f"shared-by-{client.__name__}-{other.__name__}".lower()
    client.create_topic(cluster, topic)
    wait_for(
        lambda: (t := cluster.image.topic_named(topic)) and t.ready and len(t.partitions) == PARTITIONS, "the topic"
    )
    alone, both, alone_again = ({f"{phase}-{i}" for i in range(100)} for phase in ("alone", "both", "again"))
    members = [client(cluster, topic, group, tmp_path)]
    try:
        wait_until_assigned(cluster, group, 1)
        produce(cluster, topic, alone)
        wait_for(lambda: alone <= members[0].seen_values, "the only member to see everything")
        members.append(other(cluster, topic, group, tmp_path))
        wait_until_assigned(cluster, group, 2)
        produce(cluster, topic, both)
        wait_for(lambda: both <= members[0].seen_values | members[1].seen_values, "both together to see everything")
        wait_for(lambda: both & members[1].seen_values, "the second to see records of its partitions")
        members[1].leave()
        wait_until_assigned(cluster, group, 1)
        produce(cluster, topic, alone_again)
        wait_for(lambda: alone_again <= members[0].seen_values, "the remaining member to see everything")
    finally:
        for member in members:
            member.leave()
