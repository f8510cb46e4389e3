"""Moves on a living house: throttles that brokers really keep, and Kafka's own clients that see and steer the same moves.

Checks: rates as measured from outside, configs as Kafka clients read them, rows over REST. Does not check: kills at each transition
(`make moves-matrix`), records (test_failover.py).
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
from confluent_kafka.admin import ConfigResource
from crc32c import crc32c
from kafka import TopicPartition
from kafka.admin import ConfigResource as Resource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from brokerd.wire.records import batches
from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
BROKERS = ("1", "2", "3")
ALONE = {"min.insync.replicas": "1"}
"""Of topics with one replica: a house of three asks for two."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    try:
        yield house
    finally:
        house.down()


@pytest.fixture(scope="module")
def kim(house: House) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=house.bootstrap)
    yield admin
    admin.close()


def throttles(house: House, topic: str) -> dict[str, str]:
    """Every throttle that a Kafka client finds on the brokers and on this topic."""
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
    asked += [ConfigResource(ConfigResource.Type.BROKER, b) for b in BROKERS]
    found = {}
    for resource in asked:
        configs = house.admin.describe_configs([resource])[resource].result(20)
        for name in (LEADERS, FOLLOWERS, *RATES):
            if name in configs and not configs[name].is_default:
                found[f"{resource.name} {name}"] = configs[name].value
    return found


