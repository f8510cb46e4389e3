"""Invalid input on a real broker's port: the broker answers with Kafka's error code or closes the connection. It keeps running and loses nothing.

One broker serves all tests of this file. After each test the same process still serves and every record is still readable.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bench.__main__ import rss_mb
from brokerd.wire import records
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.compression import ZSTD
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import decode_response, encode_request
from brokerd.wire.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from brokerd.wire.primitives import put_uvarint
from brokerd.wire.records import Record
from tests.cluster.local import LocalCluster
from tests.protocol.generate import Generator

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
TOPIC = "kept"
KEPT = [f"record {i}" for i in range(500)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("bad"), 1, {"auto.create.topics.enable": "false"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for value in KEPT:
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(autouse=True)
def broker_still_serves(cluster: LocalCluster) -> Iterator[None]:
    """After every test the same process serves, and the topic has its records in order."""
    process = cluster.processes["broker-1"]
    yield
    assert process.poll() is None, cluster.log("broker-1")[-2000:]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "check"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    got: list[str] = []
    deadline = time.monotonic() + 30
    while len(got) < len(KEPT):
        assert time.monotonic() < deadline, f"{len(got)} of {len(KEPT)} records came"
        got += [m.value().decode() for m in consumer.consume(1000, 1) if not m.error()]
    consumer.close()
    assert got[: len(KEPT)] == KEPT
    assert "Traceback" not in cluster.log("broker-1")


class RawConnection:
    """A connection that sends arbitrary bytes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.sock = socket.create_connection(("127.0.0.1", cluster.ports[1]), timeout=20)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def is_closed(self) -> bool:
        """True if the broker closed the connection without a response."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(size)

    def _read_exactly(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            more = self.sock.recv(count - len(out))
            assert more, "closed in the middle of a response"
            out += more
        return out

    def send_request(self, key: int, version: int, body: Any) -> Any:
        self.send(encode_request(key, version, 5, "raw", body))
        correlation, response = decode_response(key, version, memoryview(self.frame()))
        assert correlation == 5
        return response

    def produce(self, data: bytes, *, topic: str = TOPIC, partition: int = 0, acks: int = 1, version: int = 9) -> Any:
        body = ProduceRequest(
            acks=acks,
            timeout_ms=5000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=data)]
                )
            ],
        )
        return self.send_request(ApiKey.PRODUCE, version, body).responses[0].partition_responses[0]


def batch(count: int = 3) -> bytearray:
    return bytearray(records.build([Record(i, 1_700_000_000_000, b"k", b"v" * 20) for i in range(count)]))


# -- frames --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "frame",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(200),
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff" + bytes(100),
        struct.pack(">i", 101 * 1024 * 1024),
        struct.pack(">i", 2) + b"\x00\x00",
        struct.pack(">i", 0),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 0, 2, 1, -1),
        struct.pack(">ihhih", 14, 3, 1, 1, -1) + b"\x7f\xff\xff\xff",
        struct.pack(">ihhih", 12, 3, 1, 1, 30000) + b"ab",
        random.Random(5).randbytes(5000),
    ],
    ids=[
        "http",
        "tls",
        "negative",
        "gigabytes",
        "above the limit",
        "two bytes",
        "nothing",
        "unknown key",
        "unknown version",
        "produce 2",
        "an array length that is too large",
        "a client id length that is too large",
        "noise",
    ],
)
def test_a_malformed_frame_closes_the_connection(cluster: LocalCluster, frame: bytes) -> None:
    with RawConnection(cluster) as raw:
        raw.send(frame)
        assert raw.is_closed()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(cluster: LocalCluster) -> None:
    with RawConnection(cluster) as raw:
        raw.send(struct.pack(">ihhih", 10, 18, 99, 77, -1))
        correlation, response = decode_response(18, 0, memoryview(raw.frame()))
        assert (correlation, response.error_code) == (77, ErrorCode.UNSUPPORTED_VERSION)
        assert {a.api_key for a in response.api_keys} == set(APIS)
        body = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        assert raw.send_request(18, 3, body).error_code == 0  # the same connection is still usable


def test_an_invalid_client_name_is_rejected_and_the_client_can_retry(cluster: LocalCluster) -> None:
    with RawConnection(cluster) as raw:
        body = ApiVersionsRequest(client_software_name="no spaces!", client_software_version="1")
        assert raw.send_request(18, 3, body).error_code == ErrorCode.INVALID_REQUEST
        assert raw.send_request(18, 0, ApiVersionsRequest()).error_code == 0


def test_incomplete_frames_allocate_no_memory_and_can_be_abandoned(cluster: LocalCluster) -> None:
    pid = cluster.processes["broker-1"].pid
    before = rss_mb(pid)
    half = [RawConnection(cluster) for _ in range(300)]
    for i, raw in enumerate(half):
        raw.send(struct.pack(">i", 90 * 1024 * 1024) + bytes(i))  # a large size, few bytes
    with RawConnection(cluster) as other:
        assert other.send_request(3, 9, MetadataRequest(topics=None)).brokers
    assert rss_mb(pid) - before < 60, "memory was allocated for bytes that were only announced"
    for raw in half:
        raw.sock.close()


def test_the_broker_stops_reading_from_a_client_that_reads_no_responses(cluster: LocalCluster) -> None:
    """A client sends Metadata requests and never reads a response: the broker's memory stays bounded and other clients are served."""
    pid = cluster.processes["broker-1"].pid
    before = rss_mb(pid)
    with RawConnection(cluster) as not_reading, RawConnection(cluster) as other:
        not_reading.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        not_reading.sock.settimeout(2)
        query = encode_request(3, 9, 1, "unread", MetadataRequest(topics=None)) * 1000
        try:
            for _ in range(2000):
                not_reading.send(query)
        except TimeoutError:
            pass
        else:
            raise AssertionError("the broker read two million requests of a client that read no response")
        assert other.send_request(3, 9, MetadataRequest(topics=None)).brokers
        assert rss_mb(pid) - before < 120


