"""A small cluster with tiered storage for directed cases, and consumers that read from the replica in their rack (KIP-392).

A `NearReader` behaves as librdkafka: after an error of a follower it fetches from the leader, but OFFSET_OUT_OF_RANGE of a follower ends its read. So a
follower that denies a retained record is a violation.
"""

from __future__ import annotations

from typing import Any

from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse, FetchRequest
from tests.simulation.checkers import Violation
from tests.simulation.clients import Client
from tests.simulation.scene import PATIENT, Scene

SETTINGS = {
    **PATIENT,
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.url": "s3://simulated",
    "remote.log.manager.task.interval.ms": "200",
    "remote.log.metadata.topic.num.partitions": "2",
    "log.retention.check.interval.ms": "500",
}
TOPIC = {"remote_storage_enable": "true", "segment_bytes": "400", "local_retention_bytes": "800"}
READ_BYTES = 300
CHANGING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Errors of a leadership that ends. An idempotent batch is repeated."""


class TieredScene(Scene):
    def __init__(self, seed: int, brokers: int = 2, replicas: int | None = None, racks: int = 0) -> None:
        settings = {**SETTINGS, "remote.log.metadata.topic.replication.factor": str(min(brokers, 3))}
        super().__init__(seed, settings=settings, brokers=brokers, replicas=replicas, racks=racks, **TOPIC)
        self.cluster.run_until(
            lambda: self.cluster.image.topic_named(REMOTE_LOG_METADATA_TOPIC) is not None, 30, "the metadata topic"
        )
        self.cluster.run_until(self.cluster.is_settled, 30, "its replicas")
        self.written: list[str] = []

    def produce(self, count: int) -> None:
        texts = [f"{len(self.written) + i:06d}" for i in range(count)]
        self.write(*texts)
        self.written += texts

    def produce_under_any_leader(self, count: int) -> None:
        """Idempotent, while the leadership may change: a request that is rejected for that reason is sent to the next leader."""
        for number in range(len(self.written), len(self.written) + count):
            text = f"{number:06d}"
            while (error := self.send(self.state.leader, text, producer=(7, number))) in CHANGING:
                self.pass_ms(100)
            assert error == 0, f"{text!r} was rejected: {error}"
            self.written.append(text)

    @property
    def store(self) -> dict[str, bytes]:
        return self.cluster.remote_store.objects

    @property
    def stored_bytes(self) -> int:
        return sum(len(content) for name, content in self.store.items() if name.endswith(".log"))

    def local_start(self, broker: int) -> int:
        replica = self.cluster.brokers[broker].broker.replica_manager.hosted.get(self.tp)
        return -1 if replica is None else replica.log.start_offset

    def fetch(self, offset: int) -> Any:
        """The response of the leader for this offset: one partition."""
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])],
        )
        responses: list[Any] = []
        self.client.enter(lambda: self.client.send_request(self.state.leader, ApiKey.FETCH, 12, body, responses.append))
        self.cluster.run_until(lambda: bool(responses), 20, f"the response for offset {offset}")
        return responses[0].responses[0].partitions[0] if responses[0] is not None and responses[0].responses else None

    def read_all(self, start: int = 0) -> list[str]:
        out: list[str] = []
        offset, tries = start, 0
        while offset < len(self.written):
            part = self.fetch(offset)
            tries += 1
            assert tries < 20 * len(self.written) + 200, f"no progress at {offset}"
            if part is None or part.error_code in (
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ):
                self.pass_ms(100)
                continue
            assert part.error_code == 0, f"error {part.error_code} at {offset}"
            for record in records.iterate(bytes(part.records or b"")):
                if record.offset >= offset:
                    assert record.offset == offset and record.value is not None
                    out.append(record.value.decode())
                    offset += 1
        return out

    def remote_size(self) -> DescribeLogDirsResponse.RemoteSize:
        """The sizes of the partition over both tiers, as the leader reports them."""
        responses: list[DescribeLogDirsResponse] = []
        body = DescribeLogDirsRequest(topics=[], remote=True)
        self.client.enter(
            lambda: self.client.send_request(self.state.leader, ApiKey.DESCRIBE_LOG_DIRS, 4, body, responses.append)
        )
        self.cluster.run_until(lambda: bool(responses), 10, "the remote sizes")
        (found,) = responses[0].remote
        return found

    def leads_another(self, broker: int) -> bool:
        return self.state.leader not in (broker, -1)

    def orphans(self) -> set[str]:
        """Segment ids of objects without metadata on the leader."""
        broker = self.cluster.brokers[self.state.leader].broker
        known = set(broker.remote_logs.led[self.tp].leader.remote_log.segments)
        return {n.rpartition("/")[2].partition("-")[2].rpartition(".")[0] for n in self.store} - known

    def until_tiered(self, brokers: tuple[int, ...] = (1, 2)) -> None:
        self.cluster.run_until(
            lambda: all(self.local_start(b) > 0 for b in brokers), 60, "local retention on all replicas"
        )


class NearReader(Client):
    """Reads the whole partition in order, again and again, and checks every record against what was acknowledged."""

    def __init__(self, scene: TieredScene, rack: str) -> None:
        super().__init__(scene.cluster, f"near-{rack}")
        self.scene, self.rack = scene, rack
        self.offset = self.rounds = self.remote_records = 0
        """`remote_records`: read from a follower below its local log."""
        self.closest = -1
        self.deleted_below = 0
        self.enter(self._fetch)

    def _fetch(self) -> None:
        if self.stopped:
            return
        leader = self.leaders.get(("t", 0))
        if leader is None:
            self.refresh(lambda: self.call_later(self._fetch))
            return
        broker = self.closest if self.closest >= 0 else leader
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=self.offset, partition_max_bytes=READ_BYTES)
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            rack_id=self.rack,
            topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])],
        )
        local = self.scene.local_start(broker)
        self.send_request(broker, ApiKey.FETCH, 12, body, lambda response: self._on_response(response, local))

    def _on_response(self, response: Any, local_start: int) -> None:
        part = response.responses[0].partitions[0] if response is not None and response.responses else None
        followed, self.closest = self.closest, -1
        if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.offset >= self.deleted_below:
                raise Violation(f"{self.name}: offset {self.offset} is out of range on broker {followed} (-1: leader)")
            self.offset = self.deleted_below
        elif part is None or part.error_code:
            self.leaders.clear()
        else:
            self.closest = part.preferred_read_replica if part.preferred_read_replica >= 0 else followed
            for record in records.iterate(bytes(part.records or b"")):
                if record.offset >= self.offset:
                    self._check(record)
                    self.remote_records += followed >= 0 and record.offset < local_start
                    self.offset += 1
        if self.offset >= len(self.scene.written):
            self.offset, self.rounds = self.deleted_below, self.rounds + 1
            self.closest = -1
        self.call_later(self._fetch, self.world.between(1, 40))

    def _check(self, record: records.Record) -> None:
        if record.offset != self.offset:
            raise Violation(f"{self.name}: offset {self.offset} was fetched, and {record.offset} came")
        text = (record.value or b"").decode()
        if self.offset < len(self.scene.written) and text != self.scene.written[self.offset]:
            raise Violation(f"{self.name}: offset {self.offset} has {text!r}, not {self.scene.written[self.offset]!r}")
