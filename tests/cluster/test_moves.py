"""Moves on a running local cluster: brokers enforce throttles, and Kafka's own clients see and control the same moves.

Checks: rates as measured from outside, configs as Kafka clients read them, rows over REST. Does not check: kills at each transition
(`make moves-matrix`) or records (test_failover.py).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from crc32c import crc32c
from kafka import TopicPartition
from kafka.admin import ConfigResource as Resource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from brokerd.wire.records import batches
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
BROKERS = ("1", "2", "3")
ALONE = {"min.insync.replicas": "1"}
"""For topics with one replica: a cluster of three brokers requires two by default."""


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        yield devcluster
    finally:
        devcluster.end()


@pytest.fixture
def kafka_python_admin(devcluster: DevCluster) -> Iterator[KafkaAdminClient]:
    """A client that knows all brokers. An earlier test may just have restarted one, and this client refreshes its metadata after minutes."""
    known = AdminClient({**devcluster.client, "log_level": 0})
    wait_for(lambda: len(known.list_topics(timeout=60).brokers) == len(BROKERS), "all brokers")
    admin = KafkaAdminClient(bootstrap_servers=devcluster.bootstrap)
    yield admin
    admin.close()


def throttles(devcluster: DevCluster, topic: str) -> dict[str, str]:
    """Every throttle config that a Kafka client reads from the brokers and from this topic."""
    requested = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
    requested += [ConfigResource(ConfigResource.Type.BROKER, b) for b in BROKERS]
    found = {}
    # A client of its own: that of the cluster waited for minutes for a broker that had been restarted, while other clients reached it at once.
    admin = AdminClient({**devcluster.client, "log_level": 0})
    for resource in requested:
        try:
            configs = admin.describe_configs([resource])[resource].result(60)
        except TimeoutError as e:
            raise AssertionError(f"no response about {resource}") from e
        for name in (LEADERS, FOLLOWERS, *RATES):
            if name in configs and not configs[name].is_default:
                found[f"{resource.name} {name}"] = configs[name].value
    return found


def produce_bytes(devcluster: DevCluster, topic: str, size: int) -> None:
    """Writes `size` bytes into partition 0 in batches that are small compared with a throttle: a batch is never split."""
    producer = Producer({"bootstrap.servers": devcluster.bootstrap, "acks": "all", "batch.size": 16_384})
    for _ in range(size // 1_000):
        producer.produce(topic, os.urandom(1_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def replicas(devcluster: DevCluster, topic: str) -> list[int]:
    return list(devcluster.partitions(topic)[0]["replicas"])


def other_placement(devcluster: DevCluster, topic: str) -> list[int]:
    """Another placement of partition 0: the broker without a replica of it, and its leader."""
    now = replicas(devcluster, topic)
    return [next(b for b in (1, 2, 3) if b not in now), now[0]]


def test_a_throttle_is_enforced_changed_in_flight_and_removed_at_the_end(devcluster: DevCluster) -> None:
    devcluster.topic("held", partitions=1, replication_factor=2)
    produce_bytes(devcluster, "held", 6_000_000)
    wait_for(lambda: (devcluster.partitions("held")[0]["size_bytes"] or 0) > 6_000_000, "the size to be known")
    scope = {
        "kind": "partitions",
        "partitions": [{"topic": "held", "partition": 0, "replicas": other_placement(devcluster, "held")}],
    }
    rate = 50_000  # the whole copy would take two minutes
    began = time.monotonic()
    move = devcluster.post("moves", {"scope": scope, "start": True, "throttle_bytes_per_s": rate, "comment": "test"})[
        "id"
    ]
    wait_for(lambda: len(throttles(devcluster, "held")) == 8, "the throttle to be seen by a client")

    def copied_bytes() -> int:
        return int(devcluster.get(f"moves/{move}")["bytes_done"] or 0)

    wait_for(lambda: copied_bytes() > 400_000, "a part to be copied", 90)
    seconds = time.monotonic() - began
    row = devcluster.get(f"moves/{move}")
    # One second's burst and a batch or two are not throttled. Sizes are reported late, never early.
    assert row["bytes_done"] <= rate * (seconds + 1) + 200_000, (row, seconds)
    assert (row["state"], row["throttle_bytes_per_s"]) == ("running", rate)
    devcluster.post(f"moves/{move}/throttle", {"throttle_bytes_per_s": 50_000_000, "comment": "night"})
    done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 60)
    assert done["state"] == "done"
    assert time.monotonic() - began < 6_000_000 / rate, "the new rate had no effect"
    assert throttles(devcluster, "held") == {}
    assert replicas(devcluster, "held") == scope["partitions"][0]["replicas"]
    story = [(t["state_from"], t["state_to"]) for t in devcluster.get(f"moves/{move}/history")["rows"]]
    assert story[0] == ("planned", "running") and story[-1][1] == "done"


class Stream:
    """Writes about `bytes_per_s` into partition 0 of a topic until the context ends."""

    def __init__(self, devcluster: DevCluster, topic: str, bytes_per_s: int) -> None:
        self._producer = Producer({"bootstrap.servers": devcluster.bootstrap, "acks": "all", "batch.size": 16_384})
        self._topic, self._rate, self._stop = topic, bytes_per_s, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for _ in range(self._rate // 10_000):
                self._producer.produce(self._topic, os.urandom(1_000), partition=0)
            self._producer.poll(0)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._producer.flush(30)


def test_a_throttle_below_the_incoming_rate_is_reported_within_a_minute(devcluster: DevCluster) -> None:
    devcluster.topic("outrun", partitions=1, replication_factor=2)
    produce_bytes(devcluster, "outrun", 2_000_000)
    scope = {"kind": "topic", "topic": "outrun", "brokers": other_placement(devcluster, "outrun")}
    with Stream(devcluster, "outrun", 200_000):
        began = time.monotonic()
        move = devcluster.post(
            "moves", {"scope": scope, "start": True, "throttle_bytes_per_s": 20_000, "comment": "test"}
        )["id"]
        row = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["needs_bytes_per_s"] and m, "the verdict", 60)
        assert time.monotonic() - began < 60
        assert row["eta_s"] is None
        (part,) = devcluster.get(f"moves/{move}/parts")["rows"]
        assert part["cause"] == "will_not_finish"
        # The recommended throttle is the incoming rate with headroom. A move with this throttle finishes under the same load.
        assert 100_000 < row["needs_bytes_per_s"] < 1_000_000
        devcluster.post(
            f"moves/{move}/throttle", {"throttle_bytes_per_s": 20 * row["needs_bytes_per_s"], "comment": "verdict"}
        )
        ended = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 90)
    assert (ended["state"], ended["needs_bytes_per_s"]) == ("done", None)
    assert throttles(devcluster, "outrun") == {}


def test_a_kafka_client_starts_lists_and_cancels_a_move_with_its_own_throttle(
    devcluster: DevCluster, kafka_python_admin: KafkaAdminClient
) -> None:
    devcluster.topic("clients", partitions=1, replication_factor=2)
    produce_bytes(devcluster, "clients", 4_000_000)
    before = replicas(devcluster, "clients")
    wanted, part = other_placement(devcluster, "clients"), TopicPartition("clients", 0)

    def configure(value: str | None) -> None:
        def entry(text: str) -> tuple[str, str | None]:
            return ("SET", text) if value is not None else ("DELETE", None)

        kafka_python_admin.alter_configs(
            [
                *(Resource(ConfigResourceType.BROKER, b, dict.fromkeys(RATES, entry(value or ""))) for b in BROKERS),
                Resource(ConfigResourceType.TOPIC, "clients", {LEADERS: entry("*"), FOLLOWERS: entry("*")}),
            ]
        )

    configure("100000")
    wait_for(lambda: len(throttles(devcluster, "clients")) == 8, "the client's own throttle")
    assert kafka_python_admin.alter_partition_reassignments({part: wanted}) == {part: None}
    listed: dict[Any, Any] = kafka_python_admin.list_partition_reassignments()
    assert sorted(listed[part]["replicas"]) == [1, 2, 3]
    assert (listed[part]["adding_replicas"], len(listed[part]["removing_replicas"])) == ([wanted[0]], 1)
    move = wait_for(lambda: devcluster.get("moves?state=unfinished")["rows"], "the move's row")[0]
    assert (move["origin"], move["state"], move["parts"]) == ("client", "running", 1)
    assert kafka_python_admin.alter_partition_reassignments({part: None}) == {part: None}
    ended = wait_for(lambda: (m := devcluster.get(f"moves/{move['id']}"))["finished_at"] and m, "the rollback", 60)
    assert ended["state"] == "cancelled"
    assert replicas(devcluster, "clients") == before
    assert kafka_python_admin.list_partition_reassignments() == {}
    rejected = kafka_python_admin.alter_partition_reassignments({part: None})[part]
    assert rejected is not None and rejected.errno == 85
    configure(None)
    assert wait_for(lambda: throttles(devcluster, "clients") == {}, "the client's throttle to be gone")
    # Without a throttle the move ends within seconds, and the operator can roll back a client's move.
    assert kafka_python_admin.alter_partition_reassignments({part: wanted}) == {part: None}
    wait_for(lambda: kafka_python_admin.list_partition_reassignments() == {}, "the client's move to end", 60)
    newest = devcluster.get("moves")["rows"][0]["id"]
    wait_for(lambda: devcluster.get(f"moves/{newest}")["state"] == "done", "its row to say so", 30)
    assert replicas(devcluster, "clients") == wanted
    devcluster.post(f"moves/{newest}/roll_back", {"comment": "test"})
    wait_for(lambda: devcluster.get(f"moves/{newest}")["state"] == "rolled_back", "the rollback", 60)
    assert replicas(devcluster, "clients") == before


def part_of(devcluster: DevCluster, move: int) -> Any:
    return devcluster.get(f"moves/{move}/parts")["rows"][0]


class Ledger:
    """Numbered records into partition 0 of a topic, idempotent, one after another, until the context ends; each with its acknowledged offset."""

    def __init__(self, devcluster: DevCluster, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": devcluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
            }
        )
        self._topic, self._stop = topic, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written: dict[int, bytes] = {}
        self.failed: list[str] = []

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.01):
            for _ in range(5):
                value = b"%d" % number
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
                number += 1
            self._producer.poll(0)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.written[message.offset()] = message.value()

    def __enter__(self) -> Ledger:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0


def read_all(devcluster: DevCluster, topic: str, count: int) -> dict[int, bytes]:
    """{offset: value} from the earliest offset on, at least `count` of them."""
    consumer = Consumer({"bootstrap.servers": devcluster.bootstrap, "group.id": "tails", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    out: dict[int, bytes] = {}
    deadline = time.monotonic() + 60
    while len(out) < count and time.monotonic() < deadline:
        for m in consumer.consume(1_000, 1.0):
            assert m.error() is None, m.error()
            assert m.offset() not in out, f"offset {m.offset()} twice"
            out[m.offset()] = m.value()
    consumer.close()
    return out


def test_a_tail_move_copies_no_old_data_and_loses_no_acknowledged_record(
    devcluster: DevCluster,
) -> None:
    old = 4_000_000
    devcluster.topic("tailed", partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    produce_bytes(devcluster, "tailed", old)
    wait_for(lambda: (devcluster.partitions("tailed")[0]["size_bytes"] or 0) > old, "the size to be known")
    wanted = other_placement(devcluster, "tailed")
    target, source = wanted[0], int(devcluster.partitions("tailed")[0]["leader"])
    scope = {"kind": "partitions", "partitions": [{"topic": "tailed", "partition": 0, "replicas": wanted}]}
    dry = devcluster.post("moves", {"scope": scope, "dry": True})
    assert dry["bytes_to_copy"] > old and dry["tail"]["bytes_to_copy"] == 0 and dry["tail"]["ends_in_s"] > 3600

    def move_partition() -> Any:
        return part_of(devcluster, move)

    with Ledger(devcluster, "tailed") as ledger:
        move = devcluster.post("moves", {"scope": scope, "mode": "tail", "start": True, "comment": "test"})["id"]
        wait_for(lambda: move_partition()["state"] == "ready", "the new replica to be in sync", 60)
        begins = move_partition()["tail_start"]
        devcluster.kill(f"broker-{source}")
        wait_for(
            lambda: move_partition()["state"] == "ready" and len(devcluster.partitions("tailed")[0]["isr"]) == 2,
            "all brokers to be back",
            90,
        )
        assert move_partition()["tail_start"] == begins, "a new leader reset a replica that had started"
        assert target not in replicas(devcluster, "tailed"), "clients see an observer as a replica"
        alone = {"kind": "move.delete_records", "target": str(move), "arguments": {"confirm": "tailed"}, "comment": ""}
        rejected, response = devcluster.call("POST", "proposals", alone)
        assert rejected == 400, response
        cut = devcluster.get(f"moves/{move}/delete-records")
        assert (cut["problem"], cut["confirm"], cut["parts"][0]["end"]) == (None, "tailed", begins)
        copied = move_partition()["bytes_done"]
        assert 0 < copied < old, "old data was copied"
        devcluster.propose_and_approve("move.delete_records", str(move), {"confirm": "tailed"})
        done = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 150)
        assert done["state"] == "done", done["note"]
        compared = move_partition()["compared"]
        assert (
            (compared["equal"], compared["first"]) == (True, begins)
            and compared["after"] > begins
            and compared["bytes"] > 0
        )
        assert compared["text"].endswith("are equal on 3 replicas."), compared
        time.sleep(1)  # the new leader appends records that the old replicas do not get
    assert replicas(devcluster, "tailed") == wanted and not ledger.failed
    since = {o: v for o, v in ledger.written.items() if o >= begins}
    found = read_all(devcluster, "tailed", len(since))
    assert min(found) == begins and found == since
    assert sorted(map(int, found.values())) == sorted({int(v) for v in found.values()}), "none twice"


def change_value_on_disk(segment: Path, at_least: int) -> int:
    """Changes a value in one batch on a broker's disk and fixes its checksum, which the broker cannot detect. Returns the batch's first offset."""
    data = bytearray(segment.read_bytes())
    place, header = next((p, h) for p, h in batches(bytes(data)) if h.base_offset >= at_least)
    end = place + header.size
    data[end - 2] ^= 1  # a letter of the last record's value
    data[place + 17 : place + 21] = crc32c(bytes(data[place + 21 : end])).to_bytes(4, "big")
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(data[place:end])
    return header.base_offset


def test_a_new_replica_that_differs_in_one_byte_does_not_replace_the_old_ones(devcluster: DevCluster) -> None:
    devcluster.topic("falsified", partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    produce_bytes(devcluster, "falsified", 200_000)
    before, wanted = replicas(devcluster, "falsified"), other_placement(devcluster, "falsified")
    scope = {"kind": "partitions", "partitions": [{"topic": "falsified", "partition": 0, "replicas": wanted}]}
    move = devcluster.post("moves", {"scope": scope, "mode": "tail", "start": True, "comment": "test"})["id"]
    wait_for(lambda: part_of(devcluster, move)["state"] == "ready", "the new replica to be in sync", 60)
    begins = part_of(devcluster, move)["tail_start"]
    produce_bytes(devcluster, "falsified", 300_000)
    (folder,) = devcluster.folder.glob(f"**/broker-{wanted[0]}/**/falsified-0")
    (segment,) = [f for f in folder.glob("*.log") if int(f.stem) == begins]
    wait_for(lambda: segment.stat().st_size > 300_000, "the new replica to have it")
    offset = change_value_on_disk(segment, begins + 100)
    devcluster.propose_and_approve("move.delete_records", str(move), {"confirm": "falsified"})
    ended = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the verdict", 60)
    part = part_of(devcluster, move)
    assert (ended["state"], part["state"], part["compared"]["equal"]) == ("failed", "rejected", False), part
    assert f"Broker {wanted[0]} and the leader {before[0]} have different records" in part["note"], part
    assert part["compared"]["first"] <= offset < part["compared"]["upto"]
    assert set(before) <= set(devcluster.partitions("falsified")[0]["isr"])
    devcluster.post(f"moves/{move}/roll_back", {"comment": "its disk returns wrong data"})
    wait_for(lambda: devcluster.get(f"moves/{move}")["state"] == "rolled_back", "the rollback", 60)
    assert replicas(devcluster, "falsified") == before
    assert len(read_all(devcluster, "falsified", 300)) == 300


def wait_for_end(devcluster: DevCluster, move: int, state: str = "done", seconds: float = 90) -> Any:
    row = wait_for(lambda: (m := devcluster.get(f"moves/{move}"))["finished_at"] and m, "the move's end", seconds)
    assert row["state"] == state, row["note"]
    return row


def test_a_pause_stops_new_copies_within_two_seconds(devcluster: DevCluster) -> None:
    """Counts the reassigned partitions from outside. One of three pauses must be as fast as required, so that a machine that stalls for a while does not
    fail the test. After each pause all other checks must pass.
    """
    count = 12
    places = {str(i): [1] for i in range(count)}
    devcluster.topic("paused", partitions=count, replication_factor=1, configs=ALONE, assignment=places)
    devcluster.fill("paused", count * 600)
    body = {
        "scope": {
            "kind": "partitions",
            "partitions": [{"topic": "paused", "partition": i, "replicas": [2]} for i in range(count)],
        },
        "start": True,
        "parts_in_flight_max": 1,
        "throttle_bytes_per_s": 400_000,
        "comment": "test",
    }
    move = devcluster.post("moves", body)["id"]

    def started_partitions() -> int:
        return sum(1 for p in devcluster.partitions("paused") if p["assignment_generation"])

    felt = 99.0
    for after in (2, 5, 8):
        wait_for(lambda n=after: started_partitions() >= n, "some partitions to start", 60)  # type: ignore[misc]
        devcluster.post(f"moves/{move}/pause", {})
        paused = last = time.monotonic()
        seen = started_partitions()
        while time.monotonic() < paused + 5:
            if (now := started_partitions()) != seen:
                seen, last = now, time.monotonic()
            time.sleep(0.05)
        assert seen < count, "no partition was left to start"
        assert last - paused < 4, "copies started long after the pause"
        felt = min(felt, last - paused)
        if felt < 2:
            break
        devcluster.post(f"moves/{move}/resume", {})
    assert felt < 2, felt
    devcluster.post(f"moves/{move}/cancel", {"comment": "test"})
    wait_for_end(devcluster, move, "cancelled")


def everything_of(devcluster: DevCluster, topic: str) -> str:
    """A topic's placement and all configs of the topic and the brokers, as a Kafka client reads them, as one text."""
    requested = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
    requested += [ConfigResource(ConfigResource.Type.BROKER, b) for b in BROKERS]
    lines = [
        f"{p.id}: {p.replicas}"
        for p in devcluster.admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
    ]
    for resource in requested:
        try:
            configs = devcluster.admin.describe_configs([resource])[resource].result(60)
        except TimeoutError as e:
            raise AssertionError(f"no response about {resource}") from e
        lines += sorted(f"{resource.name} {n}={c.value}" for n, c in configs.items() if not c.is_default)
    return "\n".join(lines)