def test_five_hundred_idle_connections_stay_open(cluster: LocalCluster) -> None:
    idle = [RawConnection(cluster) for _ in range(500)]
    with RawConnection(cluster) as raw:
        assert raw.send_request(3, 9, MetadataRequest(topics=None)).brokers
    assert idle[250].send_request(18, 0, ApiVersionsRequest()).error_code == 0
    for raw in idle:
        raw.sock.close()


def test_thousands_of_damaged_requests_of_every_api(cluster: LocalCluster) -> None:
    """Valid requests of every API and version, each with some bytes changed: a response or a closed connection, never a hang."""
    rng = random.Random(11)
    cases = [(a, v) for a in APIS.values() for v in range(a.min_version, a.max_version + 1)]
    # Damaged requests that happen to be valid must not change the topic that is checked.
    harmless = [c for c in cases if c[0].key not in (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.PRODUCE)]
    raw = RawConnection(cluster)
    for number in range(3000):
        api, version = rng.choice(harmless)
        frame = bytearray(encode_request(api.key, version, 1, "fuzz", Generator(number).message(api.request, version)))
        for _ in range(rng.choice((0, 1, 2, 4))):
            if len(frame) > 15:
                frame[rng.randrange(12, len(frame))] = rng.randrange(256)
        try:
            raw.sock.sendall(frame)
            if number % 50 == 49:
                raw.sock.close()
                raw = RawConnection(cluster)
                assert raw.send_request(18, 0, ApiVersionsRequest()).error_code == 0
        except (BrokenPipeError, ConnectionResetError):
            raw.sock.close()
            raw = RawConnection(cluster)
    raw.sock.close()
    assert "failed" not in [line for line in cluster.log("broker-1").splitlines() if " ERROR " in line]


