"""Half messages on real processes: decided by librdkafka's producers, plain, idempotent and transactional, while leaders and producers are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.pay_order import CRASH_STATUS
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
PARTITIONS = 3
FATES = ("commit", "rollback", None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("halves"), 3) as running:
        yield running


def create_topics(cluster: LocalCluster) -> str:
    """A topic and its front topics."""
    name = f"t{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    own: dict[str, dict[str, str]] = {name: {}, f"{name}.half": {"weir.half.topic": name}}
    own |= {f"{name}.half.{kind}": {"weir.half.source": name} for kind in ("check", "expired")}
    topics = [NewTopic(n, PARTITIONS, 3, config={"min.insync.replicas": "2", **c}) for n, c in own.items()]
    for future in admin.create_topics(topics).values():
        future.result(60)
    return name


class HalfMessageProducer:
    """Writes half messages and decisions. `errors`: the rejected records, by (id, decision)."""

    def __init__(self, bootstrap: str, name: str, **settings: Any) -> None:
        self.name = name
        given = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self.producer = Producer(given | settings)
        self.errors: dict[tuple[str, str | None], str] = {}

    def write(self, half_id: str, decision: str | None = None) -> None:
        headers: list[tuple[str, str | bytes | None]] = [("x-half-id", half_id)]
        if decision is not None:
            headers.append(("x-half", decision))

        def on_response(error: Any, message: Message) -> None:
            if error is not None:
                self.errors[half_id, decision] = error.name()

        self.producer.produce(f"{self.name}.half", half_id, key=half_id, headers=headers, on_delivery=on_response)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(120) == 0


def consumer(cluster: LocalCluster, topic: str) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    found.subscribe([topic])
    return found


def receive_values(cluster: LocalCluster, topic: str, expected: set[str]) -> list[str]:
    """The values of a topic, when all expected ones are there and no more come for three seconds."""
    reader, values = consumer(cluster, topic), list[str]()

    def poll() -> None:
        message = reader.poll(0.2)
        if message is not None and not message.error():
            values.append((message.value() or b"").decode())

    def all_here() -> bool:
        poll()
        return expected <= set(values)

    wait_for(all_here, f"{len(expected)} records of {topic}", 200)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        poll()
    reader.close()
    return values


def test_committed_messages_arrive_once_and_others_never(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    shop = HalfMessageProducer(cluster.bootstrap, name)
    fates = {f"m{i}": FATES[i % 3] for i in range(300)}
    for half_id in fates:
        shop.write(half_id)
    shop.flush()
    for half_id, fate in fates.items():
        if fate is not None:
            shop.write(half_id, fate)
    shop.flush()
    committed = {m for m, fate in fates.items() if fate == "commit"}
    assert Counter(receive_values(cluster, name, committed)) == Counter(committed) and not shop.errors
    for half_id in ("m0", "m1", "nobody's"):
        shop.write(half_id, "commit")
        shop.flush()
    assert set(shop.errors) == {("m0", "commit"), ("m1", "commit"), ("nobody's", "commit")}
    assert set(shop.errors.values()) == {"INVALID_RECORD"}
    undecided = {m for m, fate in fates.items() if fate is None}
    assert set(receive_values(cluster, f"{name}.half.check", undecided)) == undecided


def test_aborted_half_messages_and_decisions_were_never_written(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    shop = HalfMessageProducer(cluster.bootstrap, name, **{"transactional.id": name})
    shop.producer.init_transactions(60)

    def transaction(*records: tuple[str, str | None], commits: bool) -> None:
        shop.producer.begin_transaction()
        for record in records:
            shop.write(*record)
        shop.flush()
        (shop.producer.commit_transaction if commits else shop.producer.abort_transaction)(60)

    transaction(("a", None), ("b", None), commits=True)
    transaction(("c", None), commits=False)
    transaction(("a", "commit"), commits=False)
    transaction(("a", "rollback"), ("b", "commit"), ("d", None), ("d", "commit"), commits=True)
    assert Counter(receive_values(cluster, name, {"b", "d"})) == Counter({"b": 1, "d": 1}) and not shop.errors


def leader(cluster: LocalCluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def leader_id() -> Any:
        state = admin.list_topics(topic, timeout=10).topics[topic].partitions[0]
        return state.leader if state.leader > 0 else None

    return int(wait_for(leader_id, "a leader"))


def test_each_decision_counts_once_while_every_party_is_killed(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    shop = HalfMessageProducer(cluster.bootstrap, name)
    fates = {f"m{i}": FATES[i % 2] for i in range(600)}
    for half_id in fates:
        shop.write(half_id)
    shop.flush()
    left = iter(fates.items())
    for topic in (f"{name}.half", name, f"{name}.half"):
        for _ in range(150):
            shop.write(*next(left))
        broker = leader(cluster, topic)
        cluster.kill(f"broker-{broker}")
        for _ in range(50):
            shop.write(*next(left))
        shop.flush()
        cluster.start_broker(broker)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.crashing_half_producer", cluster.bootstrap, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "half\n"
        other.kill()
    responses = consumer(cluster, f"{name}.half.check")
    left_behind = {f"x{i}" for i in range(121, 200)}
    asked: set[str] = set()

    def respond() -> bool:
        message = responses.poll(0.2)
        if message is not None and not message.error():
            half_id = (message.value() or b"").decode()
            if half_id in left_behind - asked:
                asked.add(half_id)
                shop.write(half_id, "commit")
        return asked == left_behind

    wait_for(respond, "the checks of the killed shop's messages", 120)
    shop.flush()
    committed = {m for m, fate in fates.items() if fate == "commit"} | {f"x{i}" for i in range(200)}
    assert Counter(receive_values(cluster, name, committed)) == Counter(committed) and not shop.errors


def test_the_example_pays_orders_and_survives_the_crash_of_the_shop(cluster: LocalCluster, tmp_path: Path) -> None:
    name = create_topics(cluster)

    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", "examples.pay_order", cluster.bootstrap, name]
        return subprocess.run(
            [*command, "--payments", str(tmp_path / "payments"), *arguments], timeout=120, check=False
        ).returncode

    assert run("pay", "1", "500") == 0
    assert run("pay", "2", "700", "--crash", "after-payment") == CRASH_STATUS
    assert run("pay", "3", "900", "--crash", "after-half") == CRASH_STATUS
    assert run("respond", "--seconds", "20") == 0
    values = {"order 1 paid: 500 cents", "order 2 paid: 700 cents"}
    assert Counter(receive_values(cluster, name, values)) == Counter(values)