def test_a_rollback_during_the_copy_restores_placement_and_configs_exactly(
    devcluster: DevCluster, kafka_python_admin: KafkaAdminClient
) -> None:
    """Placement with its replica order, and configs, including throttles that were set outside the move."""
    devcluster.topic(
        "exact", partitions=3, replication_factor=2, configs={"retention.ms": "86400000", "min.insync.replicas": "1"}
    )
    produce_bytes(devcluster, "exact", 2_000_000)
    kafka_python_admin.alter_configs(
        [
            Resource(ConfigResourceType.BROKER, "2", {RATES[0]: ("SET", "77000000")}),
            Resource(ConfigResourceType.TOPIC, "exact", {LEADERS: ("SET", "1:2,0:3")}),
        ]
    )
    wait_for(lambda: len(throttles(devcluster, "exact")) == 2, "throttles of another user")
    before, previous = everything_of(devcluster, "exact"), [p["replicas"] for p in devcluster.partitions("exact")]
    parts = [
        {"topic": "exact", "partition": i, "replicas": [next(b for b in (1, 2, 3) if b not in r), r[0]]}
        for i, r in enumerate(previous)
    ]
    scope = {"kind": "partitions", "partitions": parts}
    move = devcluster.post(
        "moves", {"scope": scope, "start": True, "throttle_bytes_per_s": 100_000, "comment": "test"}
    )["id"]
    wait_for(lambda: len(throttles(devcluster, "exact")) == 8, "the move's throttle in addition")
    wait_for(lambda: (devcluster.get(f"moves/{move}")["bytes_done"] or 0) > 200_000, "a part to be copied", 60)
    devcluster.post(f"moves/{move}/roll_back", {"comment": "test"})
    wait_for_end(devcluster, move, "rolled_back")
    assert everything_of(devcluster, "exact") == before
    planned = devcluster.get(f"moves/{move}/plan")["previous"]["partitions"]
    assert [p["replicas"] for p in planned] == previous
    kafka_python_admin.alter_configs([Resource(ConfigResourceType.BROKER, "2", {RATES[0]: ("DELETE", None)})])


