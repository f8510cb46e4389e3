"""The liveness probes of a simulated controller. The rules are those of the product (`Liveness`); the simulation decides what each connection attempt shows.

A world may make the results wrong: a machine that died is silent, or a live broker refuses this controller for a while. Does not contain: sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.liveness import Liveness
from tests.simulation.world import MS

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, ControllerNode

Incarnation = tuple[int, int]
"""(broker id, broker epoch)"""
RESPONSE_MS_MAX = 5
"""Between a connection attempt and its result."""
WRONG_MS = (50, 3_000)
"""For how long a live broker refuses a controller."""


@dataclass(frozen=True, slots=True)
class ProbeAccuracy:
    """Accuracy of a controller's probes: the share of deaths that they notice, and of live brokers that refuse a controller for a while."""

    reported: float
    wrong: float
    together: float = 0
    """The share of deaths that are noticed at once, and of kills that end all brokers at one moment."""


NO_PROBES = ProbeAccuracy(0, 0)


class SimProbes:
    def __init__(self, cluster: Cluster, node: ControllerNode) -> None:
        self.liveness = Liveness()
        self._cluster, self._node = cluster, node
        self._silent: set[Incarnation] = set()
        """Their machine died: nothing closes a connection or refuses one."""
        self._refusing_until_us: dict[Incarnation, int] = {}
        self._ended_standing_by: set[Incarnation] = set()
        self._acting = False

    @property
    def dead(self) -> frozenset[Incarnation]:
        return self.liveness.reported

    @property
    def while_standing_by(self) -> bool:
        return self._cluster.probes.reported > 0

    def fileno(self) -> int:
        raise AssertionError("a simulation does not poll")

    def close(self) -> None:
        pass

    def begin_term(self, now: Now) -> None:
        self._acting = True
        self.liveness.begin_term(now)

    def stand_by(self, now: Now) -> None:
        self._acting = False
        self.liveness.stand_by(now)

    def watch(self, registrations: Mapping[int, Registration]) -> None:
        if self._cluster.probes.reported == 0:
            return
        known = {i: e.broker_epoch for i, e in self.liveness.evidence.items()}
        self.liveness.watch(registrations)
        rng = self._cluster.probes_rng
        for broker_id, registration in registrations.items():
            if known.get(broker_id) == registration.broker_epoch or rng.random() >= self._cluster.probes.wrong:
                continue
            for_ms = rng.randint(*WRONG_MS)
            self._node.post(rng.randint(200, 6_000) * MS, lambda i=broker_id, ms=for_ms: self.refuse(i, ms))  # type: ignore[misc]

    def is_connected(self, broker_id: int) -> bool:
        evidence = self.liveness.evidence.get(broker_id)
        return evidence is not None and evidence.connected

    def refuse(self, broker_id: int, for_ms: int) -> None:
        """The live broker closes the connection of this controller, and refuses new ones for so long."""
        if self.is_connected(broker_id):
            incarnation = (broker_id, self.liveness.evidence[broker_id].broker_epoch)
            self._refusing_until_us[incarnation] = self._cluster.world.now_us + for_ms * MS
            self._on_ended(incarnation)

    def run_iteration(self, now: Now) -> bool:
        for broker_id in self.liveness.due(now):
            self.liveness.on_attempt(broker_id)
            incarnation = (broker_id, self.liveness.evidence[broker_id].broker_epoch)
            delay_us = self._cluster.probes_rng.randint(0, RESPONSE_MS_MAX) * MS
            self._node.post(delay_us, lambda i=incarnation: self._on_response(i))  # type: ignore[misc]
        before = self.dead
        if not self.liveness.report(now):
            return False
        self._count(self.dead - before)
        return True

    def _count(self, found: frozenset[Incarnation]) -> None:
        reached = self._cluster.world.reached
        if len(found) > 1:
            reached["simultaneous deaths"] += 1
        for broker_id, broker_epoch in found:
            node = self._cluster.brokers[broker_id]
            wrong = node.alive and node.broker.membership.broker_epoch == broker_epoch
            reached["live broker declared dead" if wrong else "death found by a probe"] += 1
            if (broker_id, broker_epoch) in self._ended_standing_by:
                reached["death known to a standby controller"] += 1

    # -- results of attempts -------------------------------------------------------------------------------------------
    def _is_watched(self, incarnation: Incarnation) -> bool:
        evidence = self.liveness.evidence.get(incarnation[0])
        return self._node.probes is self and evidence is not None and evidence.broker_epoch == incarnation[1]

    def _on_response(self, incarnation: Incarnation) -> None:
        broker_id, now = incarnation[0], self._node.clock()
        if not self._is_watched(incarnation) or not self.liveness.evidence[broker_id].attempting:
            return
        node = self._cluster.brokers[broker_id]
        if self._cluster.world.now_us < self._refusing_until_us.get(incarnation, 0) or (
            not node.alive and incarnation not in self._silent
        ):
            self._cluster.refusals.setdefault((self._node.name, *incarnation), []).append(self._cluster.world.now_us)
            self.liveness.refused(broker_id, now)
        elif node.alive:
            self.liveness.on_connected(broker_id)
            node.on_death.append(lambda: self._on_died(incarnation))
        else:
            self.liveness.unreachable(broker_id, now)
        self._node.run_iteration()

    def _on_died(self, incarnation: Incarnation) -> None:
        """The process to which the probe is connected has died."""
        chances, rng = self._cluster.probes, self._cluster.probes_rng
        if not self._is_watched(incarnation):
            return
        if rng.random() >= chances.reported:
            self._silent.add(incarnation)
            return
        slowest_ms = 20 if rng.random() < chances.together else 200
        self._node.post(rng.randint(1, slowest_ms) * MS, lambda: self._on_ended(incarnation))

    def _on_ended(self, incarnation: Incarnation) -> None:
        if self._is_watched(incarnation) and self.is_connected(incarnation[0]):
            self.liveness.on_connection_ended(incarnation[0], self._node.clock())
            if not self._acting:
                self._ended_standing_by.add(incarnation)
            self._node.run_iteration()
