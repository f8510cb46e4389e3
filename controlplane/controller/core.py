"""The controller's sans-IO core: plans metadata records from the image, the registrations, the proposals and the desired state.

Invariants: an event triggers a pass. Each pass plans from the current image. The next pass starts after its records are applied.
A deposed core has no effects. Absence never deletes: only a row marked as deleted deletes a topic.
Does not contain: clocks, Django, ZooKeeper, the rules per kind of event (`brokers`, `proposals`, `pending_requests`, `desired`, `leaders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX, LEVEL_MIN
from brokerd.cluster.metadata import ClusterCreated, MetadataLevelRaised
from brokerd.cluster.model import Now, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import Registration
from controlplane.controller import brokers, leaders, proposals
from controlplane.controller.desired import DesiredState
from controlplane.controller.events import (
    BrokersSeen,
    ControllerTick,
    Deposed,
    DesiredFailed,
    DesiredRead,
    Effect,
    Elected,
    Event,
    IsrProposed,
    LogEntryAppended,
    LoggedChange,
    ReplicasOffline,
    Report,
    ReportKind,
    Requested,
    Subject,
    SubjectKind,
)
from controlplane.controller.pending_requests import PendingRequests
from controlplane.controller.reconcile_pass import ReconcilePass
from controlplane.controller.votes import Votes, reports

PREFERRED_EVERY_MS = 5_000
"""Interval of the preferred leader election."""


@dataclass(slots=True)
class Core:
    image: Image
    cluster_id: str
    """The id of a new cluster."""

    acting: bool = False
    controller_epoch: int = 0
    registrations: Mapping[int, Registration] | None = None
    dead: frozenset[tuple[int, int]] = frozenset()
    """Incarnations whose process has ended before its ZooKeeper session: (broker id, broker epoch)."""
    proposed: dict[int, IsrProposed] = field(default_factory=dict)
    offline: dict[int, tuple[int, frozenset[TopicPartition]]] = field(default_factory=dict)
    """Broker epoch and reported offline replicas of each broker."""
    requests: PendingRequests = field(default_factory=PendingRequests)
    desired: DesiredState = field(default_factory=DesiredState)
    votes: Votes = field(default_factory=Votes)
    leaving: set[ReplicaIncarnation] = field(default_factory=set)
    in_flight: bool = False
    preferred_at_ms: int = 0
    _dirty: bool = True
    """An event has arrived since a pass found nothing to do. Otherwise a tick triggers a pass only when a timer is due."""
    _logged_changes: list[LoggedChange] = field(default_factory=list)
    """Effects that are emitted as soon as the records are in the log."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Elected():
                self._start_term(event.controller_epoch, now)
            case Deposed():
                self.acting = False
                return []
            case BrokersSeen():
                self.registrations, self.dead = event.registrations, event.dead
            case IsrProposed():
                self.proposed[event.broker_id] = event
            case ReplicasOffline():
                self.offline[event.broker_id] = (event.broker_epoch, event.partitions)
            case Requested():
                self.requests.receive(event.request)
            case DesiredRead():
                self.desired.receive(event)
            case DesiredFailed():
                self.requests.on_failed(event)
            case LogEntryAppended():
                self.in_flight = False
                effects, self._logged_changes = [*self._logged_changes], []
            case ControllerTick():
                if not self._needs_pass(now):
                    return []
        self._dirty = True
        if not self.acting or self.in_flight or self.registrations is None:
            return effects
        return [*effects, *self._reconcile(now)]

    def _start_term(self, controller_epoch: int, now: Now) -> None:
        """Drop the input of earlier terms. It will be read again."""
        self.acting, self.controller_epoch, self.in_flight = True, controller_epoch, False
        self.registrations = None
        self.requests, self.desired, self.votes = PendingRequests(), DesiredState(), Votes()
        self.proposed.clear()
        self.offline.clear()
        self.leaving.clear()
        self._logged_changes.clear()
        self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS

    def _needs_pass(self, now: Now) -> bool:
        timer_due = now.mono_ms >= self.preferred_at_ms or self.requests.overdue(now) or self.votes.overdue(now)
        return self._dirty or timer_due

    def validate(self) -> None:
        """Check every invariant of the core. Raises AssertionError. The image validates itself."""
        if self.acting:
            assert self.controller_epoch > 0, "acts without an epoch"
        self.requests.validate()
        self.desired.validate()

    def describe(self) -> dict[str, object]:
        desired = self.desired
        return {
            "acting": self.acting,
            "controller_epoch": self.controller_epoch,
            "in_flight": self.in_flight,
            "image_seq": self.image.seq,
            "brokers_registered": sorted(self.registrations or {}),
            "brokers_leaving": sorted(s.broker_id for s in self.leaving),
            "requests_pending": sorted(self.requests.pending),
            "rows": {
                "topics": len(desired.topics),
                "assignments": len(desired.assignments),
                "resets": len(desired.resets),
            },
        }

    def _without_dead_processes(self, registrations: Mapping[int, Registration]) -> dict[int, Registration]:
        """Leave out the dead incarnations that the metadata log records as alive.

        A dead incarnation that is not in the log is recorded first, and as dead in the next pass. A live broker, whose port refused connections, reads in the
        log that it counts as dead, and registers again. Without a record it would wait for the end of this term.
        """
        return {
            i: r
            for i, r in registrations.items()
            if (i, r.broker_epoch) not in self.dead or self.image.broker_epoch(i) != r.broker_epoch
        }

    def _reconcile(self, now: Now) -> list[Effect]:
        assert self.registrations is not None
        plan = ReconcilePass(self.image, self._without_dead_processes(self.registrations), self.leaving, self.offline)
        if not self.image.cluster_id:
            if self.desired.database_cluster_id != "":
                return self._reject_new_cluster()
            plan.add(ClusterCreated(self.cluster_id))
            readable = min((r.metadata_levels[1] for r in self.registrations.values()), default=LEVEL_MAX)
            if (level := min(LEVEL_MAX, readable)) > LEVEL_MIN:
                plan.add(MetadataLevelRaised(level))
        brokers.apply_registrations(plan)
        self.registrations = plan.registrations
        plan.log_ends = reports(plan, self.proposed)
        brokers.handle_offline_replicas(plan)
        proposals.decide(plan, self.proposed)
        self.desired.restore_features(
            plan
        )  # before the requests, so that a request of this pass overrides a restored level
        self.requests.decide(plan, now)
        self.desired.write_topics(plan, self.requests)
        self.desired.write_access(plan, self.requests)
        # Assignments follow topics and settings, so that a new replica starts with its throttle configured.
        self.desired.write_assignments(plan, self.requests)
        preferred = now.mono_ms >= self.preferred_at_ms
        if preferred:
            self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS
        leaders.elect_leaders(plan, self.votes, now, preferred=preferred)
        self.desired.write_resets(plan)
        self.requests.respond_when_due(plan, now)
        self._logged_changes += plan.logged_changes + plan.automatic_elections()
        append = plan.append()
        self._dirty = self.in_flight = append is not None
        return plan.effects if append is None else [*plan.effects, append]

    def _reject_new_cluster(self) -> list[Effect]:
        """Do not create a new cluster while the database belongs to a cluster: ZooKeeper has lost its data, and a new cluster id would not match the disks
        of the brokers."""
        self._dirty = False
        if self.desired.database_cluster_id is None:
            return []
        text = (
            f"ZooKeeper is empty, but the database belongs to cluster {self.desired.database_cluster_id}: no new cluster is created. "
            "Stop all processes and run `manage.py rebuild` (docs/how-to/disaster.md)"
        )
        return [Report(ReportKind.REJECTED, Subject(SubjectKind.CLUSTER), text)]
