"""Topics, producers and groups of `make mirror`. Each record has a header `id`, so that it is recognized in both clusters."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupTopicPartitions,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.mirror.copies import Copy, Place

ORDERS, LEDGER, ACCOUNTS, CLICKS = "orders", "ledger", "accounts", "clicks"
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    ORDERS: (6, {"retention.ms": "7776000000", "max.message.bytes": "2000000"}),
    LEDGER: (3, {"compression.type": "zstd", "segment.bytes": "16777216"}),
    ACCOUNTS: (2, {"cleanup.policy": "compact", "min.compaction.lag.ms": "1000", "delete.retention.ms": "3600000"}),
    CLICKS: (
        1,
        {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact,delete", "retention.ms": "604800000"},
    ),
}
"""Topic -> (partitions, configs)."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PAST_MS = int(time.time() * 1000) - 6 * 3_600_000
"""Timestamps of the records of `orders` begin here: hours before a mirror copies them, and within the retention of the topic."""
SECONDS = 120

Settings = Mapping[str, str]


_admins: dict[str, AdminClient] = {}


def admin(cluster: Settings) -> AdminClient:
    """One client per cluster: a request of a client that nothing refers to is cancelled."""
    address = cluster["bootstrap.servers"]
    if address not in _admins:
        _admins[address] = AdminClient({**cluster, "log_level": 0})
    return _admins[address]


# -- preparation -----------------------------------------------------------------------------------------------------------
def create_topics(cluster: Settings) -> None:
    made = admin(cluster).create_topics([NewTopic(n, p, 1, config=c) for n, (p, c) in TOPICS.items()])
    for future in made.values():
        future.result(SECONDS)


def acls() -> list[AclBinding]:
    def rule(
        name: str, pattern: ResourcePatternType, who: str, op: AclOperation, kind: AclPermissionType
    ) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, name, pattern, who, "*", op, kind)

    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    return [
        rule(ORDERS, literal, "User:billing", AclOperation.READ, allow),
        rule(ORDERS, literal, "User:shop", AclOperation.WRITE, allow),
        rule("acc", prefixed, "User:views", AclOperation.READ, allow),
        rule(LEDGER, literal, "User:auditor", AclOperation.ALL, allow),
        rule(LEDGER, literal, "User:guest", AclOperation.READ, deny),
    ]


def create_acls(cluster: Settings) -> None:
    for future in admin(cluster).create_acls(acls()).values():
        future.result(SECONDS)


