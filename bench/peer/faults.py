"""Start, kill -9 and recovery: seconds until a client can produce again. The client measures the times; logs are not used. No process is pinned."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from bench.client import produce
from bench.kernel import rss_mb
from bench.peer.runs import drop_topics, make_topics
from bench.peer.systems import System, wait_for

QUICK_TO_RETRY = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "topic.metadata.refresh.interval.ms": 50,
    "socket.connection.setup.timeout.ms": 2_000,
    "log_level": 0,
}
"""The client retries at once, so that its retry interval is not measured."""
FILL_MB = 200


class Probe:
    """A producer that sends a record every few milliseconds. `first_after(t)`: time of the acknowledgement of the first record sent after `t`."""

    def __init__(self, bootstrap: str, topic: str, acks: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0, **QUICK_TO_RETRY})
        self._topic = topic
        self._acked: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            sent = time.monotonic()

            def delivered(error: KafkaError | None, message: Message, sent: float = sent) -> None:
                if error is None:
                    self._acked.append((sent, time.monotonic()))

            try:
                self._producer.produce(self._topic, b"probe", on_delivery=delivered)
            except BufferError:
                pass
            self._producer.poll(0.005)
            time.sleep(0.002)
        self._producer.purge()
        self._producer.flush(5)

    def first_after(self, moment: float) -> float:
        def found() -> float | None:
            return next((acked for sent, acked in list(self._acked) if sent >= moment), None)

        out: float = wait_for(found, f"an acknowledgement on {self._topic}", pause=0.001)
        return out


def whole_isr(system: System, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, **QUICK_TO_RETRY})
    try:
        return len(admin.list_topics(topic, timeout=2).topics[topic].partitions[0].isrs) == system.count
    except KafkaException:
        return False


def kill_pass(system: System, label: str) -> dict[str, float]:
    """kill -9 of broker 1, which leads both topics; later its start. Seconds.

    "failover": until an acks=all producer of three replicas gets its next acknowledgement. "recovery": from the start until the topic that
    only this broker stores (`FILL_MB` of it, never flushed by the broker) acknowledges. "whole": from the start until the ISR is complete.
    """
    three, one = f"bench-{label}-three", f"bench-{label}-one"
    make_topics(system, [three], 3)
    make_topics(system, [one], 1)
    produce(system.bootstrap, [one], os.urandom(1024), FILL_MB * 1_000_000 // 1024, 1_000_000, "1")
    with Probe(system.bootstrap, three, "all") as probe:
        probe.first_after(time.monotonic())
        time.sleep(1)
        killed = time.monotonic()
        system.end_broker(1, signal.SIGKILL)
        failover = probe.first_after(killed) - killed
        time.sleep(1)
        out = {"failover": failover, **_start(system, three, one)}
    drop_topics(system, [three, one])
    return out


def restart_pass(system: System, label: str) -> dict[str, float]:
    """SIGTERM of broker 1, then its start: "restart" until the topic that only this broker stores acknowledges."""
    three, one = f"bench-{label}-three", f"bench-{label}-one"
    make_topics(system, [three], 3)
    make_topics(system, [one], 1)
    system.end_broker(1, signal.SIGTERM)
    out = {"restart": _start(system, three, one)["recovery"]}
    drop_topics(system, [three, one])
    return out


def _start(system: System, three: str, one: str) -> dict[str, float]:
    began = time.monotonic()
    system.start_broker(1)
    with Probe(system.bootstrap, one, "1") as probe:
        recovery = probe.first_after(began) - began
        wait_for(lambda: whole_isr(system, three), f"{system.name}'s ISR", pause=0.01)
        return {"recovery": recovery, "whole": time.monotonic() - began}


def cold_pass(make: Callable[[Path, int], System], folder: Path) -> dict[str, float]:
    """Start of a system of one broker in an empty directory. "cold": seconds until the first acknowledged record. "cold_rss_mb": resident memory (MiB)
    of all its processes at that time."""
    folder.mkdir(parents=True)
    with _closing(make(folder, 1)) as system:
        began = time.monotonic()
        system.start()
        make_topics(system, ["first"], 1)
        with Probe(system.bootstrap, "first", "1") as probe:
            seconds = probe.first_after(began) - began
        return {"cold": seconds, "cold_rss_mb": sum(rss_mb(p) for p in system.pids().values())}


@contextmanager
def _closing(system: System) -> Iterator[System]:
    try:
        yield system
    finally:
        system.close()
