"""Passes of one row over one system, as values. Brokers run on one core, the client on another. All systems run, and one is measured at a time.

With one replica all data is on broker 1, and only its CPU counts; with three replicas the CPU of all brokers counts.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.client import PLAIN, Done, consume, latencies, percentile, produce
from bench.kernel import busy_seconds, cpu_clock, on_cores, take_memory, thread_demand
from bench.peer.rows import Load, Rate
from bench.peer.systems import System, wait_for

BACKLOG_READS = 4
"""One read takes some tenths of a second. Together they read between half a GB and one GB."""
CLIENT_FULL, BROKERS_IDLE = 0.85, 0.60
"""The client was the limit if one of its threads used a core for at least the first fraction of the time, and the brokers used less than the
second fraction of their core."""


@dataclass(frozen=True, slots=True)
class Cores:
    brokers: int
    client: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of one measured action: seconds; CPU seconds of client and brokers; demand of the client's busiest thread; busy seconds of all cores."""

    seconds: float
    client_cpu: float
    client_demand: float
    brokers_cpu: float
    all_cores: float

    @classmethod
    def together(cls, acts: Sequence[Spent]) -> Spent:
        return cls(*(sum(measurements) for measurements in zip(*(astuple(act) for act in acts), strict=True)))

    @property
    def client_bound(self) -> bool:
        return self.client_demand >= CLIENT_FULL * self.seconds and self.brokers_cpu < BROKERS_IDLE * self.seconds

    @property
    def others(self) -> float:
        """Cores used by other processes than client and measured brokers: neighbours, coordinators, the idle systems."""
        return max(0.0, (self.all_cores - self.client_cpu - self.brokers_cpu) / self.seconds)


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(act: Callable[[Done], float], pids: list[int]) -> Spent:
    """`act` returns its own seconds and calls its argument at their end. The CPU of its set-up is included and must be small."""
    cores = range(os.cpu_count() or 1)
    me = os.getpid()
    before = thread_demand(me)
    brokers, own, total = cpu_clock(pids), _own_cpu(), sum(busy_seconds(c) for c in cores)
    began = time.monotonic()
    end: list[float] = []

    def done() -> None:
        own_demand = max(demand - before.get(thread, 0.0) for thread, demand in thread_demand(me).items())
        busy = sum(busy_seconds(c) for c in cores) - total
        end.extend((_own_cpu() - own, own_demand, cpu_clock(pids) - brokers, busy, time.monotonic() - began))

    seconds = act(done)
    own_cpu, own_demand, brokers_cpu, busy, whole = end
    scale = seconds / whole  # values of the whole act are scaled to its measured part
    return Spent(seconds, own_cpu * scale, own_demand * scale, brokers_cpu, busy * scale)


def make_topics(system: System, names: list[str], replicas: int) -> None:
    """Create topics of one partition each, led by broker 1, and wait until all replicas are ready."""
    place_topics(system, names, list(range(1, replicas + 1)))


def place_topics(system: System, names: list[str], brokers: list[int]) -> None:
    """Create topics of one partition each with replicas on these brokers, led by the first one, and wait until all replicas are ready."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2" if len(brokers) == 3 else "1"}
    done = admin.create_topics([NewTopic(n, 1, replica_assignment=[brokers], config=config) for n in names])
    for future in done.values():
        future.result(60)

    def ready() -> bool:
        topics = admin.list_topics(timeout=20).topics
        return all(
            n in topics
            and topics[n].partitions
            and topics[n].partitions[0].leader == brokers[0]
            and len(topics[n].partitions[0].isrs) == len(brokers)
            for n in names
        )

    wait_for(ready, f"the topics of {system.name}", pause=0.1)


def isr_size(system: System, topic: str) -> int:
    """The size of the ISR of partition 0."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    return len(admin.list_topics(topic, timeout=20).topics[topic].partitions[0].isrs)


def drop_topics(system: System, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    for future in admin.delete_topics(names).values():
        try:
            future.result(60)
        except KafkaException as e:
            raise SystemExit(f"{system.name} did not delete a topic: {e}") from e


def await_removal(system: System, names: list[str]) -> None:
    """Wait for the removal. Rewriting freed pages is cheaper than writing new ones, so each pass must find them free, after any system."""
    left = [f"{system.log_dirs}/{n}-*" for n in names]
    wait_for(lambda: not any(any(system.folder.glob(p)) for p in left), f"{system.name} to remove its files", pause=0.1)


def await_copies(system: System, names: list[str]) -> None:
    """Wait until all replicas have the same number of bytes."""

    def equal() -> bool:
        for name in names:
            copies = [
                sum(segment.stat().st_size for segment in folder.glob("*.log"))
                for folder in system.folder.glob(f"{system.log_dirs}/{name}-0")
            ]
            if len(copies) < 2 or len(set(copies)) > 1:
                return False
        return True

    wait_for(equal, f"the replicas of {system.name} to be equal", pause=0.02)


def _counted(system: System, replicas: int) -> list[int]:
    pids = system.broker_pids()
    return [pids[1]] if replicas == 1 else list(pids.values())


def load_pass(system: System, load: Load, label: str, cores: Cores) -> dict[str, Spent]:
    """{"produce": .., "consume": ..}; "consume" only if the row reads its backlog."""
    names = [f"bench-{label}-{i}" for i in range(load.topics)]
    make_topics(system, names, load.replicas)
    pids, value = _counted(system, load.replicas), os.urandom(load.record_bytes)
    bootstrap, security = (system.bootstrap_tls, system.tls) if load.tls else (system.bootstrap, PLAIN)
    out = {}
    with on_cores({cores.client}):
        take_memory(system.folder, load.megabytes * (load.replicas + 1))  # the logs, and the memory of the client

        def write(done: Done) -> float:
            began = time.monotonic()

            def copied() -> None:
                # With acks=1 the client ends before the followers do. Rates are compared at equal durability, and the CPU of
                # late replication counts.
                if load.replicas > 1 and load.acks == "1":
                    await_copies(system, names)
                done()

            produce(bootstrap, names, value, load.count, load.batch_bytes, load.acks, copied, security)
            return time.monotonic() - began

        out["produce"] = measured(write, pids)
        if load.backlog:
            reads = [
                measured(lambda done: consume(bootstrap, names, load.count, done, security), pids)
                for _ in range(BACKLOG_READS)
            ]
            out["consume"] = Spent.together(reads)
    drop_topics(system, names)
    await_removal(system, names)
    return out


def rate_pass(system: System, rate: Rate, label: str, cores: Cores) -> tuple[dict[str, float], Spent]:
    """({"p50": ms, "p99": .., "p99.9": ..}, its cost)."""
    name = f"bench-{label}"
    make_topics(system, [name], rate.replicas)
    value = os.urandom(1024)
    found: list[float] = []

    def act(done: Done) -> float:
        began = time.monotonic()
        found.extend(latencies(system.bootstrap, name, value, rate.per_second, rate.seconds, rate.acks, done))
        return time.monotonic() - began

    with on_cores({cores.client}):
        spent = measured(act, _counted(system, rate.replicas))
    drop_topics(system, [name])
    await_removal(system, [name])
    return {f"p{p}": percentile(found, p) for p in (50, 99, 99.9)}, spent
