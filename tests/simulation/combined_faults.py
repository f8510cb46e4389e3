"""The faults of `combined`: those of the worlds with moves without old data and of delayed messages, failures of a log directory as a whole, small steps of
wall clocks, clocks of different speed, moves between log directories and preferred elections.

Invariant: a directory that has failed loses at most the data of one machine at a time (`FaultInjector._may_lose`). Wall clocks differ by at most
CLOCK_ERROR_MS.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ElectLeadersRequest
from tests.simulation.clients import Client
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.delays import DelayFaultInjector
from tests.simulation.fault_injector import NOTHING_PROMISED
from tests.simulation.log_dirs import DIRS
from tests.simulation.tails import TailFaultInjector
from tests.simulation.tiered_tails import store_faults
from tests.simulation.world import MS, S

PAUSE_MS = (200, 2_000)
STEP_MS = 1_000
"""The most by which a wall clock differs from the true time."""
CLOCK_ERROR_MS = 2 * STEP_MS
DRIFT_PPM = 10_000
"""Monotonic clocks are that much faster or slower, at most: fifty times more than those of real machines."""
ELECTION_MS = (500, 3_000)


class DeviceRepair(Enum):
    RETURNED = "has all of its data"
    REBOOTED = "has the data that was flushed"
    REPLACED = "is empty"


class CombinedFaultInjector(TailFaultInjector, DelayFaultInjector):
    def __init__(self, *rest: Any, clock_steps: bool, remote: bool, **options: Any) -> None:
        """`remote`: the cluster has a remote store."""
        super().__init__(*rest, **options)
        self._repairs: dict[BrokerNode, tuple[Path, DeviceRepair]] = {}
        self._kinds += [self._directory_fails] * 3
        if clock_steps:
            self._kinds += [self._clock_step] * 2
        if remote and not self._tiered:
            self._kinds += store_faults(self.cluster, self._call_later)

    def _pause(self) -> int:
        return self.world.between(PAUSE_MS[0] * MS, PAUSE_MS[1] * MS)

    def _clock_step(self) -> None:
        node = self._broker()
        node.wall_skew_ms = self.world.between(-STEP_MS, STEP_MS)
        self.world.deliver(f"the wall clock of {node.name} steps to {node.wall_skew_ms} ms")
        self.world.reached["clock step"] += 1

    def _directory_fails(self) -> None:
        """Every operation in one log directory fails from now on. The other directory works."""
        node = self._broker()
        if not node.alive or node.disk.broken or not self._may_lose():
            return
        self._lose(node)
        self.history.unpromised.update(NOTHING_PROMISED)
        directory, repair = Path(self.world.rng.choice(DIRS)), self.world.rng.choice(list(DeviceRepair))
        self.world.deliver(f"the directory {directory} of {node.name} fails; later it {repair.value}")
        self.world.reached["log directory failed"] += 1
        node.disk.broken.add(directory)
        self._repairs[node] = directory, repair
        self._call_later(0.05, 8, lambda: self._repair(node))

    def _repair(self, node: BrokerNode) -> None:
        directory, repair = self._repairs.pop(node)
        if node.alive:
            node.power_cut() if repair is DeviceRepair.REBOOTED else node.kill()
        node.disk.broken.clear()
        if repair is DeviceRepair.REPLACED:
            node.disk.rmtree(directory)
            node.disk.sync_folder(directory)
        self.world.reached[f"failed log directory {repair.value}"] += 1
        node.start()

    def stop_faults(self) -> None:
        for node in self.cluster.brokers.values():
            if node in self._repairs:
                self._repair(node)
            node.wall_skew_ms = 0
        super().stop_faults()


def set_clock_speeds(cluster: Cluster) -> None:
    """Must be called at the start of the world: a clock never jumps."""
    for node in [*cluster.brokers.values(), *cluster.controllers]:
        node.drift_ppm = cluster.world.between(-DRIFT_PPM, DRIFT_PPM)


class PreferredElector(Client):
    """Elects the preferred leaders of all partitions, again and again."""

    def __init__(self, cluster: Cluster, duration_s: float) -> None:
        super().__init__(cluster, "elector")
        self._until_us = self.world.now_us + int(duration_s * S)
        self.enter(self._wait)

    def _wait(self) -> None:
        if self.world.now_us < self._until_us:
            self.call_later(self._elect, self.world.between(*ELECTION_MS))

    def _elect(self) -> None:
        def on_response(response: Any) -> None:
            results = response.replica_election_results if response is not None else []
            for part in (p for t in results for p in t.partition_result):
                self.world.reached[f"preferred election: {ErrorCode(part.error_code).name}"] += 1
            self._wait()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        body = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=2_000)
        self.send_request(any_broker, ApiKey.ELECT_LEADERS, 2, body, on_response)