# -- produce requests -------------------------------------------------------------------------------------------------------
def damaged_batch(at: int, value: bytes) -> bytes:
    data = batch()
    data[at : at + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (damaged_batch(70, b"\x00\x01"), ErrorCode.CORRUPT_MESSAGE),
        (damaged_batch(17, b"\x00\x00\x00\x00"), ErrorCode.CORRUPT_MESSAGE),
        (damaged_batch(8, struct.pack(">i", 10_000)), ErrorCode.CORRUPT_MESSAGE),
        (damaged_batch(8, struct.pack(">i", -5)), ErrorCode.CORRUPT_MESSAGE),
        (bytes(batch()[:40]), ErrorCode.CORRUPT_MESSAGE),
        (bytes(batch()) + b"\x00", ErrorCode.CORRUPT_MESSAGE),
        (damaged_batch(16, b"\x01"), ErrorCode.INVALID_RECORD),
        (damaged_batch(16, b"\x00"), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "a changed byte",
        "a wrong CRC",
        "a length too long",
        "a negative length",
        "a torn batch",
        "a byte too many",
        "magic 1",
        "magic 0",
    ],
)
def test_a_damaged_batch_is_rejected_with_its_whole_request(
    cluster: LocalCluster, data: bytes, error: ErrorCode
) -> None:
    with RawConnection(cluster) as raw:
        before = raw.produce(bytes(batch(1))).base_offset
        response = raw.produce(data)
        assert (ErrorCode(response.error_code), response.base_offset) == (error, -1)
        response = raw.produce(bytes(batch()) + data)  # a valid batch before it is not written either
        assert (ErrorCode(response.error_code), response.base_offset) == (error, -1)
        assert raw.produce(bytes(batch(1))).base_offset == before + 1


