"""Share groups (KIP-932) on processes: brokers are killed while members acknowledge, release and crash.

Judged: every record is accepted or archived after its deliveries. A record whose acceptance was confirmed is not delivered again. A record has one
holder until its lock ends or the holder gives it up.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import AcknowledgeType as ShareType
from confluent_kafka import Message, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from brokerd.sharing.delivery import AcknowledgeType, RecordsInFlight
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.share_groups import describe_in_flight
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.share_consumer import Delivery, ShareMember

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
LOCK_S = 2.0
SETTINGS = {
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "3",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("kip932"), 3, SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: LocalCluster) -> None:
    cluster.until_at_rest()


def prepare(cluster: LocalCluster, name: str, partitions: int = 3, **configs: str) -> None:
    """A topic, and a share group of the same name that starts at the first record and has these configs, with `_` for a dot."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(name, partitions, 3, config=config)])[name].result(30)
    entries = [
        ConfigEntry(
            config.replace("_", "."),
            value,
            source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
            incremental_operation=AlterConfigOpType.SET,
        )
        for config, value in {"share_auto_offset_reset": "earliest", **configs}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def produce(cluster: LocalCluster, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    errors: list[str] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, message: errors.append(str(error)) if error else None)
    assert producer.flush(60) == 0
    assert errors == []


def check_deliveries(members: Sequence[ShareMember], *, killed_brokers: bool = False) -> None:
    """No record is delivered after its confirmed acceptance, and no record has two holders within a lock."""
    accepted: dict[tuple[int, int], float] = {}
    ended: dict[tuple[str, int, int, int], float] = {}
    for member in members:
        for d, kind, at_s in member.confirmed:
            place = (d.partition, d.offset)
            if kind is AcknowledgeType.ACCEPT:
                assert place not in accepted, f"{place} was accepted twice"
                accepted[place] = at_s
            ended[d.member, *place, d.count] = at_s
    by_place: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
    for d in (d for member in members for d in member.deliveries):
        by_place[d.partition, d.offset].append(d)
    for place, deliveries in by_place.items():
        deliveries.sort(key=lambda d: d.received_s)
        assert place not in accepted or deliveries[-1].received_s <= accepted[place], f"{place} was delivered again"
        for before, after in itertools.pairwise(deliveries):
            given_up_s = ended.get((before.member, *place, before.count))
            if killed_brokers or given_up_s is not None:
                continue  # a new leader knows no locks
            ends_s = next(m.ends_s for m in members if m.member_id == before.member)
            ended_before = ends_s is not None and ends_s <= after.received_s
            assert ended_before or after.received_s - before.received_s >= LOCK_S * 0.9, f"{place} had two holders"


def accepted_values(members: Sequence[ShareMember]) -> Counter[str]:
    return Counter(d.value for member in members for d, kind, _ in member.confirmed if kind is AcknowledgeType.ACCEPT)


def test_members_share_partitions_and_crash(cluster: LocalCluster) -> None:
    """More members than partitions. A third of them crash with records in their hands; those records go to the others."""
    topic = "crashes"
    prepare(cluster, topic)
    values = [f"v{i}" for i in range(600)]
    members = [ShareMember(cluster, topic, topic) for _ in range(6)]
    try:
        produce(cluster, topic, values[:300])
        wait_for(lambda: len(accepted_values(members)) > 50, "the first records")
        for member in members[:2]:
            member.crash()
        produce(cluster, topic, values[300:])
        wait_for(lambda: len(accepted_values(members)) >= len(values), "every record to be accepted", 60)
    finally:
        for member in members[2:]:
            member.leave()
    assert set(accepted_values(members)) == set(values)
    check_deliveries(members)


def test_deliveries_are_counted_and_limited(cluster: LocalCluster) -> None:
    """Every fifth record is never accepted: it is released, or its lock ends. It is delivered three times, then no more."""
    topic = "limited"
    prepare(cluster, topic, 1)
    values = [str(i) for i in range(50)]

    def decide(d: Delivery) -> AcknowledgeType | None:
        if int(d.value) % 10 == 0:
            return AcknowledgeType.RELEASE
        return None if int(d.value) % 10 == 5 else AcknowledgeType.ACCEPT

    members = [ShareMember(cluster, topic, topic, decide) for _ in range(2)]
    try:
        produce(cluster, topic, values)
        wait_for(lambda: len(accepted_values(members)) >= 40, "the good records", 60)
        bad = [v for v in values if int(v) % 5 == 0]
        wait_for(lambda: least_delivery_count(members, bad) >= 3, "three deliveries of each bad record", 60)
        produce(cluster, topic, ["1001", "1002"])
        wait_for(lambda: len(accepted_values(members)) >= 42, "records after the bad ones", 60)
        # A member that leaves gives its deliveries back, as in Kafka: then a record could have its last delivery again.
        deliveries = [d for member in members for d in list(member.deliveries)]
    finally:
        for member in members:
            member.leave()
    counts: dict[str, list[int]] = defaultdict(list)
    for d in deliveries:
        counts[d.value].append(d.count)
    assert all(sorted(counts[v]) == [1, 2, 3] for v in bad), counts
    assert all(counts[v] == [1] for v in values if v not in bad)
    check_deliveries(members)


def test_an_operator_sees_which_member_holds_records(cluster: LocalCluster) -> None:
    """A member accepts nothing: its records are counted by the leader until their locks end, and wait for another delivery when it has left."""
    topic = "unacknowledged"
    prepare(cluster, topic, 1, share_record_lock_duration_ms="20000")
    member = ShareMember(cluster, topic, topic, lambda d: None)
    try:
        produce(cluster, topic, [str(i) for i in range(5)])
        wait_for(lambda: len(member.deliveries) >= 5, "the deliveries", 60)
        (found,) = in_flight(cluster, topic)
        assert found.acquired == {member.member_id: 5}
        assert found.lock_ms is not None and 0 < found.lock_ms <= 20_000
        assert (found.redelivery, found.in_flight) == (0, 5)
    finally:
        member.leave()
    wait_for(lambda: not any(x.acquired for x in in_flight(cluster, topic)), "the end of the locks", 60)


def in_flight(cluster: LocalCluster, topic: str) -> list[RecordsInFlight]:
    """As the control plane reads it from all brokers, for the group with the name of the topic."""
    found = []
    for host, port in (address.split(":") for address in cluster.bootstrap.split(",")):
        with closing(KafkaConnection(host, int(port))) as connection:
            found += describe_in_flight(connection, topic).values()
    return found


class OrderedMember:
    """A share consumer of librdkafka in a thread. It releases the record of every 20th offset once, with all later records of this key in the same poll.
    `work`: (key, offset, time of the poll, time before the commit); `accepted`: (key, offset, time)."""

    def __init__(
        self, cluster: LocalCluster, group: str, stop: threading.Event, released: set[tuple[int, int]]
    ) -> None:
        self._released = released
        self.work: list[tuple[bytes, tuple[int, int], float, float]] = []
        self.accepted: list[tuple[bytes, tuple[int, int], float]] = []
        self._settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
        }
        self._group, self._stop = group, stop
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with ShareConsumer(self._settings) as consumer:
            consumer.subscribe([self._group])
            while not self._stop.is_set():
                messages = [message for message in consumer.poll(0.2) if not message.error()]
                if messages:
                    self._process(consumer, messages)

    def _process(self, consumer: ShareConsumer, messages: Sequence[Message]) -> None:
        polled_s, failed, done = time.monotonic(), set[bytes](), []
        for message in messages:
            key, place = message.key(), (message.partition(), message.offset())
            if place[1] % 20 == 0 and place not in self._released:
                self._released.add(place)
                failed.add(key)
            consumer.acknowledge(message, ShareType.RELEASE if key in failed else ShareType.ACCEPT)
            if key not in failed:
                done.append((key, place))
        time.sleep(0.02)
        before_s = time.monotonic()
        self.work += [(m.key(), (m.partition(), m.offset()), polled_s, before_s) for m in messages]
        consumer.commit_sync(30.0)
        self.accepted += [(key, place, before_s) for key, place in done]


