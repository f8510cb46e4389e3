"""Ordinary worlds in which the brokers share their cores: each event loop waits for a core for a random part of the time, so replicas that catch up pause
between their fetches. `python -m tests.simulation --busy-cores`. The rules are those of `run`: all replicas catch up in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from brokerd.net.thread_times import ThreadTimes
from tests.simulation import run
from tests.simulation.cluster import Cluster
from tests.simulation.world import World

NS_PER_US = 1_000


def busy_thread(world: World, waiting_percent: Callable[[], int]) -> Callable[[], ThreadTimes]:
    """The times of a thread that never sleeps: since the last reading it waited for the given percentage of the time, and ran for the rest."""
    last_us, running, waiting = world.now_us, 0, 0

    def times() -> ThreadTimes:
        nonlocal last_us, running, waiting
        passed = (world.now_us - last_us) * NS_PER_US
        last_us = world.now_us
        waited = passed * waiting_percent() // 100
        running, waiting = running + passed - waited, waiting + waited
        return ThreadTimes(world.now_us * NS_PER_US, running, waiting)

    return times


def change(cluster: Cluster, duration_s: float) -> None:
    """`duration_s`: of the faults. The cores stay busy after them."""
    for node in cluster.brokers.values():
        node.thread_times = busy_thread(cluster.world, partial(cluster.world.between, 0, 100))


def count_pauses(cluster: Cluster) -> int:
    """Sum of the pauses of the running brokers, in ms."""
    return sum(node.broker.throttles.paused_ms for node in cluster.brokers.values() if node.alive)


live = partial(run.live, settings={"replica.fetch.max.bytes": "1024"}, change=change)