def test_a_batch_that_is_too_large_unknown_partitions_and_invalid_acks(cluster: LocalCluster) -> None:
    with RawConnection(cluster) as raw:
        large = bytes(records.build([Record(0, 0, None, bytes(1_100_000))]))
        assert raw.produce(large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert raw.produce(bytes(batch()), topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert raw.produce(bytes(batch()), partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert raw.produce(bytes(batch()), partition=-1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert raw.produce(bytes(batch()), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert raw.produce(b"").error_code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
        assert raw.produce(bytes(batch())).error_code == ErrorCode.NONE


# -- names and settings ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["", ".", "..", "with space", "ümlaut", "a/b", "x" * 250, "semi;colon", "new\nline"])
def test_an_invalid_topic_name_is_rejected_and_never_created(cluster: LocalCluster, name: str) -> None:
    with RawConnection(cluster) as raw:
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        response = raw.send_request(3, 9, MetadataRequest(topics=[topic], allow_auto_topic_creation=True)).topics[0]
        assert response.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name != "":
            assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        names = [t.name for t in raw.send_request(3, 9, MetadataRequest(topics=None)).topics]
        assert name not in names


@pytest.mark.parametrize(
    "configs",
    [
        {"retention.ms": "soon"},
        {"cleanup.policy": "shred"},
        {"no.such.setting": "1"},
        {"min.insync.replicas": "0"},
        {"segment.bytes": "-1"},
        {"compression.type": "rar"},
        {"retention.ms": "1" * 40},
    ],
    ids=lambda c: "=".join(next(iter(c.items())))[:40],
)
def test_an_invalid_setting_is_rejected_at_create_and_at_alter(cluster: LocalCluster, configs: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with pytest.raises(KafkaException) as e:
        admin.create_topics([NewTopic("never", 1, 1, config=configs)])["never"].result(30)
    assert e.value.args[0].code() == ErrorCode.INVALID_CONFIG
    assert next(iter(configs)) in e.value.args[0].str()
    assert "never" not in admin.list_topics(timeout=20).topics
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, set_config=configs)
    with pytest.raises(KafkaException) as e:
        admin.alter_configs([resource])[resource].result(30)
    assert e.value.args[0].code() == ErrorCode.INVALID_CONFIG


# -- sizes and counts -------------------------------------------------------------------------------------------------
def uvarint(n: int) -> bytes:
    out = bytearray()
    put_uvarint(out, n)
    return bytes(out)


def test_millions_of_tiny_elements_are_rejected_before_they_are_parsed(cluster: LocalCluster) -> None:
    """20 MB of empty topic names once blocked the event loop for so long that the watchdog ended the broker."""
    pid = cluster.processes["broker-1"].pid
    before = rss_mb(pid)
    count = 10_000_000
    body = b"\0" + uvarint(count + 1) + b"\1\0" * count + b"\0\0\0\0"
    with RawConnection(cluster) as raw, RawConnection(cluster) as other:
        raw.send(struct.pack(">ihhih", 10 + len(body), 3, 9, 1, -1) + body)
        started = time.monotonic()
        assert raw.is_closed()
        assert other.send_request(3, 9, MetadataRequest(topics=None)).brokers
        assert time.monotonic() - started < 30
    assert rss_mb(pid) - before < 200


def test_a_buffer_full_of_requests_does_not_delay_other_clients(cluster: LocalCluster) -> None:
    query = encode_request(3, 1, 1, None, MetadataRequest(topics=None))
    with RawConnection(cluster) as busy, RawConnection(cluster) as other:
        busy.send(query * 5_000)
        waits = []
        for _ in range(20):
            started = time.monotonic()
            other.send_request(18, 0, ApiVersionsRequest())
            waits.append(time.monotonic() - started)
        for _ in range(5_000):
            busy.frame()
        assert sorted(waits)[10] < 0.5, f"another client waited {max(waits):.1f} s"


LONG = "\n" * 20_000
"""Quoted in an error message it doubles in length and exceeds the limit of a string."""


@pytest.mark.parametrize("version", [4, 7])
def test_an_error_message_longer_than_a_string_is_truncated(cluster: LocalCluster, version: int) -> None:
    config = CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=LONG)
    topic = CreateTopicsRequest.CreatableTopic(name="long", num_partitions=1, replication_factor=1, configs=[config])
    with RawConnection(cluster) as raw:
        response = raw.send_request(19, version, CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert response.error_message == "retention.ms has 20000 characters, more than the maximum 8192"
        config.value = LONG[:8_000]
        response = raw.send_request(19, version, CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert response.error_message.startswith("retention.ms=") and response.error_message.endswith(" ...")
        topic.name, topic.configs = LONG, []
        response = raw.send_request(19, version, CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
        assert response.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_longer_than_kafkas_strings_is_malformed_in_compact_versions_too(cluster: LocalCluster) -> None:
    """Such a group could not be written to its log: the write, at the end of the rebalance, once ended the broker."""
    name = b"g" * 40_000
    body = b"\0" + uvarint(len(name) + 1) + name + struct.pack(">ii", 1000, 1000) + b"\1\0\x09consumer\2\2r\2x\0\0"
    with RawConnection(cluster) as raw:
        raw.send(struct.pack(">ihhih", 10 + len(body), 11, 6, 1, -1) + body)
        assert raw.is_closed()


# -- invalid produce requests --------------------------------------------------------------------------------------------
def test_clients_cannot_write_to_the_topics_of_coordinators(cluster: LocalCluster) -> None:
    """A well-formed record in such a topic would be a commit that no group made."""
    with RawConnection(cluster) as raw:
        for partition in range(4):
            response = raw.produce(bytes(batch(1)), topic="__consumer_offsets", partition=partition)
            assert (response.error_code, response.base_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def idempotent(first: int, count: int, producer: int, epoch: int = 0) -> bytes:
    fields = [Record(i, 1_700_000_000_000, b"k", b"v") for i in range(count)]
    return records.build(fields, producer_id=producer, producer_epoch=epoch, base_sequence=first)


def test_every_batch_of_an_idempotent_producer_is_checked(cluster: LocalCluster) -> None:
    """The second batch of a request was once appended without a check, together with its sequence gap."""
    with RawConnection(cluster) as raw:
        first = raw.produce(idempotent(0, 2, 900))
        assert first.error_code == 0
        for two in (
            idempotent(2, 2, 900) + idempotent(77, 2, 900),
            idempotent(2, 2, 900) + idempotent(4, 2, 900),
            bytes(batch(2)) + idempotent(77, 2, 900),
            idempotent(2, 2, 900) + bytes(batch(2)),
        ):
            assert raw.produce(two).error_code == ErrorCode.INVALID_RECORD
        assert raw.produce(idempotent(0, 2, 900)).base_offset == first.base_offset, (
            "a duplicate batch gets its original offset"
        )
        assert raw.produce(idempotent(4, 1, 900)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert raw.produce(idempotent(2, 1, 900, epoch=-1)).error_code == ErrorCode.INVALID_RECORD
        after = raw.produce(idempotent(2, 1, 900))
        assert (after.error_code, after.base_offset) == (0, first.base_offset + 2), (
            "nothing of the rejected requests was written"
        )


def test_zstd_is_rejected_in_produce_versions_without_it(cluster: LocalCluster) -> None:
    packed = records.build([Record(0, 0, b"k", b"v")], compression=ZSTD)
    with RawConnection(cluster) as raw:
        assert raw.produce(packed, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert raw.produce(packed, version=7).error_code == 0


def test_invalid_transactions_are_rejected_with_kafkas_codes(cluster: LocalCluster) -> None:
    with RawConnection(cluster) as raw:

        def init(**requested: Any) -> int:
            body = InitProducerIdRequest(**{"transactional_id": "t", "transaction_timeout_ms": 1000, **requested})
            return int(raw.send_request(22, 4, body).error_code)

        assert init(transactional_id="") == ErrorCode.INVALID_REQUEST
        assert init(transaction_timeout_ms=0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert init(transaction_timeout_ms=1_000_000) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert init(producer_id=4) == ErrorCode.INVALID_REQUEST
        empty = raw.send_request(10, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[""])).coordinators[0]
        assert (empty.error_code, empty.node_id) == (ErrorCode.INVALID_REQUEST, -1)
        found = raw.send_request(10, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])).coordinators[0]
        assert found.error_code == 0 and found.node_id in cluster.ports
        assert (
            raw.send_request(10, 2, FindCoordinatorRequest(key="g", key_type=9)).error_code == ErrorCode.INVALID_REQUEST
        )
        assert raw.send_request(10, 2, FindCoordinatorRequest(key="g", key_type=0)).error_code == 0
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=[0])
            for name in ("__transaction_state", "none", "__consumer_offsets")
        ]
        response = raw.send_request(
            24, 3, AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics)
        )
        assert [r.results_by_partition[0].partition_error_code for r in response.results_by_topic_v3_and_below] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        ]
        batch = records.build(
            [Record(0, 0, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        assert raw.produce(batch).error_code == ErrorCode.INVALID_RECORD, "a transaction without a transactional id"


# -- requests that are forwarded to the controller -------------------------------------------------------------------------------
def create(raw: RawConnection, topics: list[Any], version: int = 5, **more: Any) -> list[int]:
    response = raw.send_request(19, version, CreateTopicsRequest(topics=topics, timeout_ms=20_000, **more))
    assert [t.name for t in response.topics] == [t.name for t in topics]
    return [t.error_code for t in response.topics]


def topic(name: str, partitions: int = 1, **configs: str) -> Any:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()
        ],
    )


def test_a_request_of_megabytes_does_not_end_the_zookeeper_session(cluster: LocalCluster) -> None:
    """ZooKeeper closes the connection of a client that writes more than 1 MiB."""
    many = [topic(f"never-{i}", retention_ms="1" * 1_000) for i in range(1_500)]
    with RawConnection(cluster) as raw:
        assert set(create(raw, many)) == {ErrorCode.INVALID_CONFIG}
        assert create(raw, [topic(f"never-{i}") for i in range(2_001)]) == [ErrorCode.POLICY_VIOLATION] * 2_001
        assert create(raw, [topic("a", 6_000), topic("b", 6_000)]) == [ErrorCode.POLICY_VIOLATION] * 2
        assignment = CreateTopicsRequest.CreatableReplicaAssignment
        huge = topic("huge", -1)
        huge.replication_factor = -1
        huge.assignments = [assignment(partition_index=i, broker_ids=[2_000_000_000] * 10) for i in range(8_000)]
        assert create(raw, [huge, topic("no good", 1)]) == [
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]
    assert "session" not in cluster.log("broker-1").replace("session.timeout", "")


def test_invalid_replica_assignments(cluster: LocalCluster) -> None:
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    with RawConnection(cluster) as raw:
        for pairs in (
            [(0, [1]), (0, [1])],
            [(1, [1])],
            [(0, [1]), (2, [1])],
            [(0, [])],
            [(0, [1]), (1, [])],
            [(0, [1, 1])],
            [(0, [99])],
            [(-1, [1])],
            [(0, [-1])],
        ):
            t = topic("never", -1)
            t.replication_factor = -1
            t.assignments = [assignment(partition_index=i, broker_ids=b) for i, b in pairs]
            assert create(raw, [t]) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT], pairs
        assert "never" not in [t.name for t in raw.send_request(3, 9, MetadataRequest(topics=None)).topics]


def test_contradictory_settings_are_rejected_at_create_and_at_alter(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with RawConnection(cluster) as raw:
        both = topic("never", min_compaction_lag_ms="10", max_compaction_lag_ms="5")
        assert create(raw, [both]) == [ErrorCode.INVALID_CONFIG]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, set_config={"min.compaction.lag.ms": str(2**63 - 1)})
    admin.alter_configs([resource])[resource].result(30)
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, TOPIC, set_config={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    )
    with pytest.raises(KafkaException) as e:
        admin.alter_configs([resource])[resource].result(30)
    assert e.value.args[0].code() == ErrorCode.INVALID_CONFIG
    assert "min.compaction.lag.ms" in e.value.args[0].str()


@pytest.mark.parametrize("count", [-2, 0, 1, 10_001, 2**31 - 1, -(2**31)])
def test_invalid_partition_counts(cluster: LocalCluster, count: int) -> None:
    with RawConnection(cluster) as raw:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)
        response = raw.send_request(37, 1, CreatePartitionsRequest(topics=[wanted], timeout_ms=20_000)).results[0]
        assert response.error_code in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION)
        if count not in (-2, 1):
            assert create(raw, [topic("never", count)])[0] in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION)


# -- duplicates in one request ----------------------------------------------------------------------------------
def test_duplicates_in_a_request_are_answered_once(cluster: LocalCluster) -> None:
    times = 20_000
    with RawConnection(cluster) as raw:
        one = MetadataRequest.MetadataRequestTopic(name=TOPIC)
        assert len(raw.send_request(3, 9, MetadataRequest(topics=[one] * times)).topics) == 1
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=2, resource_name=TOPIC, configuration_keys=None
        )
        assert len(raw.send_request(32, 4, DescribeConfigsRequest(resources=[resource] * times)).results) == 1
        assert len(raw.send_request(15, 5, DescribeGroupsRequest(groups=["g"] * times)).groups) == 1
        assert len(raw.send_request(42, 2, DeleteGroupsRequest(groups_names=["g"] * times)).results) == 1
        requested = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
        assert len(raw.send_request(9, 8, OffsetFetchRequest(groups=[requested] * times)).groups) == 1
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        asked_topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[part] * times)
        fetched = raw.send_request(
            1, 11, FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[asked_topic])
        )
        assert [len(t.partitions) for t in fetched.responses] == [1]
        when = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1_700_000_000_000)
        found = raw.send_request(
            2,
            5,
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[when] * times)]
            ),
        )
        errors = [p.error_code for p in found.topics[0].partitions]
        assert errors == [0] + [ErrorCode.INVALID_REQUEST] * (times - 1)