def test_members_process_the_records_of_a_key_one_after_the_other(cluster: LocalCluster) -> None:
    """Members of librdkafka with `weir.share.key.order.enable`: no key is at two members at the same time, and each key is accepted in order."""
    topic, stop, released = "ordered", threading.Event(), set[tuple[int, int]]()
    prepare(cluster, topic, 2, weir_share_key_order_enable="true")
    small = {"batch.num.messages": 3}  # many batches, because a member gets whole batches
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **small})
    for i in range(400):
        producer.produce(topic, str(i), key=f"k{i * i % 13}")
    assert producer.flush(60) == 0
    members = [OrderedMember(cluster, topic, stop, released) for _ in range(4)]
    try:
        wait_for(lambda: sum(len(m.accepted) for m in members) >= 400, "every record to be accepted", 120)
    finally:
        stop.set()
        for member in members:
            member.thread.join(60)
    work = sorted((key, from_s, to_s, n) for n, m in enumerate(members) for key, _, from_s, to_s in m.work)
    for (key, _, to_s, n), (next_key, from_s, _, other) in itertools.pairwise(work):
        assert key != next_key or n == other or to_s <= from_s, f"{key!r} was at two members"
    by_key: dict[bytes, list[tuple[float, tuple[int, int]]]] = defaultdict(list)
    for key, place, at_s in (a for m in members for a in m.accepted):
        by_key[key].append((at_s, place))
    assert sum(map(len, by_key.values())) == 400, "a record was accepted twice"
    for key, found in by_key.items():
        assert sorted(found) == sorted(found, key=lambda f: f[1]), f"{key!r} was accepted in another order"
    assert len([m for m in members if m.accepted]) > 1, "one member got everything"
    assert len(released) >= 19, "few records were released"


