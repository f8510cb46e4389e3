"""`python -m bench.hostile`: latency of producers of one address, while a client of another sends valid, expensive requests over 1,000 connections.

Weir and Apache Kafka, one after the other, each: quiet, waiting fetches, ListOffsets by timestamp in batches of many empty records. One
broker, one replica, acks=all, a producer at a fixed rate. A latency counts from the time when the record was due.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from bench.client import percentile
from bench.hostile.requests import PRODUCE_VERSION, produce, tiny_batch
from bench.kernel import pin
from bench.peer import fetch
from bench.peer.runs import make_topics
from bench.peer.systems import PEERS, System, Weir
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import decode_response
from brokerd.wire.records import Record, build

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("waiting fetches", "lookups")
RATE, RECORD_BYTES = 100, 1_024
RECORDS = 300_000
"""Records of the batch that is searched."""
SETTLE_SECONDS = 2.0
RESPONSE_SECONDS_MAX = 60


class Producer:
    """One connection that sends each record when it is due and waits for its acknowledgement."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=RESPONSE_SECONDS_MAX)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def send(self, topic: str, data: bytes) -> None:
        self.sock.sendall(produce(topic, data))
        size = int.from_bytes(self.file.read(4), "big")
        response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, memoryview(self.file.read(size)))[1]
        part = response.responses[0].partition_responses[0]
        if part.error_code:
            raise SystemExit(f"a record was rejected: error {part.error_code}")

    def latencies_ms(self, topic: str, seconds: float) -> list[float]:
        """Latencies in ms. A producer that is behind its rate sends the next record immediately. The delay is part of the latency."""
        data = build([Record(0, int(time.time() * 1000), b"k", bytes(RECORD_BYTES))])
        began, out = time.monotonic(), []
        for i in range(int(seconds * RATE)):
            due = began + i / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            self.send(topic, data)
            out.append((time.monotonic() - due) * 1000)
            if time.monotonic() - began > 2 * seconds:
                break
        return sorted(out)

    def close(self) -> None:
        self.file.close()
        self.sock.close()


def measure(system: System, connections: int, seconds: float) -> dict[str, tuple[list[float], str]]:
    """By kind of hostile request: the latencies, and the result of the hostile client. Quiet latencies are measured first and last."""
    make_topics(system, ["searched", "others"], 1)
    now_ms, port = int(time.time() * 1000), system.ports[1]
    found: dict[str, tuple[list[float], str]] = {}
    producer = Producer(port)
    producer.send("searched", tiny_batch(RECORDS, now_ms))
    producer.latencies_ms("others", SETTLE_SECONDS * 2)  # warm-up
    found["quiet"] = producer.latencies_ms("others", seconds), "-"
    for kind in KINDS:
        topic = "searched" if kind == "lookups" else "others"
        run_seconds = seconds * 2 + SETTLE_SECONDS
        attack = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.hostile.attack",
                kind,
                str(port),
                topic,
                str(now_ms + 1),
                str(connections),
                str(run_seconds),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert attack.stdout is not None
            if attack.stdout.readline().strip() != "connected":
                raise SystemExit(f"{system.name}: the hostile client cannot connect")
            time.sleep(SETTLE_SECONDS)
            latencies = producer.latencies_ms("others", seconds)
            attack.terminate()
            out = attack.communicate(timeout=60)[0].strip()
            found[kind] = latencies, out or "ended"
        except OSError as e:
            found[kind] = [], f"the producer's connection failed: {e}"
            producer = Producer(port)
        finally:
            attack.kill()
            attack.wait(60)
        producer.latencies_ms("others", SETTLE_SECONDS)
    found["quiet again"] = producer.latencies_ms("others", seconds), "-"
    producer.close()
    return found


def _prefer(nice: int) -> None:
    """Raise the priority of this process. If a saturated broker got a quarter of a core only, the latencies would contain delays of the scheduler."""
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    with suppress(PermissionError):
        os.setsid()
    autogroup = Path("/proc/self/autogroup")  # with autogroups, `nice` applies within one group only
    if autogroup.exists():
        autogroup.write_text(str(nice))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="per measurement")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=["kraft"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--nice", type=int, help="of everything that is started, on a machine that others use: -15, as root"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the context managers end all started processes
    if arguments.nice is not None:
        _prefer(arguments.nice)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * arguments.connections)), hard))
    kinds: list[type[System]] = [Weir]
    for kind in arguments.peers:
        try:
            fetch.jars(PEERS[kind].version)
            kinds.append(PEERS[kind])
        except fetch.Absent as e:
            print(f"Kafka ({kind}) is absent: {e}")
    cores = sorted(os.sched_getaffinity(0))
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}, {os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}; "
        f"{arguments.connections} hostile connections, nice {os.getpriority(os.PRIO_PROCESS, 0)}, {RATE} records/s of {RECORD_BYTES} bytes, {arguments.seconds:.0f} s each"
    )
    for _ in range(arguments.rounds):
        for kind in kinds:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-hostile-")))
                system = kind(folder / "s", 1)
                system.folder.mkdir(exist_ok=True)
                stack.callback(system.close)
                system.start()
                pin(system.pids().values(), {cores[0]})
                _report(system, measure(system, arguments.connections, arguments.seconds))
    return 0


def _report(system: System, found: dict[str, tuple[list[float], str]]) -> None:
    quiet = min(percentile(found[name][0], 99) for name in ("quiet", "quiet again") if found[name][0])
    for what, (latencies, responses) in found.items():
        if not latencies:
            print(f"{system.name:14} {what:16} {responses}")
            continue
        p50, p99 = percentile(latencies, 50), percentile(latencies, 99)
        print(
            f"{system.name:14} {what:16} p50 {p50:8.1f} ms  p99 {p99:8.1f} ms  max {latencies[-1]:8.1f} ms  "
            f"p99 against quiet {p99 / quiet:5.1f}x  records {len(latencies):5}  responses and closed {responses}  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
