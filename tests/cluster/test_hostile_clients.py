"""Clients of one address send small requests that cost much on a real broker. Clients of another address are still served.

Small samples of what `make bench-hostile` measures beside Apache Kafka. The bounds are generous: the old behaviour, one whole loop iteration per
client, exceeds them by far on any machine.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.hostile.requests import fetch_that_waits, list_offsets, produce, tiny_batch
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response
from brokerd.wire.records import Record, build
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
HOSTILE = "127.0.0.2"
LOOKUPS = 10
RECORDS = 300_000
CONNECTIONS, FETCHES = 60, 256


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("hostile"), 1, {"auto.create.topics.enable": "false"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics([NewTopic(t, 1, 1) for t in ("lookups", "fetches", "quiet")]).values():
            created.result(60)
        yield running


class Client:
    """One connection from its own address."""

    def __init__(self, cluster: LocalCluster, address: str = "127.0.0.1") -> None:
        self.sock = socket.create_connection(("127.0.0.1", cluster.ports[1]), timeout=60, source_address=(address, 0))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def respond(self, key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", self._read_exactly(4))
        return decode_response(key, version, memoryview(self._read_exactly(size)))[1]

    def _read_exactly(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            more = self.sock.recv(count - len(out))
            assert more, "closed in the middle of a response"
            out += more
        return out

    def produce(self, topic: str, data: bytes) -> float:
        """Seconds until the acknowledgement."""
        began = time.monotonic()
        self.sock.sendall(produce(topic, data))
        response = self.respond(ApiKey.PRODUCE, 9).responses[0].partition_responses[0]
        assert response.error_code == 0, response
        return time.monotonic() - began


def small_batch() -> bytes:
    return build([Record(0, int(time.time() * 1000), b"k", bytes(100))])


def test_lookups_by_time_in_a_large_batch_do_not_delay_other_clients(cluster: LocalCluster) -> None:
    now_ms = int(time.time() * 1000)
    data = tiny_batch(RECORDS, now_ms)
    with Client(cluster) as quiet, Client(cluster, HOSTILE) as hostile:
        hostile.produce("lookups", data)
        quiet.produce("quiet", small_batch())
        hostile.sock.sendall(list_offsets("lookups", now_ms + 1) * LOOKUPS)
        waits, until = [], time.monotonic() + 3
        while time.monotonic() < until:
            waits.append(quiet.produce("quiet", small_batch()))
        part = hostile.respond(ApiKey.LIST_OFFSETS, 7).topics[0].partitions[0]
        assert (part.error_code, part.offset, part.timestamp) == (0, RECORDS - 1, now_ms + 1)
    assert max(waits) < 2, f"a produce request waited {max(waits):.1f} s"
    assert cluster.processes["broker-1"].poll() is None


def test_thousands_of_waiting_fetches_do_not_delay_appends_of_other_clients(cluster: LocalCluster) -> None:
    with ExitStack() as stack:
        quiet = stack.enter_context(Client(cluster))
        before = [quiet.produce("fetches", small_batch()) for _ in range(40)]
        end = 40
        for _ in range(CONNECTIONS):
            hostile = stack.enter_context(Client(cluster, HOSTILE))
            hostile.sock.setblocking(False)
            waiting = fetch_that_waits("fetches", end, min_bytes=1 << 30, wait_ms=60_000) * FETCHES
            wait_for(lambda h=hostile, w=waiting: is_sent(h.sock, w), "requests sent")  # type: ignore[misc]
        during = [quiet.produce("fetches", small_batch()) for _ in range(40)]
        with Client(cluster, HOSTILE) as reader:  # a fetch that can be answered is answered
            reader.sock.sendall(fetch_that_waits("fetches", 0, min_bytes=1, wait_ms=60_000))
            assert reader.respond(ApiKey.FETCH, 11).responses[0].partitions[0].records
    assert median(during) < 10 * median(before) + 0.1, (
        f"{median(before) * 1e3:.1f} ms became {median(during) * 1e3:.1f}"
    )
    assert log_phrases.EVENT_LOOP_STALLED not in cluster.log("broker-1")


def is_sent(sock: socket.socket, data: bytes) -> bool:
    """True if the broker took all of `data`; bytes that it does not read stay in this socket."""
    try:
        sock.send(data)
    except BlockingIOError:
        pass
    return True
