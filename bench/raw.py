"""A producer with minimal cost: requests are encoded before the clock starts, and responses are only checked for errors.

librdkafka keeps a queue for each partition. Over thousands of partitions librdkafka sets the rate, not the broker. The requests are those of a
client (Produce 7, one partition per request, as librdkafka sends them), five in flight.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response, encode_request
from brokerd.wire.messages.data import ProduceRequest
from brokerd.wire.records import Record, build

VERSION = 7
"""The newest version whose requests end with the records: one batch serves all partitions."""
IN_FLIGHT = 5
"""`max.in.flight.requests.per.connection` of most clients."""
WAIT_SECONDS = 60
CONGESTION_CONTROL = b"cubic"
"""The default of Linux, so that the requests of a machine with another one are not paced differently."""
_INT = struct.Struct(">i")


def batch(value: bytes, bytes_max: int) -> tuple[bytes, int]:
    """(a batch with as many records of `value` as fit into `bytes_max`, their number)."""
    count = max(1, bytes_max // (len(value) + 16))
    now = int(time.time() * 1000)
    return build([Record(i, now, None, value) for i in range(count)]), count


def heads(partitions: Sequence[tuple[str, int]], records: bytes, acks: int) -> list[bytes]:
    """The encoded request of each (topic, partition) without its records, including the length prefix."""
    out = []
    for topic, index in partitions:
        data = ProduceRequest.TopicProduceData(
            name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=index, records=records)]
        )
        body = ProduceRequest(acks=acks, timeout_ms=WAIT_SECONDS * 1000, topic_data=[data])
        out.append(encode_request(ApiKey.PRODUCE, VERSION, 0, "raw", body)[: -len(records)])
    return out


def produce(
    host: str, port: int, partitions: Sequence[tuple[str, int]], requests: int, batches: Sequence[bytes], acks: int = 1
) -> float:
    """Seconds for that many requests, with the partitions and the batches in turn. All batches have the same size. Raises SystemExit on an error code."""
    prepared = heads(partitions, batches[0], acks)
    assert all(len(batch) == len(batches[0]) for batch in batches)
    with socket.create_connection((host, port), timeout=WAIT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
        responses = connection.makefile("rb", buffering=65_536)
        began = time.monotonic()
        for i in range(requests + IN_FLIGHT):
            if i >= IN_FLIGHT:
                _check_response(responses.read(_INT.unpack(responses.read(4))[0]))
            if i < requests:
                _send(connection, prepared[i % len(prepared)], batches[i % len(batches)])
        return time.monotonic() - began


def _send(connection: socket.socket, head: bytes, records: bytes) -> None:
    sent = connection.sendmsg((head, records))
    if sent < len(head) + len(records):
        connection.sendall(memoryview(head + records)[sent:])


def _check_response(response: bytes) -> None:
    _, body = decode_response(ApiKey.PRODUCE, VERSION, memoryview(response))
    for topic in body.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise SystemExit(f"{topic.name}-{partition.index} rejected a batch: error {partition.error_code}")
