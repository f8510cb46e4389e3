"""`python -m bench.readers`: the rate at which one and ten consumers read a backlog, on Weir and on Apache Kafka in one run.

Each consumer reads the whole topic over its own connection. The records are in the page cache. The consumers are minimal (`Reader`): they send
fetches as a Java consumer does and look only at the batch headers, because ten librdkafka clients on one core would set the rate. One broker on
one core, all consumers on another. The systems alternate, and a ratio belongs to one round.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.client import Done, produce
from bench.kernel import congestion_control, on_cores, pin
from bench.peer.runs import Spent, make_topics, measured
from bench.peer.systems import PEERS, System, Weir
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response, encode_request
from brokerd.wire.messages.data import FetchRequest

VERSION = 11
"""The newest version of Fetch with topic names and without tagged fields."""
PARTITION_BYTES, RESPONSE_BYTES = 1 << 20, 50 << 20
"""`max.partition.fetch.bytes` and `fetch.max.bytes` of a consumer."""
WAIT_SECONDS = 60
RECORD_BYTES = 1024
READERS = (1, 10)
_INT = struct.Struct(">i")


class Reader:
    """A consumer of partition 0 of `topic`, from the beginning to `end`, the offset after its last record. One fetch is in flight."""

    def __init__(self, address: tuple[str, int], topic: str, end: int) -> None:
        self.topic, self.end, self.offset, self.read_bytes = topic, end, 0, 0
        self.socket = socket.create_connection(address, timeout=WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(PARTITION_BYTES + 4096)
        self._filled = 0

    def begin(self, topic: str) -> None:
        """Read another topic from its beginning. No fetch may be in flight."""
        self.topic, self.offset = topic, 0
        self.fetch()

    def fetch(self) -> None:
        partition = FetchRequest.FetchPartition(
            partition=0, fetch_offset=self.offset, partition_max_bytes=PARTITION_BYTES
        )
        body = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES,
            topics=[FetchRequest.FetchTopic(topic=self.topic, partitions=[partition])],
        )
        self.socket.sendall(encode_request(ApiKey.FETCH, VERSION, 0, "reader", body))

    def receive(self) -> bool:
        """Read what has arrived, and send the next fetch after a whole response. Returns whether the end is reached."""
        received = self.socket.recv_into(memoryview(self._buffer)[self._filled :])
        if not received:
            raise SystemExit(f"the broker closed the connection of a reader at offset {self.offset}")
        self._filled += received
        if self._filled < _INT.size:
            return False
        (length,) = _INT.unpack_from(self._buffer)
        if len(self._buffer) < length + _INT.size:
            self._buffer += bytes(length + _INT.size - len(self._buffer))
        if self._filled < length + _INT.size:
            return False
        self._take(memoryview(self._buffer)[_INT.size : length + _INT.size])
        self._filled = 0
        if self.offset >= self.end:
            return True
        self.fetch()
        return False

    def _take(self, response: memoryview) -> None:
        _, body = decode_response(ApiKey.FETCH, VERSION, response)
        partition = body.responses[0].partitions[0]
        if partition.error_code:
            raise SystemExit(f"a fetch at offset {self.offset} failed: error {partition.error_code}")
        for _, header in records.batches(partition.records or b""):
            if header.next_offset > self.offset:
                self.offset = header.next_offset
                self.read_bytes += header.size


def read_all(address: tuple[str, int], topic: str, end: int, count: int) -> list[tuple[float, int]]:
    """(seconds, bytes) of each of `count` consumers, which begin at the same time."""
    readers = [Reader(address, topic, end) for _ in range(count)]
    done: list[tuple[float, int]] = []
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader.socket, selectors.EVENT_READ, reader)
        began = time.monotonic()
        for reader in readers:
            reader.fetch()
        while len(done) < count:
            ready = selector.select(WAIT_SECONDS)
            if not ready:
                raise SystemExit(f"no response in {WAIT_SECONDS} s to {count - len(done)} readers")
            for key, _ in ready:
                if key.data.receive():
                    done.append((time.monotonic() - began, key.data.read_bytes))
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    return done


@dataclass(frozen=True, slots=True)
class Measurements:
    """One pass. `mb_per_s`: of all consumers together. `cpu_s_per_gb`: of the broker. `first_to_last`: the time of the fastest consumer relative to that of
    the slowest, 1 if all get the same rate."""

    mb_per_s: float
    cpu_s_per_gb: float
    first_to_last: float
    client_bound: bool


def measurements(finished: list[tuple[float, int]], spent: Spent) -> Measurements:
    seconds = [s for s, _ in finished]
    total = sum(size for _, size in finished)
    return Measurements(
        total / max(seconds) / 1e6, spent.brokers_cpu / total * 1e9, min(seconds) / max(seconds), spent.client_bound
    )


def one_pass(system: System, topic: str, end: int, count: int) -> Measurements:
    finished: list[tuple[float, int]] = []

    def act(done: Done) -> float:
        finished.extend(read_all(("127.0.0.1", system.ports[1]), topic, end, count))
        done()
        return max(s for s, _ in finished)

    spent = measured(act, [system.broker_pids()[1]])
    return measurements(finished, spent)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.readers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=500, help="of values in the topic")
    parser.add_argument("--only", choices=["weir", *PEERS], help="one system alone")
    given = parser.parse_args()
    systems: dict[str, type[System]] = {"weir": Weir, **PEERS}
    kinds = [systems["weir"], systems["kraft"]] if given.only is None else [systems[given.only]]
    running: list[System] = []
    count = given.megabytes * 1_000_000 // RECORD_BYTES
    behind = 0
    try:
        for kind in kinds:
            running.append(kind(Path(tempfile.mkdtemp(prefix="readers-")), 1))
            running[-1].start()
        with on_cores({1} if (os.cpu_count() or 1) > 1 else {0}):
            for system in running:
                pin(system.pids().values(), {0})
                make_topics(system, ["16384", "1000000"], 1)
                for batch in (16_384, 1_000_000):
                    produce(system.bootstrap, [str(batch)], os.urandom(RECORD_BYTES), count, batch, "1")
            print(
                f"load of the machine {os.getloadavg()[0]:.1f} after the start; {given.rounds} rounds; congestion control {congestion_control()}"
            )
            for batch in (16_384, 1_000_000):
                for readers in READERS:
                    passes: dict[str, list[Measurements]] = {s.name: [] for s in running}
                    for round_ in range(-1, given.rounds):
                        for system in running if round_ % 2 else running[::-1]:
                            found = one_pass(system, str(batch), count, readers)
                            if round_ >= 0:
                                passes[system.name].append(found)
                    behind += report(batch, readers, passes)
    finally:
        for system in running:
            system.close()
    return int(behind > 0)


def report(batch: int, readers: int, passes: dict[str, list[Measurements]]) -> bool:
    """Print the medians. Returns whether Weir reads less per second than a peer."""
    for name, found in passes.items():
        bound = " (client-bound)" if sum(f.client_bound for f in found) * 2 > len(found) else ""
        print(
            f"{readers:>2} readers, {batch:>9,} B batches, {name:<12} {median(f.mb_per_s for f in found):>7.0f} MB/s"
            f"  {median(f.cpu_s_per_gb for f in found):.3f} s/GB  fastest/slowest {median(f.first_to_last for f in found):.2f}{bound}",
            flush=True,
        )
    behind = False
    for name, found in passes.items():
        if name != Weir.name and Weir.name in passes:
            ratios = sorted(a.mb_per_s / b.mb_per_s for a, b in zip(passes[Weir.name], found, strict=True))
            print(f"   weir / {name}: {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
            behind = behind or median(ratios) < 1
    return behind


if __name__ == "__main__":
    sys.exit(main())