def topic_acls(cluster: Settings) -> set[tuple[str, str, str, str, str]]:
    """(resource, pattern, principal, operation, permission) of each ACL of a topic."""
    every = AclBindingFilter(
        ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found = admin(cluster).describe_acls(every).result(SECONDS)
    return {
        (a.name, a.resource_pattern_type.name, a.principal, a.operation.name, a.permission_type.name) for a in found
    }


def configs(cluster: Settings, topic: str) -> dict[str, str]:
    """Configs that the topic has itself."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin(cluster).describe_configs([resource])[resource].result(SECONDS)
    return {n: str(e.value) for n, e in found.items() if int(e.source) == 1}  # DYNAMIC_TOPIC_CONFIG


def set_config(cluster: Settings, topic: str, name: str, value: str | None) -> None:
    """Without a value the config is deleted."""
    op = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value or "", incremental_operation=op)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin(cluster).incremental_alter_configs([resource])[resource].result(SECONDS)


def partitions(cluster: Settings, topic: str) -> int:
    known = admin(cluster).list_topics(timeout=SECONDS).topics
    return len(known[topic].partitions) if topic in known else 0


# -- records ---------------------------------------------------------------------------------------------------------------
class Writer(threading.Thread):
    """Writes until `stop`: `orders` with each codec, `ledger` in transactions of which every third is aborted, `accounts` with tombstones, `clicks`.
    `committed`: the records of each topic that a reader of committed records must see."""

    def __init__(self, cluster: Settings, name: str, rounds: int = 0, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.label, self.rounds, self.pause_s = name, rounds, pause_s
        self.committed: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self.error: BaseException | None = None
        self._stop_asked = threading.Event()
        base = {**cluster, "log_level": 0, "enable.idempotence": True, "linger.ms": 5}
        self._plain = {c: Producer({**base, "compression.type": c}) for c in CODECS}
        self._transactional = Producer({**base, "transactional.id": f"ledger-{name}", "compression.type": "lz4"})
        self._errors: list[object] = []
        self._count = 0

    def run(self) -> None:
        try:
            self._transactional.init_transactions(SECONDS)
            while not self._stop_asked.is_set() and (not self.rounds or self._count < self.rounds):
                self._round(self._count)
                self._count += 1
                self._stop_asked.wait(self.pause_s)
            for producer in self._plain.values():
                assert producer.flush(SECONDS) == 0, "records were not delivered"
            assert not self._errors, self._errors[0]
        except BaseException as e:
            self.error = e

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(SECONDS)
        assert not self.is_alive(), "the writer does not end"
        if self.error is not None:
            raise AssertionError(f"the writer {self.label} failed") from self.error

    def _send(
        self, producer: Producer, topic: str, n: int, key: bytes | None, value: bytes | None, at_ms: int = 0
    ) -> None:
        headers: list[tuple[str, bytes | None]] = [("id", f"{self.label}-{topic}-{n}".encode()), ("empty", b"")]
        headers += [("none", None), ("twice", b"1"), ("twice", b"\x00\xff")]
        more: dict[str, Any] = {"timestamp": at_ms} if at_ms else {}
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=self._on_delivery, **more)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def _on_delivery(self, error: object, message: Message) -> None:
        if error and message.topic() != LEDGER:  # records of an aborted transaction have an error
            self._errors.append(error)

    def _round(self, r: int) -> None:
        for i, codec in enumerate(CODECS):
            for j in range(10):
                n = r * 50 + i * 10 + j
                key = None if n % 7 == 0 else f"customer-{n % 97}".encode()
                value = b"" if n % 11 == 0 else f"order {n} ".encode() * (n % 40)
                self._send(self._plain[codec], ORDERS, n, key, value, PAST_MS + n)
                self.committed[ORDERS] += 1
        for n in range(r * 4, r * 4 + 4):
            tombstone = n % 9 == 8
            self._send(self._plain["none"], ACCOUNTS, n, f"account-{n % 50}".encode(), None if tombstone else b"%d" % n)
            self._send(self._plain["gzip"], CLICKS, n, f"{self.label}-{n}".encode(), b"click")
            self.committed[ACCOUNTS] += 1
            self.committed[CLICKS] += 1
        self._transactional.begin_transaction()
        for n in range(r * 10, r * 10 + 10):
            self._send(self._transactional, LEDGER, n, f"entry-{n % 31}".encode(), b"amount %d" % n)
        if r % 3 == 2:
            self._transactional.flush(SECONDS)
            self._transactional.abort_transaction(SECONDS)
        else:
            self._transactional.commit_transaction(SECONDS)
            self.committed[LEDGER] += 10


def end_offsets(cluster: Settings, topic: str) -> dict[Place, int]:
    """The end offset of each partition, as a reader of uncommitted records sees it."""
    reader = Consumer({**cluster, "group.id": "ends", "log_level": 0})
    try:
        count = len(reader.list_topics(topic, timeout=SECONDS).topics[topic].partitions)
        return {
            (topic, p): reader.get_watermark_offsets(TopicPartition(topic, p), timeout=SECONDS)[1] for p in range(count)
        }
    finally:
        reader.close()


def read(cluster: Settings, topic: str, starts: Mapping[Place, int] | None = None) -> dict[Place, list[Copy]]:
    """All committed records from `starts` on, by partition."""
    reader = Consumer(
        {
            **cluster,
            "group.id": "comparison",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        count = len(reader.list_topics(topic, timeout=SECONDS).topics[topic].partitions)
        places: dict[Place, list[Copy]] = {(topic, p): [] for p in range(count)}
        first = starts or {}
        for place in places:
            low, _ = reader.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS)
            reader.incremental_assign([TopicPartition(*place, offset=max(low, first.get(place, low)))])
        at_end: set[Place] = set()
        deadline = time.monotonic() + SECONDS
        while len(at_end) < len(places):
            assert time.monotonic() < deadline, (
                f"{topic}: the end of {len(places) - len(at_end)} partitions was not reached"
            )
            for message in reader.consume(5_000, 1.0):
                place = (topic, message.partition())
                if message.error() is None:
                    places[place].append(copy_of(message))
                elif message.error().name() == "_PARTITION_EOF":
                    at_end.add(place)
                else:
                    raise AssertionError(message.error())
        return places
    finally:
        reader.close()


def copy_of(message: Message) -> Copy:
    headers = tuple(message.headers() or ())
    kind, at_ms = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    identity = next((str(v, "utf-8") for k, v in headers if k == "id" and v is not None), "")
    key = message.key()
    return Copy(message.offset() or 0, identity, (key, message.value(), headers, at_ms), key)


# -- groups ----------------------------------------------------------------------------------------------------------------
def consume(
    cluster: Settings,
    group: str,
    topic: str,
    most: int,
    *,
    reset: str = "error",
    protocol: str = "classic",
    idle_s: float = 10,
) -> list[str]:
    """Reads as a member of the group until it has `most` records or none came for `idle_s`, commits, leaves. Returns the ids."""
    settings: dict[str, Any] = {**cluster, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": reset}
    settings |= {"isolation.level": "read_committed", "group.protocol": protocol, "log_level": 0}
    consumer = Consumer(settings)
    ids: list[str] = []
    assigned: list[TopicPartition] = []
    consumer.subscribe([topic], on_assign=lambda _, parts: assigned.extend(parts))
    deadline, last = time.monotonic() + SECONDS, time.monotonic()
    try:
        while len(ids) < most and time.monotonic() < deadline:
            found = consumer.consume(min(100, most - len(ids)), 0.5)
            for message in found:
                if message.error():
                    raise AssertionError(f"group {group}: {message.error()}")
                ids.append(copy_of(message).id)
            if found or not assigned:
                last = time.monotonic()
            elif time.monotonic() > last + idle_s:
                break
        if ids:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return ids


def positions(cluster: Settings, group: str) -> dict[Place, int]:
    """Committed offsets of the group."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin(cluster).list_consumer_group_offsets(asked)[group].result(SECONDS)
    return {(p.topic, p.partition): p.offset for p in found.topic_partitions if p.offset >= 0}