def least_delivery_count(members: Sequence[ShareMember], values: Sequence[str]) -> int:
    seen = Counter(d.value for member in members for d in list(member.deliveries))
    return min(seen[v] for v in values)


def test_no_acknowledgement_is_lost_when_brokers_are_killed(cluster: LocalCluster) -> None:
    """Two brokers are killed in turn. Each leads partitions, and is share coordinator and perhaps group coordinator."""
    topic = "kills"
    prepare(cluster, topic)
    members = [ShareMember(cluster, topic, topic) for _ in range(4)]
    written: list[str] = []
    try:
        for broker_id in (1, 2):
            more = [f"{broker_id}-{i}" for i in range(200)]
            produce(cluster, topic, more)
            written += more
            seen = len(accepted_values(members))
            wait_for(lambda seen=seen: len(accepted_values(members)) > seen, "some records", 60)  # type: ignore[misc]
            cluster.kill(f"broker-{broker_id}", signal.SIGKILL)
            wait_for(
                lambda broker_id=broker_id: broker_id not in cluster.image.live_brokers(),  # type: ignore[misc]
                "the broker to be dead",
                60,
            )
            more = [f"after-{broker_id}-{i}" for i in range(100)]
            produce(cluster, topic, more)
            written += more
            cluster.start_broker(broker_id)
            cluster.until_at_rest()
        possible = {d.value for member in members for d in member.unknown}
        wait_for(
            lambda: set(written) <= set(accepted_values(members)) | {d.value for m in members for d in m.unknown},
            "every record to be accepted",
            90,
        )
    finally:
        for member in members:
            member.leave()
    check_deliveries(members, killed_brokers=True)
    assert set(written) - set(accepted_values(members)) <= possible | {d.value for m in members for d in m.unknown}