# -- records of a batch ------------------------------------------------------------------------------------------
def batch_with_payload(inside: bytes, count: int) -> bytes:
    """A batch with a valid header and CRC around arbitrary bytes."""
    header = records.BatchHeader(0, 0, -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    return bytes(records.build_from_payload(header, inside))


@pytest.mark.parametrize(
    "data",
    [
        bytes(records.build([Record(0, 0, None, b"poison")])),
        batch_with_payload(b"\x20\x00\x00\x80\xa8\xd6\xb9\x07\x01\x0cpoison\x00", 1),
        batch_with_payload(b"\xff" * 80, 10),
        batch_with_payload(b"\x18\x00\x00\x00\x01\x0cpoison\x00" * 2, 2),
    ],
    ids=["sound", "an offset delta of a billion", "garbage", "an offset delta twice"],
)
def test_no_batch_hides_the_records_after_it(cluster: LocalCluster, data: bytes, request: Any) -> None:
    """A consumer reads every accepted record at consecutive offsets, also after a rejected batch."""
    topic = f"poisoned-{request.node.callspec.id.replace(' ', '-')}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    sound = request.node.callspec.id == "sound"
    with RawConnection(cluster) as raw:
        assert raw.produce(bytes(records.build([Record(0, 0, None, b"before")])), topic=topic).error_code == 0
        response = raw.produce(bytes(data), topic=topic)
        assert ErrorCode(response.error_code) == (ErrorCode.NONE if sound else ErrorCode.INVALID_RECORD)
        assert raw.produce(bytes(records.build([Record(0, 0, None, b"behind")])), topic=topic).error_code == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while (not got or got[-1][1] != b"behind") and time.monotonic() < deadline:
        got += [(m.offset(), m.value()) for m in consumer.consume(100, 1) if not m.error()]
    consumer.close()
    values = [b"before", b"poison", b"behind"] if sound else [b"before", b"behind"]
    assert got == list(enumerate(values))


def test_each_record_without_a_key_is_named(cluster: LocalCluster) -> None:
    """KIP-467: a batch of a hundred records for a compacted topic."""
    topic = NewTopic("keyed", 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([topic])["keyed"].result(30)
    without = set(range(5, 100, 10))
    made = [Record(i, 0, None if i in without else b"k%d" % i, b"v") for i in range(100)]
    with RawConnection(cluster) as raw:
        response = raw.produce(bytes(records.build(made)), topic="keyed")
        assert ErrorCode(response.error_code) == ErrorCode.INVALID_RECORD
        assert {e.batch_index for e in response.record_errors} == without
        assert "no key" in response.error_message
        assert all("no key" in e.batch_index_error_message for e in response.record_errors)
        rest = [r._replace(offset=i) for i, r in enumerate(r for r in made if r.key is not None)]
        assert raw.produce(bytes(records.build(rest)), topic="keyed").error_code == ErrorCode.NONE


def test_a_producers_maximum_timestamp_is_not_trusted(cluster: LocalCluster) -> None:
    """With the producer's maximum timestamp ListOffsets by time would return a batch without such a record."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("timed", 1, 1)])["timed"].result(30)
    header = records.BatchHeader(0, 0, -1, 2, 0, 0, 0, 1_000, 2**62, -1, -1, -1, 1)
    with RawConnection(cluster) as raw:
        wrong_timestamp = bytes(records.build_from_payload(header, b"\x18\x00\x00\x00\x01\x0cpoison\x00"))
        assert raw.produce(wrong_timestamp, topic="timed").error_code == ErrorCode.NONE
        assert raw.produce(bytes(records.build([Record(0, 2_000, None, b"v")])), topic="timed").base_offset == 1
        requested = ListOffsetsRequest.ListOffsetsTopic(
            name="timed",
            partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=t) for t in (1_500,)],
        )
        found = raw.send_request(2, 7, ListOffsetsRequest(replica_id=-1, topics=[requested])).topics[0].partitions[0]
        assert (found.offset, found.timestamp) == (1, 2_000)
