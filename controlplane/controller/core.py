"""What the controller does next: a sans-IO core over the image, the registrations, the proposals and what is wanted.

Laws: events are reasons to look; each look plans from the image as it stands and waits until its records are applied before the
next. A deposed core says nothing. Absence never deletes: a topic goes only by a row that says deleted. Called by `runner` and the
simulation. Must not come in: clocks, Django, ZooKeeper; what each kind of news leads to (`brokers`, `proposals`, `asked`, `wanted`, `leaders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX, LEVEL_MIN
from brokerd.cluster.metadata import ClusterCreated, MetadataLevelRaised
from brokerd.cluster.model import Now, Seat, TopicPartition
from brokerd.cluster.znodes import Registration
from controlplane.controller import brokers, leaders, proposals
from controlplane.controller.asked import Asked
from controlplane.controller.events import (
    Appended,
    BrokersSeen,
    ChangeMade,
    Deposed,
    DesiredFailed,
    DesiredRead,
    Effect,
    Elected,
    Event,
    IsrProposed,
    ReplicasOffline,
    Report,
    Requested,
    Tick,
)
from controlplane.controller.look import Look
from controlplane.controller.wanted import Wanted

PREFERRED_EVERY_MS = 5_000
"""How often leaders are put back on the first of their replicas."""


@dataclass(slots=True)
class Core:
    image: Image
    cluster_id: str
    """The id a new cluster gets."""
    broker_defaults: Mapping[str, str] = field(default_factory=dict)

    acting: bool = False
    controller_epoch: int = 0
    registrations: Mapping[int, Registration] | None = None
    proposed: dict[int, IsrProposed] = field(default_factory=dict)
    offline: dict[int, tuple[int, frozenset[TopicPartition]]] = field(default_factory=dict)
    """Per broker: its incarnation, and the copies that it says it cannot serve."""
    asked: Asked = field(default_factory=Asked)
    wanted: Wanted = field(default_factory=Wanted)
    leaving: set[Seat] = field(default_factory=set)
    in_flight: bool = False
    preferred_at_ms: int = 0
    _stirred: bool = True
    """Something has happened since a look found nothing to do: only then, or when a time has come, is a tick a reason to look."""
    _made: list[ChangeMade] = field(default_factory=list)
    """Told once they stand in the log."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        told: list[Effect] = []
        match event:
            case Elected():
                self._take_office(event.controller_epoch, now)
            case Deposed():
                self.acting = False
                return []
            case BrokersSeen():
                self.registrations = event.registrations
            case IsrProposed():
                self.proposed[event.broker_id] = event
            case ReplicasOffline():
                self.offline[event.broker_id] = (event.incarnation, event.partitions)
            case Requested():
                self.asked.hear(event.request)
            case DesiredRead():
                self.wanted.hear(event)
            case DesiredFailed():
                self.asked.failed(event)
            case Appended():
                self.in_flight = False
                told, self._made = [*self._made], []
            case Tick():
                if not self._due(now):
                    return []
        self._stirred = True
        if not self.acting or self.in_flight or self.registrations is None:
            return told
        return [*told, *self._look(now)]

    def _take_office(self, controller_epoch: int, now: Now) -> None:
        """What was heard in an earlier term is heard anew."""
        self.acting, self.controller_epoch, self.in_flight = True, controller_epoch, False
        self.registrations = None
        self.asked, self.wanted = Asked(), Wanted()
        self.proposed.clear()
        self.offline.clear()
        self.leaving.clear()
        self._made.clear()
        self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS

    def _due(self, now: Now) -> bool:
        return self._stirred or now.mono_ms >= self.preferred_at_ms or self.asked.overdue(now)

    def validate(self) -> None:
        """Every invariant of the core; raises AssertionError with the story. The image validates itself."""
        if self.acting:
            assert self.controller_epoch > 0, "acts without an epoch"
        self.asked.validate()
        self.wanted.validate()

    def describe(self) -> dict[str, Any]:
        wanted = self.wanted
        return {
            "acting": self.acting, "controller_epoch": self.controller_epoch, "in_flight": self.in_flight,
            "image_seq": self.image.seq, "brokers_registered": sorted(self.registrations or {}),
            "brokers_leaving": sorted(s.broker_id for s in self.leaving), "requests_pending": sorted(self.asked.pending),
            "rows": {"topics": len(wanted.topics), "assignments": len(wanted.assignments), "resets": len(wanted.resets)},
        }  # fmt: skip

    def _look(self, now: Now) -> list[Effect]:
        assert self.registrations is not None
        look = Look(self.image, self.registrations, self.leaving, self.offline, self.broker_defaults)
        if not self.image.cluster_id:
            if self.wanted.rows_of != "":
                return self._not_founded()
            look.add(ClusterCreated(self.cluster_id))
            spoken = min((r.metadata_levels[1] for r in self.registrations.values()), default=LEVEL_MAX)
            if (level := min(LEVEL_MAX, spoken)) > LEVEL_MIN:
                look.add(MetadataLevelRaised(level))
        brokers.come_and_go(look)
        self.registrations = look.registrations
        brokers.lose_copies(look)
        proposals.decide(look, self.proposed)
        self.wanted.restore_features(look)  # before requests: what is asked for now counts
        self.asked.decide(look, now)
        self.wanted.write_topics(look, self.asked)
        self.wanted.write_access(look, self.asked)
        self.wanted.write_assignments(look, self.asked)  # after topics and settings: a copy begins under its throttle
        preferred = now.mono_ms >= self.preferred_at_ms
        if preferred:
            self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS
        leaders.settle(look, preferred=preferred)
        self.wanted.write_resets(look)
        self.asked.settle(look, now)
        self._made += look.made
        append = look.append()
        self._stirred = self.in_flight = append is not None
        return look.effects if append is None else [*look.effects, append]

    def _not_founded(self) -> list[Effect]:
        """An empty ZooKeeper under a database of a cluster is a loss, not a beginning: a new cluster would be one that no broker's disk knows."""
        self._stirred = False
        if self.wanted.rows_of is None:
            return []
        text = (
            f"ZooKeeper is empty, the database is of cluster {self.wanted.rows_of}: no new cluster is begun; stop everything and "
            "`manage.py rebuild` (docs/how-to/disaster.md)"
        )
        return [Report("refused", "cluster", text)]
