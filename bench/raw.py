"""A producer that costs next to nothing: requests are made before the clock starts, answers are only looked at for errors.

librdkafka keeps a queue for each partition; over thousands of them it, not the broker, sets the rate. Law: what is sent is what a client
sends (Produce 7, one partition a request, as librdkafka asks), five under way. Called by `bench.many`.
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
"""The newest in which a request ends with the records: one batch serves all partitions."""
UNDER_WAY = 5
"""`max.in.flight.requests.per.connection` of most clients."""
WAIT_SECONDS = 60
_INT = struct.Struct(">i")


def batch(value: bytes, bytes_max: int) -> tuple[bytes, int]:
    """(a batch of as many records of `value` as fit into `bytes_max`, how many)."""
    count = max(1, bytes_max // (len(value) + 16))
    now = int(time.time() * 1000)
    return build([Record(i, now, None, value) for i in range(count)]), count


def heads(partitions: Sequence[tuple[str, int]], records: bytes, acks: int) -> list[bytes]:
    """Of each (topic, partition) the request but for its records, length and all."""
    out = []
    for topic, index in partitions:
        data = ProduceRequest.TopicProduceData(
            name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=index, records=records)]
        )
        body = ProduceRequest(acks=acks, timeout_ms=WAIT_SECONDS * 1000, topic_data=[data])
        out.append(encode_request(ApiKey.PRODUCE, VERSION, 0, "raw", body)[: -len(records)])
    return out


def produce(
    host: str, port: int, partitions: Sequence[tuple[str, int]], requests: int, records: bytes, acks: int = 1
) -> float:
    """Seconds for so many requests, the partitions taking turns. Raises SystemExit at an answer that says no."""
    prepared = heads(partitions, records, acks)
    with socket.create_connection((host, port), timeout=WAIT_SECONDS) as door:
        door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = door.makefile("rb", buffering=65_536)
        began = time.monotonic()
        for i in range(requests + UNDER_WAY):
            if i >= UNDER_WAY:
                _heard(answers.read(_INT.unpack(answers.read(4))[0]))
            if i < requests:
                _send(door, prepared[i % len(prepared)], records)
        return time.monotonic() - began


def _send(door: socket.socket, head: bytes, records: bytes) -> None:
    sent = door.sendmsg((head, records))
    if sent < len(head) + len(records):
        door.sendall(memoryview(head + records)[sent:])


def _heard(answer: bytes) -> None:
    _, body = decode_response(ApiKey.PRODUCE, VERSION, memoryview(answer))
    for topic in body.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise SystemExit(f"{topic.name}-{partition.index} refused a batch: error {partition.error_code}")
