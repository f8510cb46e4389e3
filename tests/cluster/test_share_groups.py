"""Share groups (KIP-932) on processes: brokers are killed while members acknowledge, release and crash.

Judged: every record is accepted or archived after its deliveries. A record whose acceptance was confirmed is not delivered again. A record has one
holder until its lock ends or the holder gives it up.
"""

from __future__ import annotations

import itertools
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from brokerd.sharing.delivery import AcknowledgeType
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


def prepare(cluster: LocalCluster, name: str, partitions: int = 3) -> None:
    """A topic, and a share group of the same name that starts at the first record."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(name, partitions, 3, config=config)])[name].result(30)
    earliest = ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[earliest])
    admin.incremental_alter_configs([resource])[resource].result(30)


def produce(cluster: LocalCluster, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    errors: list[str] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, message: errors.append(str(error)) if error else None)
    assert producer.flush(60) == 0
    assert errors == []


def judge(members: Sequence[ShareMember], *, killed_brokers: bool = False) -> None:
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
    judge(members)


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
        wait_for(lambda: _most(members, bad) >= 3, "three deliveries of each bad record", 60)
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
    judge(members)


def _most(members: Sequence[ShareMember], values: Sequence[str]) -> int:
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
    judge(members, killed_brokers=True)
    assert set(written) - set(accepted_values(members)) <= possible | {d.value for m in members for d in m.unknown}
