"""A connection without a client library, for requests that a library would not send, or not to this broker."""

from __future__ import annotations

import socket
import time
from typing import Any

from brokerd.wire import framing, records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, ProduceRequest
from brokerd.wire.records import Record
from tests.cluster.local import LocalCluster
from tests.faults.scene import topic_id

PRODUCE_VERSION, FETCH_VERSION = 9, 15

NOT_YET_KNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class RawConnection:
    """`ask` is `send` followed by `receive`. `send` alone also works while the broker is frozen."""

    def __init__(self, cluster: LocalCluster, broker_id: int) -> None:
        self.cluster = cluster
        self._socket = socket.create_connection(("127.0.0.1", cluster.ports[broker_id]), timeout=60)

    def send(self, api: ApiKey, version: int, body: Any) -> None:
        self._socket.sendall(framing.encode_request(api, version, 1, "raw", body))

    def receive(self, api: ApiKey, version: int) -> Any:
        length = int.from_bytes(self._read_exactly(4), "big")
        return framing.decode_response(api, version, memoryview(self._read_exactly(length)))[1]

    def _read_exactly(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            more = self._socket.recv(count - len(out))
            assert more, "the broker closed the connection"
            out += more
        return out

    def close(self) -> None:
        self._socket.close()

    # -- produce and fetch -------------------------------------------------------------------------------
    def send_produce(self, name: str, values: list[str], acks: int, timeout_ms: int = 2_000, **producer: int) -> None:
        """Sends one batch for partition 0. `producer` may contain producer_id, producer_epoch and base_sequence."""
        batch = records.build(
            [Record(i, 1_700_000_000_000, None, v.encode()) for i, v in enumerate(values)], **producer
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
        body = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[ProduceRequest.TopicProduceData(name=name, partition_data=[part])],
        )
        self.send(ApiKey.PRODUCE, PRODUCE_VERSION, body)

    def receive_produce_response(self) -> Any:
        """The partition response of partition 0: error_code, base_offset and the other fields."""
        return self.receive(ApiKey.PRODUCE, PRODUCE_VERSION).responses[0].partition_responses[0]

    def produce(self, name: str, values: list[str], **producer: int) -> Any:
        """Produces with acks=all. Retries while this broker has not yet read in the metadata log that the topic exists and that it leads."""
        deadline = time.monotonic() + 60
        while True:
            self.send_produce(name, values, -1, **producer)
            response = self.receive_produce_response()
            if response.error_code not in NOT_YET_KNOWN or time.monotonic() > deadline:
                return response
            time.sleep(0.1)

    def fetch(
        self, name: str, offset: int, *, epoch: int = -1, last_epoch: int = -1, replica: tuple[int, int] = (-1, -1)
    ) -> Any:
        """The whole response. `replica` is (broker id, broker epoch) of a follower."""
        part = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=topic_id(self.cluster, name), partitions=[part])],
        )
        self.send(ApiKey.FETCH, FETCH_VERSION, body)
        return self.receive(ApiKey.FETCH, FETCH_VERSION)