def pour(house: House, topic: str, size: int) -> None:
    """`size` bytes into partition 0, in batches that are small beside a throttle: a batch is never cut."""
    producer = Producer({"bootstrap.servers": house.bootstrap, "acks": "all", "batch.size": 16_384})
    for _ in range(size // 1_000):
        producer.produce(topic, os.urandom(1_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def replicas(house: House, topic: str) -> list[int]:
    return list(house.partitions(topic)[0]["replicas"])


def other(house: House, topic: str) -> list[int]:
    """Where partition 0 might be: the broker that has no copy of it, and its leader."""
    now = replicas(house, topic)
    return [next(b for b in (1, 2, 3) if b not in now), now[0]]


def test_a_throttle_is_kept_changed_in_flight_and_gone_in_the_end(house: House) -> None:
    house.topic("held", partitions=1, replication_factor=2)
    pour(house, "held", 6_000_000)
    wait_for(lambda: (house.partitions("held")[0]["size_bytes"] or 0) > 6_000_000, "the size to be known")
    scope = {"kind": "partitions", "partitions": [{"topic": "held", "partition": 0, "replicas": other(house, "held")}]}
    rate = 50_000  # two minutes for all of it
    began = time.monotonic()
    move = house.post("moves", {"scope": scope, "start": True, "throttle_bytes_per_s": rate, "why": "test"})["id"]
    wait_for(lambda: len(throttles(house, "held")) == 8, "the throttle to be seen by a client")

    def copied() -> int:
        return int(house.get(f"moves/{move}")["bytes_done"] or 0)

    wait_for(lambda: copied() > 400_000, "a part to be copied", 90)
    seconds = time.monotonic() - began
    row = house.get(f"moves/{move}")
    # A second's burst and a batch or two are free; sizes are told late, never early.
    assert row["bytes_done"] <= rate * (seconds + 1) + 200_000, (row, seconds)
    assert (row["state"], row["throttle_bytes_per_s"]) == ("running", rate)
    house.post(f"moves/{move}/throttle", {"throttle_bytes_per_s": 50_000_000, "why": "night"})
    done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 60)
    assert done["state"] == "done"
    assert time.monotonic() - began < 6_000_000 / rate, "the new rate was not felt"
    assert throttles(house, "held") == {}
    assert replicas(house, "held") == scope["partitions"][0]["replicas"]
    story = [(t["state_from"], t["state_to"]) for t in house.get(f"moves/{move}/story")]
    assert story[0] == ("planned", "running") and story[-1][1] == "done"


class Stream:
    """Bytes into partition 0 of a topic, about `bytes_per_s` of them, until it is left."""

    def __init__(self, house: House, topic: str, bytes_per_s: int) -> None:
        self._producer = Producer({"bootstrap.servers": house.bootstrap, "acks": "all", "batch.size": 16_384})
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


def test_a_throttle_below_what_comes_in_is_named_before_a_minute_is_over(house: House) -> None:
    house.topic("outrun", partitions=1, replication_factor=2)
    pour(house, "outrun", 2_000_000)
    scope = {"kind": "topic", "topic": "outrun", "brokers": other(house, "outrun")}
    with Stream(house, "outrun", 200_000):
        began = time.monotonic()
        move = house.post("moves", {"scope": scope, "start": True, "throttle_bytes_per_s": 20_000, "why": "test"})["id"]
        row = wait_for(lambda: (m := house.get(f"moves/{move}"))["needs_bytes_per_s"] and m, "the verdict", 60)
        assert time.monotonic() - began < 60
        assert row["eta_s"] is None
        (part,) = house.get(f"moves/{move}/parts")["rows"]
        assert part["cause"] == "will_not_finish"
        # About what comes in, with headroom; and with that it does finish, while as much comes in.
        assert 100_000 < row["needs_bytes_per_s"] < 1_000_000
        house.post(f"moves/{move}/throttle", {"throttle_bytes_per_s": 20 * row["needs_bytes_per_s"], "why": "verdict"})
        ended = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 90)
    assert (ended["state"], ended["needs_bytes_per_s"]) == ("done", None)
    assert throttles(house, "outrun") == {}


def test_a_kafka_client_begins_sees_and_cancels_a_move_under_its_own_throttle(
    house: House, kim: KafkaAdminClient
) -> None:
    house.topic("clients", partitions=1, replication_factor=2)
    pour(house, "clients", 4_000_000)
    before = replicas(house, "clients")
    wanted, part = other(house, "clients"), TopicPartition("clients", 0)

    def configure(value: str | None) -> None:
        def entry(text: str) -> tuple[str, str | None]:
            return ("SET", text) if value is not None else ("DELETE", None)

        kim.alter_configs(
            [
                *(Resource(ConfigResourceType.BROKER, b, dict.fromkeys(RATES, entry(value or ""))) for b in BROKERS),
                Resource(ConfigResourceType.TOPIC, "clients", {LEADERS: entry("*"), FOLLOWERS: entry("*")}),
            ]
        )

    configure("100000")
    wait_for(lambda: len(throttles(house, "clients")) == 8, "the client's own throttle")
    assert kim.alter_partition_reassignments({part: wanted}) == {part: None}
    listed: dict[Any, Any] = kim.list_partition_reassignments()
    assert sorted(listed[part]["replicas"]) == [1, 2, 3]
    assert (listed[part]["adding_replicas"], len(listed[part]["removing_replicas"])) == ([wanted[0]], 1)
    move = wait_for(lambda: house.get("moves?working=true")["rows"], "the move's row")[0]
    assert (move["origin"], move["state"], move["parts"]) == ("client", "running", 1)
    assert kim.alter_partition_reassignments({part: None}) == {part: None}
    ended = wait_for(lambda: (m := house.get(f"moves/{move['id']}"))["finished_at"] and m, "the way back", 60)
    assert ended["state"] == "cancelled"
    assert replicas(house, "clients") == before
    assert kim.list_partition_reassignments() == {}
    refused = kim.alter_partition_reassignments({part: None})[part]
    assert refused is not None and refused.errno == 85
    configure(None)
    assert wait_for(lambda: throttles(house, "clients") == {}, "the client's throttle to be gone")
    # Unthrottled it is over in seconds, and the operator may roll back what a client began.
    assert kim.alter_partition_reassignments({part: wanted}) == {part: None}
    wait_for(lambda: kim.list_partition_reassignments() == {}, "the client's move to end", 60)
    newest = house.get("moves")["rows"][0]["id"]
    wait_for(lambda: house.get(f"moves/{newest}")["state"] == "done", "its row to say so", 30)
    assert replicas(house, "clients") == wanted
    house.post(f"moves/{newest}/roll_back", {"why": "test"})
    wait_for(lambda: house.get(f"moves/{newest}")["state"] == "rolled_back", "the way back", 60)
    assert replicas(house, "clients") == before


def part_of(house: House, move: int) -> Any:
    return house.get(f"moves/{move}/parts")["rows"][0]


class Ledger:
    """Numbered records into partition 0 of a topic, idempotent, one after the other, until it is left; each with the offset that was acknowledged."""

    def __init__(self, house: House, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": house.bootstrap,
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
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
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


def read_all(house: House, topic: str, count: int) -> dict[int, bytes]:
    """{offset: value} from the earliest on, at least `count` of them."""
    consumer = Consumer({"bootstrap.servers": house.bootstrap, "group.id": "tails", "enable.auto.commit": False})
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


def test_a_partition_leaves_a_broker_without_its_old_data_and_nothing_acknowledged_since_is_lost(house: House) -> None:
    old = 4_000_000
    house.topic("tailed", partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    pour(house, "tailed", old)
    wait_for(lambda: (house.partitions("tailed")[0]["size_bytes"] or 0) > old, "the size to be known")
    wanted = other(house, "tailed")
    target, source = wanted[0], int(house.partitions("tailed")[0]["leader"])
    scope = {"kind": "partitions", "partitions": [{"topic": "tailed", "partition": 0, "replicas": wanted}]}
    dry = house.post("moves", {"scope": scope, "dry": True})
    assert dry["bytes_to_copy"] > old and dry["tail"]["bytes_to_copy"] == 0 and dry["tail"]["ends_in_s"] > 3600

    def part() -> Any:
        return part_of(house, move)

    with Ledger(house, "tailed") as ledger:
        move = house.post("moves", {"scope": scope, "mode": "tail", "start": True, "why": "test"})["id"]
        wait_for(lambda: part()["state"] == "ready", "the new copy to be in step", 60)
        begins = part()["tail_start"]
        house.kill(f"broker-{source}")
        wait_for(
            lambda: part()["state"] == "ready" and len(house.partitions("tailed")[0]["isr"]) == 2, "all to be back", 90
        )
        assert part()["tail_start"] == begins, "who has begun is not begun anew by a new leader"
        assert target not in replicas(house, "tailed"), "to clients it holds nothing"
        alone = {"kind": "move.cut", "target": str(move), "arguments": {"confirm": "tailed"}, "why": ""}
        refused, answer = house.call("POST", "proposals", alone)
        assert refused == 400, answer
        cut = house.get(f"moves/{move}/cut")
        assert (cut["problem"], cut["confirm"], cut["parts"][0]["end"]) == (None, "tailed", begins)
        copied = part()["bytes_done"]
        assert 0 < copied < old, "of the old data nothing came"
        house.by_two("move.cut", str(move), {"confirm": "tailed"})
        done = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", 150)
        assert done["state"] == "done", done["note"]
        told = part()["compared"]
        assert (told["equal"], told["first"]) == (True, begins) and told["after"] > begins and told["bytes"] > 0
        assert told["text"].endswith("are equal on 3 copies."), told
        time.sleep(1)  # some are written to the new leader alone
    assert replicas(house, "tailed") == wanted and not ledger.failed
    since = {o: v for o, v in ledger.written.items() if o >= begins}
    found = read_all(house, "tailed", len(since))
    assert min(found) == begins and found == since
    assert sorted(map(int, found.values())) == sorted({int(v) for v in found.values()}), "none twice"


def falsify(segment: Path, at_least: int) -> int:
    """Another value in one batch of a log on a broker's disk, with a checksum that fits: what a broker cannot see. Its first offset."""
    data = bytearray(segment.read_bytes())
    place, header = next((p, h) for p, h in batches(bytes(data)) if h.base_offset >= at_least)
    end = place + header.size
    data[end - 2] ^= 1  # a letter of the last record's value
    data[place + 17 : place + 21] = crc32c(bytes(data[place + 21 : end])).to_bytes(4, "big")
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(data[place:end])
    return header.base_offset


def test_a_new_copy_that_differs_in_one_letter_does_not_take_the_place_of_the_old_ones(house: House) -> None:
    house.topic("falsified", partitions=1, replication_factor=2, configs={"min.insync.replicas": "2"})
    pour(house, "falsified", 200_000)
    before, wanted = replicas(house, "falsified"), other(house, "falsified")
    scope = {"kind": "partitions", "partitions": [{"topic": "falsified", "partition": 0, "replicas": wanted}]}
    move = house.post("moves", {"scope": scope, "mode": "tail", "start": True, "why": "test"})["id"]
    wait_for(lambda: part_of(house, move)["state"] == "ready", "the new copy to be in step", 60)
    begins = part_of(house, move)["tail_start"]
    pour(house, "falsified", 300_000)
    (folder,) = house.folder.glob(f"**/broker-{wanted[0]}/**/falsified-0")
    (segment,) = [f for f in folder.glob("*.log") if int(f.stem) == begins]
    wait_for(lambda: segment.stat().st_size > 300_000, "the new copy to hold it")
    offset = falsify(segment, begins + 100)
    house.by_two("move.cut", str(move), {"confirm": "falsified"})
    ended = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the verdict", 60)
    part = part_of(house, move)
    assert (ended["state"], part["state"], part["compared"]["equal"]) == ("failed", "stuck", False), part
    assert f"Broker {wanted[0]} and the leader {before[0]} differ" in part["note"], part
    assert part["compared"]["first"] <= offset < part["compared"]["upto"]
    assert set(before) <= set(house.partitions("falsified")[0]["isr"])
    house.post(f"moves/{move}/roll_back", {"why": "its disk lies"})
    wait_for(lambda: house.get(f"moves/{move}")["state"] == "rolled_back", "the way back", 60)
    assert replicas(house, "falsified") == before
    assert len(read_all(house, "falsified", 300)) == 300


def ended(house: House, move: int, state: str = "done", seconds: float = 90) -> Any:
    row = wait_for(lambda: (m := house.get(f"moves/{move}"))["finished_at"] and m, "the move's end", seconds)
    assert row["state"] == state, row["note"]
    return row


def test_after_a_pause_no_copy_begins_and_it_is_felt_within_two_seconds(house: House) -> None:
    """Seen from outside: which partitions were placed anew. One pause of three must be as fast, so that a machine that stands still for a while is no
    verdict; after each of them all must hold."""
    count = 12
    places = {str(i): [1] for i in range(count)}
    house.topic("paused", partitions=count, replication_factor=1, configs=ALONE, assignment=places)
    house.fill("paused", count * 600)
    body = {
        "scope": {"kind": "partitions", "partitions": [{"topic": "paused", "partition": i, "replicas": [2]} for i in range(count)]},
        "start": True, "parts_in_flight_max": 1, "throttle_bytes_per_s": 400_000, "why": "test",
    }  # fmt: skip
    move = house.post("moves", body)["id"]

    def begun() -> int:
        return sum(1 for p in house.partitions("paused") if p["assignment_generation"])

    felt = 99.0
    for after in (2, 5, 8):
        wait_for(lambda n=after: begun() >= n, "some to begin", 60)  # type: ignore[misc]
        house.post(f"moves/{move}/pause", {})
        paused = last = time.monotonic()
        seen = begun()
        while time.monotonic() < paused + 5:
            if (now := begun()) != seen:
                seen, last = now, time.monotonic()
            time.sleep(0.05)
        assert seen < count, "nothing was left to begin"
        assert last - paused < 4, "copies begin long after the pause"
        felt = min(felt, last - paused)
        if felt < 2:
            break
        house.post(f"moves/{move}/resume", {})
    assert felt < 2, felt
    house.post(f"moves/{move}/cancel", {"why": "test"})
    ended(house, move, "cancelled")


def everything_of(house: House, topic: str) -> str:
    """What a Kafka client sees of a topic's placement and of all that is set on it and on the brokers, as one text."""
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic)]
    asked += [ConfigResource(ConfigResource.Type.BROKER, b) for b in BROKERS]
    lines = [
        f"{p.id}: {p.replicas}" for p in house.admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
    ]
    for resource in asked:
        configs = house.admin.describe_configs([resource])[resource].result(20)
        lines += sorted(f"{resource.name} {n}={c.value}" for n, c in configs.items() if not c.is_default)
    return "\n".join(lines)


def test_rolled_back_in_mid_copy_all_is_byte_for_byte_as_before(house: House, kim: KafkaAdminClient) -> None:
    """Placement in its order, and configs: also those throttles that somebody else had set."""
    house.topic(
        "exact", partitions=3, replication_factor=2, configs={"retention.ms": "86400000", "min.insync.replicas": "1"}
    )
    pour(house, "exact", 2_000_000)
    kim.alter_configs(
        [
            Resource(ConfigResourceType.BROKER, "2", {RATES[0]: ("SET", "77000000")}),
            Resource(ConfigResourceType.TOPIC, "exact", {LEADERS: ("SET", "1:2,0:3")}),
        ]
    )
    wait_for(lambda: len(throttles(house, "exact")) == 2, "somebody's own throttles")
    before, previous = everything_of(house, "exact"), [p["replicas"] for p in house.partitions("exact")]
    parts = [
        {"topic": "exact", "partition": i, "replicas": [next(b for b in (1, 2, 3) if b not in r), r[0]]}
        for i, r in enumerate(previous)
    ]
    scope = {"kind": "partitions", "partitions": parts}
    move = house.post("moves", {"scope": scope, "start": True, "throttle_bytes_per_s": 100_000, "why": "test"})["id"]
    wait_for(lambda: len(throttles(house, "exact")) == 8, "the move's throttle beside it")
    wait_for(lambda: (house.get(f"moves/{move}")["bytes_done"] or 0) > 200_000, "a part to be copied", 60)
    house.post(f"moves/{move}/roll_back", {"why": "test"})
    ended(house, move, "rolled_back")
    assert everything_of(house, "exact") == before
    planned = house.get(f"moves/{move}/plan")["previous"]["partitions"]
    assert [p["replicas"] for p in planned] == previous
    kim.alter_configs([Resource(ConfigResourceType.BROKER, "2", {RATES[0]: ("DELETE", None)})])


def test_a_broker_is_filled_and_a_replication_factor_grows_and_shrinks_under_load(house: House) -> None:
    house.topic(
        "grown", partitions=4, replication_factor=1, configs=ALONE, assignment={str(i): [1 + i % 2] for i in range(4)}
    )
    old = range(1_000_000, 1_004_000)
    producer = Producer({"bootstrap.servers": house.bootstrap, "acks": "all"})
    for n in old:
        producer.produce("grown", b"%d" % n, partition=n % 4)
    assert producer.flush(60) == 0

    def moved(scope: dict[str, Any]) -> list[dict[str, Any]]:
        move = house.post("moves", {"scope": scope, "start": True, "why": "test"})["id"]
        ended(house, move)
        parts: list[dict[str, Any]] = house.get(f"moves/{move}/parts?per_page=500")["rows"]
        for part in parts:
            placed = house.partitions(part["topic"])[part["partition"]]
            assert (placed["replicas"], sorted(placed["isr"])) == (part["replicas_to"], sorted(part["replicas_to"]))
        return parts

    with Ledger(house, "grown") as ledger:
        # Other tests' topics lie in this house, too: any of them may be what fills it.
        filled = moved({"kind": "fill", "broker": 3})
        assert filled and all(3 in set(p["replicas_to"]) - set(p["replicas_from"]) for p in filled)
        moved({"kind": "replication_factor", "topic": "grown", "replication_factor": 3})
        assert all(sorted(p["replicas"]) == [1, 2, 3] for p in house.partitions("grown"))
        leaders = [p["leader"] for p in house.partitions("grown")]
        moved({"kind": "replication_factor", "topic": "grown", "replication_factor": 1})
        assert [p["replicas"] for p in house.partitions("grown")] == [[b] for b in leaders], "the leaders stay"
    assert not ledger.failed and len(ledger.written) > 100
    written = [*old, *(int(v) for v in ledger.written.values())]
    assert sorted(house.everything("grown")) == sorted(written)
