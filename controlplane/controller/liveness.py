"""Decides which registered brokers are dead from the results of connection attempts: values only, without sockets and clocks.

Invariants: an incarnation counts as dead only after a connection was established, that connection ended, and REFUSALS consecutive attempts
were refused *in the current term of this controller*. A standby controller stores the first two facts, which stay true, but no verdict, because a refusal from
before its election may be outdated. A host that does not respond, is slow or is unknown does not count as dead. A verdict is final for the term. Brokers that
die together are reported together.
Does not contain: connections (`liveness_probes`), the effects of a death (`brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration

REFUSALS = 2
REFUSED_RETRY_MS = 50
"""Pause between two attempts after a refused connection: shorter than a listener's restart, longer than a full accept queue."""
UNREACHABLE_RETRY_MS = 2_000
TOGETHER_MS_MAX = 2 * REFUSED_RETRY_MS
"""The longest time that a detected death waits for brokers whose connection has also ended. Without such brokers it does not wait."""


@dataclass(slots=True)
class ConnectionResults:
    """The results of connection attempts to one incarnation of a broker."""

    broker_epoch: int
    was_connected: bool = False
    """A connection to this incarnation has been established."""
    connected: bool = False
    attempting: bool = False
    refusals: int = 0
    """Consecutive refused connections in the current term, after an accepted connection."""
    due_mono_ms: int = 0
    dead: bool = False

    @property
    def in_doubt(self) -> bool:
        return self.was_connected and not self.connected and not self.dead


class Liveness:
    """The brokers given to `watch`. The caller makes the attempts that are `due` and passes on each result."""

    def __init__(self) -> None:
        self.reported: frozenset[tuple[int, int]] = frozenset()
        """Dead incarnations: (broker id, broker epoch)."""
        self.evidence: dict[int, ConnectionResults] = {}
        self._acting = False
        self._unreported_since_ms: int | None = None

    def watch(self, registrations: Mapping[int, Registration]) -> list[int]:
        """Watch exactly these brokers. Returns the ids of the brokers whose earlier incarnation is no longer watched."""
        gone = [
            i
            for i, e in self.evidence.items()
            if i not in registrations or registrations[i].broker_epoch != e.broker_epoch
        ]
        for broker_id in gone:
            del self.evidence[broker_id]
        for broker_id, registration in registrations.items():
            self.evidence.setdefault(broker_id, ConnectionResults(registration.broker_epoch))
        self.reported &= {(i, e.broker_epoch) for i, e in self.evidence.items()}
        return gone

    def begin_term(self, now: Now) -> None:
        """Begin the term of this controller after its election. Brokers whose connection has ended are tried again immediately."""
        self._acting = True
        for evidence in self.evidence.values():
            if evidence.in_doubt:
                evidence.refusals, evidence.due_mono_ms = 0, now.mono_ms

    def stand_by(self, now: Now) -> None:
        """The term has ended, and with it its verdicts."""
        self._acting = False
        self._unreported_since_ms = None
        self.reported = frozenset()
        for evidence in self.evidence.values():
            evidence.refusals = 0
            if evidence.dead:
                evidence.dead, evidence.due_mono_ms = False, now.mono_ms + UNREACHABLE_RETRY_MS

    def counts(self) -> tuple[int, int, int]:
        """Numbers of brokers with a connection, with an ended connection, and without any connection so far."""
        connected = sum(e.connected for e in self.evidence.values())
        before = sum(e.was_connected for e in self.evidence.values())
        return connected, before - connected, len(self.evidence) - before

    # -- attempts ------------------------------------------------------------------------------------------------------
    def due(self, now: Now) -> list[int]:
        """Brokers that need a connection attempt now."""
        return [
            i
            for i, e in self.evidence.items()
            if not (e.connected or e.attempting or e.dead) and now.mono_ms >= e.due_mono_ms
        ]

    def on_attempt(self, broker_id: int) -> None:
        self.evidence[broker_id].attempting = True

    def on_connected(self, broker_id: int) -> None:
        evidence = self.evidence[broker_id]
        evidence.attempting, evidence.connected, evidence.was_connected, evidence.refusals = False, True, True, 0

    def on_connection_ended(self, broker_id: int, now: Now) -> None:
        """The connection was closed by the broker's host."""
        evidence = self.evidence[broker_id]
        evidence.connected, evidence.due_mono_ms = False, now.mono_ms

    def unreachable(self, broker_id: int, now: Now) -> None:
        """The attempt failed without a refusal, so the broker may be alive."""
        evidence = self.evidence[broker_id]
        evidence.attempting, evidence.due_mono_ms = False, now.mono_ms + UNREACHABLE_RETRY_MS

    def refused(self, broker_id: int, now: Now) -> bool:
        """True if the incarnation is dead."""
        evidence = self.evidence[broker_id]
        evidence.attempting = False
        if not self._acting or not evidence.was_connected:
            evidence.due_mono_ms = now.mono_ms + UNREACHABLE_RETRY_MS
            return False
        evidence.refusals += 1
        evidence.due_mono_ms = now.mono_ms + REFUSED_RETRY_MS
        evidence.dead = evidence.refusals >= REFUSALS
        if evidence.dead and self._unreported_since_ms is None:
            self._unreported_since_ms = now.mono_ms
        return evidence.dead

    def report(self, now: Now) -> bool:
        """True when `reported` has grown."""
        if self._unreported_since_ms is None:
            return False
        overdue = now.mono_ms - self._unreported_since_ms >= TOGETHER_MS_MAX
        if not overdue and any(e.in_doubt for e in self.evidence.values()):
            return False
        before = self.reported
        self.reported = frozenset((i, e.broker_epoch) for i, e in self.evidence.items() if e.dead)
        self._unreported_since_ms = None
        return self.reported != before