def test_a_broker_is_filled_and_a_replication_factor_grows_and_shrinks_under_load(devcluster: DevCluster) -> None:
    # Earlier tests may have filled broker 3: so many new replicas on the others that it has less than its share.
    replicas = {b["broker_id"]: b["replicas"] for b in devcluster.get("brokers")["rows"]}
    partitions = max(4, 3 * replicas[3] - sum(replicas.values()) + 10)
    devcluster.topic(
        "grown",
        partitions=partitions,
        replication_factor=1,
        configs=ALONE,
        assignment={str(i): [1 + i % 2] for i in range(partitions)},
    )
    old = range(1_000_000, 1_004_000)
    producer = Producer({"bootstrap.servers": devcluster.bootstrap, "acks": "all"})
    for n in old:
        producer.produce("grown", b"%d" % n, partition=n % partitions)
    assert producer.flush(60) == 0

    def run_move(scope: dict[str, Any]) -> list[dict[str, Any]]:
        move = devcluster.post("moves", {"scope": scope, "start": True, "comment": "test"})["id"]
        wait_for_end(devcluster, move)
        parts: list[dict[str, Any]] = devcluster.get(f"moves/{move}/parts?limit=500")["rows"]
        for part in parts:
            placed = devcluster.partitions(part["topic"])[part["partition"]]
            assert (placed["replicas"], sorted(placed["isr"])) == (part["replicas_to"], sorted(part["replicas_to"]))
        return parts

    with Ledger(devcluster, "grown") as ledger:
        # Topics of other tests are in this cluster too: any of them may be moved to fill the broker.
        filled = run_move({"kind": "fill", "broker": 3})
        assert filled and all(3 in set(p["replicas_to"]) - set(p["replicas_from"]) for p in filled)
        run_move({"kind": "replication_factor", "topic": "grown", "replication_factor": 3})
        assert all(sorted(p["replicas"]) == [1, 2, 3] for p in devcluster.partitions("grown"))
        wait_for(
            lambda: all(p["leader"] == p["replicas"][0] for p in devcluster.partitions("grown")),
            "the preferred leaders: a periodic election may come between a look and the move",
            120,
        )
        leaders = [p["leader"] for p in devcluster.partitions("grown")]
        run_move({"kind": "replication_factor", "topic": "grown", "replication_factor": 1})
        assert [p["replicas"] for p in devcluster.partitions("grown")] == [[b] for b in leaders], "the leaders stay"
    assert not ledger.failed and len(ledger.written) > 100
    written = [*old, *(int(v) for v in ledger.written.values())]
    assert sorted(devcluster.numbers_of("grown")) == sorted(written)
