"""What the controller does next: a sans-IO core over the image, the registrations, the proposals and what is wanted.

Laws: events are reasons to look; each look plans from the image as it stands and waits until its records are applied before the
next. A deposed core says nothing. Absence never deletes: a topic goes only by a row that says deleted. Called by `runner` and the
simulation. Must not come in: clocks, Django, ZooKeeper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from brokerd.cluster import election
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE, LEVEL_MAX, LEVEL_MIN
from brokerd.cluster.metadata import (
    BROKER,
    AccessChanged,
    BrokerConfigChanged,
    BrokerDown,
    BrokerUp,
    ClusterCreated,
    FeatureFinalised,
    IsrRefused,
    MetadataLevelRaised,
    PartitionChanged,
    PartitionsGrown,
    Record,
    ReplicaReset,
    RequestAnswered,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import (
    NO_LEADER,
    BrokerState,
    Now,
    PartitionState,
    Seat,
    TopicPartition,
    TopicState,
)
from brokerd.cluster.placement import PlacementError, place
from brokerd.cluster.znodes import ELECT, RAISE_LEVEL, UPDATE_FEATURES, ForwardedRequest, IsrProposal, Registration
from controlplane.controller import elections, placements, requests
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    ChangeMade,
    Deposed,
    DesiredAccess,
    DesiredAssignment,
    DesiredFailed,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    Effect,
    Elected,
    Event,
    IsrProposed,
    ReplicasOffline,
    Report,
    Requested,
    Tick,
    WriteDesired,
)

ACCESS_LEVEL = AccessChanged.LEVEL
UNSUPPORTED_VERSION = 35
REQUEST_TIMED_OUT, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST = 7, 39, 42
REQUEST_MS_MAX = 15_000
"""A forwarded request that the database has not settled by then is answered with a time-out."""
PREFERRED_EVERY_MS = 5_000
"""How often leaders are put back on the first of their replicas."""


@dataclass(slots=True)
class Pending:
    """A request under way: the verdicts so far, and the topics still to be seen in the log."""

    request: ForwardedRequest
    results: list[dict[str, Any]]
    waiting: set[str]
    deadline_mono_ms: int


@dataclass(slots=True)
class Core:
    image: Image
    cluster_id: str
    """The id a new cluster gets."""
    broker_defaults: Mapping[str, str] = field(default_factory=dict)

    acting: bool = False
    controller_epoch: int = 0
    registrations: Mapping[int, Registration] | None = None
    proposals: dict[int, tuple[int, tuple[IsrProposal, ...]]] = field(default_factory=dict)
    offline: dict[int, tuple[int, frozenset[TopicPartition]]] = field(default_factory=dict)
    """Per broker: its incarnation, and the copies that it says it cannot serve."""
    pending: dict[str, Pending] = field(default_factory=dict)
    fresh: list[ForwardedRequest] = field(default_factory=list)
    rows_of: str | None = None
    """The cluster that the database belongs to, "" for none; None until it has said so in this term."""
    topics: dict[UUID, DesiredTopic] = field(default_factory=dict)
    assignments: dict[TopicPartition, DesiredAssignment] = field(default_factory=dict)
    resets: dict[str, DesiredReset] = field(default_factory=dict)
    access: list[DesiredAccess] = field(default_factory=list)
    leaving: set[Seat] = field(default_factory=set)
    in_flight: bool = False
    preferred_at_ms: int = 0
    _stirred: bool = True
    """Something has happened since a look found nothing to do: only then, or when a time has come, is a tick a reason to look."""
    _work: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    _out: list[Record | None] = field(default_factory=list)
    _places_in_out: dict[TopicPartition, int] = field(default_factory=dict)
    _load: Counter[int] | None = None
    _answered: list[str] = field(default_factory=list)
    _effects: list[Effect] = field(default_factory=list)
    _made: list[ChangeMade] = field(default_factory=list)
    """Told once they stand in the log."""

    # -- events --------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        told: list[Effect] = []
        match event:
            case Elected():
                self.acting, self.controller_epoch, self.in_flight = True, event.controller_epoch, False
                self.registrations = self.rows_of = None
                for store in (self.proposals, self.offline, self.pending, self.topics, self.assignments, self.resets):
                    store.clear()
                self.fresh.clear()
                self.access.clear()
                self.leaving.clear()
                self._made.clear()
                self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS
            case Deposed():
                self.acting = False
                return []
            case BrokersSeen():
                self.registrations = event.registrations
            case IsrProposed():
                self.proposals[event.broker_id] = (event.incarnation, event.proposals)
            case ReplicasOffline():
                self.offline[event.broker_id] = (event.incarnation, event.partitions)
            case Requested():
                if event.request.request_id not in self.pending:
                    self.fresh.append(event.request)
            case DesiredRead():
                self._desired(event)
            case DesiredFailed():
                pending = self.pending.get(event.request_id)
                if pending is not None:
                    failed = set(event.names) or set(pending.waiting)
                    for result in pending.results:
                        if result["name"] in pending.waiting & failed:
                            result.update(error=event.error, message=event.message)
                    pending.waiting -= failed
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

    def _due(self, now: Now) -> bool:
        return (
            self._stirred
            or now.mono_ms >= self.preferred_at_ms
            or any(now.mono_ms >= p.deadline_mono_ms for p in self.pending.values())
        )

    def validate(self) -> None:
        """Every invariant of the core; raises AssertionError with the story. The image validates itself."""
        if self.acting:
            assert self.controller_epoch > 0, "acts without an epoch"
        for request_id, pending in self.pending.items():
            assert request_id == pending.request.request_id, f"request {request_id} is kept under another's id"
            names = {r["name"] for r in pending.results}
            assert pending.waiting <= names, (
                f"request {request_id} waits for topics it did not ask about: {pending.waiting - names}"
            )
        for topic_id, topic in self.topics.items():
            assert topic_id == topic.topic_id, f"row of {topic.name} is kept under another's id"

    def describe(self) -> dict[str, Any]:
        return {
            "acting": self.acting, "controller_epoch": self.controller_epoch, "in_flight": self.in_flight,
            "image_seq": self.image.seq, "brokers_registered": sorted(self.registrations or {}),
            "brokers_leaving": sorted(s.broker_id for s in self.leaving), "requests_pending": sorted(self.pending),
            "rows": {"topics": len(self.topics), "assignments": len(self.assignments), "resets": len(self.resets)},
        }  # fmt: skip

    def _desired(self, event: DesiredRead) -> None:
        if event.complete:
            self.rows_of = event.cluster_id
        for topic in event.topics:
            self.topics[topic.topic_id] = topic
        for a in event.assignments:
            self.assignments[TopicPartition(a.topic_id, a.partition)] = a
        for reset in event.resets:
            self.resets[reset.reset_id] = reset
        self.access += event.access

    # -- one look ------------------------------------------------------------------------------------------------------
    def _look(self, now: Now) -> list[Effect]:
        assert self.registrations is not None
        self._work, self._out, self._places_in_out, self._load = {}, [], {}, None
        self._answered, self._effects = [], []
        if not self.image.cluster_id:
            if self.rows_of != "":
                return self._not_founded()
            self._out.append(ClusterCreated(self.cluster_id))
            spoken = min((r.metadata_levels[1] for r in self.registrations.values()), default=LEVEL_MAX)
            if (level := min(LEVEL_MAX, spoken)) > LEVEL_MIN:
                self._out.append(MetadataLevelRaised(level))
        self._brokers()
        self._offline_replicas()
        self._isr_proposals()
        self._requests(now)
        self._wanted_topics()
        self._wanted_access()
        self._wanted_assignments()  # after topics and settings: a copy begins under its throttle
        self._partitions(now)
        self._resets()
        self._answers(now)
        effects, self._effects = self._effects, []
        out = tuple(r for r in self._out if r is not None)
        self._stirred = self.in_flight = bool(out or self._answered)
        if self.in_flight:
            effects.append(AppendMetadata(out, tuple(self._answered)))
        return effects

    def _not_founded(self) -> list[Effect]:
        """An empty ZooKeeper under a database of a cluster is a loss, not a beginning: a new cluster would be one that no broker's disk knows."""
        self._stirred = False
        if self.rows_of is None:
            return []
        text = (
            f"ZooKeeper is empty, the database is of cluster {self.rows_of}: no new cluster is begun; stop everything and "
            "`manage.py rebuild` (docs/how-to/disaster.md)"
        )
        return [Report("refused", "cluster", text)]

    # -- reading through what this look has decided already --------------------------------------------------------------
    def _state(self, tp: TopicPartition) -> PartitionState | None:
        return self._work.get(tp) or self.image.partition(tp)

    def _put(self, tp: TopicPartition, state: PartitionState | None) -> None:
        if state is None:
            return
        before = self.image.partition(tp)
        if before is not None:
            self._tell_of_loss(tp, before, state)
            state = replace(state, partition_epoch=before.partition_epoch + 1)
        self._work[tp] = state
        at = self._places_in_out.setdefault(tp, len(self._out))
        self._out[at : at + 1] = [PartitionChanged(tp.topic_id, tp.partition, state)]

    def _tell_of_loss(self, tp: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        """A leader that could not prove to hold what was acknowledged: somebody allowed it, and somebody should know."""
        proven = {*before.isr_ids, *before.elr, *before.last_isr}
        if after.leader != NO_LEADER and after.leader != before.leader and after.leader not in proven:
            name = self.image.topics[tp.topic_id].name
            text = f"broker {after.leader} was elected uncleanly; what only {sorted(proven) or 'others'} held is lost"
            self._effects.append(Report("unclean", f"partition {name}-{tp.partition}", text))

    def _incarnation(self, broker_id: int) -> int | None:
        """Of a broker that may lead: registered, of this cluster, not on its way out."""
        assert self.registrations is not None
        r = self.registrations.get(broker_id)
        if r is None or Seat(broker_id, r.incarnation) in self.leaving:
            return None
        return r.incarnation

    def _serving(self, tp: TopicPartition) -> election.Incarnation:
        """`_incarnation` for one partition: a broker whose copy of it is offline cannot lead it."""

        def incarnation(broker_id: int) -> int | None:
            current = self._incarnation(broker_id)
            return None if self._is_offline(broker_id, current, tp) else current

        return incarnation

    def _is_offline(self, broker_id: int, incarnation: int | None, tp: TopicPartition) -> bool:
        told = self.offline.get(broker_id)
        return told is not None and told[0] == incarnation and tp in told[1]

    def _config(self, topic: TopicState) -> TopicConfig:
        return TopicConfig.from_overrides(topic.configs, self.broker_defaults)

    def _live(self) -> list[BrokerState]:
        assert self.registrations is not None
        return [
            BrokerState(
                r.broker_id, r.incarnation, r.broker_uuid, r.host, r.port, r.rack, r.failure_domain, True, r.endpoints
            )
            for _, r in sorted(self.registrations.items())
            if self._incarnation(r.broker_id) is not None
        ]

    # -- brokers come and go ---------------------------------------------------------------------------------------------
    def _brokers(self) -> None:
        assert self.registrations is not None
        foreign = [
            r for r in self.registrations.values()
            if r.cluster_id and self.image.cluster_id and r.cluster_id != self.image.cluster_id
        ]  # fmt: skip
        for r in foreign:
            self._effects.append(
                Report("refused", f"broker {r.broker_id}", f"its folder belongs to cluster {r.cluster_id}")
            )
        deaf = requests.deaf(self.registrations.values(), self.image.metadata_version)
        for r in deaf:
            low, high = r.metadata_levels
            text = f"it reads levels {low} to {high} of the metadata log, which is at {self.image.metadata_version}: upgrade it"
            self._effects.append(Report("refused", f"broker {r.broker_id}", text))
        # Once dead in the log, dead for good: a registration that outlives its process, read by a controller that did not see it die, would
        # bring back what was true at its start. (Who lives all the same reads it and takes a new seat.)
        dead = [
            r for r in self.registrations.values()
            if (b := self.image.brokers.get(r.broker_id)) is not None and b.incarnation == r.incarnation and not b.alive
        ]  # fmt: skip
        gone_or_not_ours = [*foreign, *deaf, *dead]
        self.registrations = {i: r for i, r in self.registrations.items() if r not in gone_or_not_ours}
        gone = [b for b in self.image.live_brokers() if b.broker_id not in self.registrations]
        came = [
            r for _, r in sorted(self.registrations.items())
            if self.image.incarnation(r.broker_id) != r.incarnation
        ]  # fmt: skip
        endpoints = self._level() >= ACCESS_LEVEL
        for b in gone:
            self._out.append(BrokerDown(b.broker_id, b.incarnation))
        for r in came:
            self._out.append(self._up(r, endpoints))
        for r in self.registrations.values():
            # Of who registered before the level was raised; nothing else about it changes.
            known = self.image.brokers.get(r.broker_id)
            if (
                endpoints
                and known is not None
                and known.incarnation == r.incarnation
                and known.endpoints != r.endpoints
            ):
                self._out.append(self._up(r, True))
        if not gone and not came:
            return
        lost = {r.broker_id for r in came if not r.tail_intact}
        for topic, index, first in self.image.each_partition():
            touched = [b.broker_id for b in gone if b.broker_id in first.replicas]
            returned = [r for r in came if r.broker_id in first.replicas]
            if not touched and not returned:
                continue
            tp = TopicPartition(topic.topic_id, index)
            config = self._config(topic)
            for broker_id in [*touched, *(r.broker_id for r in returned if r.broker_id in lost)]:
                state = self._state(tp)
                assert state is not None
                self._put(
                    tp,
                    election.without(
                        state, broker_id, self._serving(tp), min_insync=config.min_insync_replicas,
                        tail_lost=broker_id in lost, unclean=config.unclean_leader_election,
                    ),
                )  # fmt: skip
            for r in returned:
                if r.broker_id not in lost:
                    state = self._state(tp)
                    assert state is not None
                    self._put(tp, election.seated_anew(state, Seat(r.broker_id, r.incarnation)))

    @staticmethod
    def _up(r: Registration, endpoints: bool) -> BrokerUp:
        return BrokerUp(
            r.broker_id, r.incarnation, r.broker_uuid, r.host, r.port, r.rack, r.failure_domain, r.tail_intact,
            r.endpoints if endpoints else (),
        )  # fmt: skip

    # -- copies on directories that failed -------------------------------------------------------------------------------
    def _offline_replicas(self) -> None:
        """They leave ISR and ELR as after the loss of a tail: what their directory held may never come back."""
        for broker_id, (incarnation, partitions) in sorted(self.offline.items()):
            if self._incarnation(broker_id) != incarnation:
                continue
            for tp in sorted(partitions):
                state, topic = self._state(tp), self.image.topics.get(tp.topic_id)
                if state is None or topic is None or broker_id not in (*state.isr_ids, *state.elr):
                    continue
                config = self._config(topic)
                self._put(
                    tp,
                    election.without(
                        state, broker_id, self._serving(tp), min_insync=config.min_insync_replicas, tail_lost=True,
                        unclean=config.unclean_leader_election,
                    ),
                )  # fmt: skip

    # -- leaders ask for ISRs ----------------------------------------------------------------------------------------------
    def _isr_proposals(self) -> None:
        for broker_id, (incarnation, proposals) in sorted(self.proposals.items()):
            if self._incarnation(broker_id) != incarnation:
                continue
            for p in proposals:
                tp = TopicPartition(p.topic_id, p.partition)
                state, topic = self.image.partition(tp), self.image.topics.get(p.topic_id)
                if state is None or topic is None or tp in self._work:
                    continue
                if (p.leader_epoch, p.partition_epoch) != (state.leader_epoch, state.partition_epoch):
                    continue  # answered, or overtaken: the log already tells the leader so
                reason = self._isr_problem(broker_id, incarnation, p, state)
                if reason is None:
                    self._put(tp, election.with_isr(state, p.isr, min_insync=self._config(topic).min_insync_replicas))
                else:
                    self._out.append(
                        IsrRefused(
                            broker_id, incarnation, p.topic_id, p.partition, p.leader_epoch, p.partition_epoch, reason
                        )
                    )
                    # The epoch moves, so that nobody accepts it later: the leader counts without the newcomer from then on.
                    self._put(tp, state)

    def _isr_problem(self, broker_id: int, incarnation: int, p: IsrProposal, state: PartitionState) -> str | None:
        if (state.leader, state.leader_incarnation) != (broker_id, incarnation):
            return f"broker {broker_id} does not lead"
        if Seat(broker_id, incarnation) not in p.isr:
            return "the leader left itself out"
        for seat in p.isr:
            if seat.broker_id not in state.replicas:
                return f"broker {seat.broker_id} is no replica"
            if self._incarnation(seat.broker_id) != seat.incarnation:
                return f"broker {seat.broker_id} is away, leaving, or of another incarnation than {seat.incarnation}"
            if self._is_offline(seat.broker_id, seat.incarnation, TopicPartition(p.topic_id, p.partition)):
                return f"broker {seat.broker_id}'s copy is offline"
        return None

    # -- forwarded requests ------------------------------------------------------------------------------------------------
    def _requests(self, now: Now) -> None:
        fresh, self.fresh = self.fresh, []
        for request in fresh:
            if request.kind == "controlled_shutdown":
                self._leave(request)
            elif request.kind == RAISE_LEVEL:
                self._raise_level(request)
            elif request.kind == UPDATE_FEATURES:
                self._update_features(request)
            elif request.kind == ELECT:
                self._elect(request)
            elif requests.known(request.kind):
                results = requests.verdicts(request.kind, request.payload, self.image, self._live())
                if request.kind in ("alter_access", "alter_broker_configs") and self._level() < ACCESS_LEVEL:
                    for r in results:
                        r.update(error=UNSUPPORTED_VERSION, message=requests.ACCESS_NEEDS_LEVEL)
                good = {r["name"] for r in results if not r["error"]}
                if not good or request.payload.get("validate_only"):
                    self._answer(request.request_id, results)
                    continue
                self.pending[request.request_id] = Pending(request, results, good, now.mono_ms + REQUEST_MS_MAX)
                wanted = [t for t, r in zip(request.payload["topics"], results, strict=True) if not r["error"]]
                self._effects.append(WriteDesired(replace(request, payload={**request.payload, "topics": wanted})))
            else:
                self._out.append(
                    RequestAnswered(request.request_id, INVALID_REQUEST, f"unknown request {request.kind!r}", {})
                )
                self._answered.append(request.request_id)

    def _raise_level(self, request: ForwardedRequest) -> None:
        assert self.registrations is not None
        level, problem = requests.wanted_level(request.payload, self.image, self.registrations.values())
        if problem is None:
            self._finalise(request, FEATURE, level)
        error = 0 if problem is None else requests.INVALID_UPDATE_VERSION
        self._out.append(RequestAnswered(request.request_id, error, problem, {"level": level}))
        self._answered.append(request.request_id)

    def _update_features(self, request: ForwardedRequest) -> None:
        assert self.registrations is not None
        results = requests.feature_results(request.payload, self.image, self.registrations.values(), self._level())
        if not request.payload.get("validate_only") and not any(r["error"] for r in results):
            for item in sorted(request.payload["topics"], key=lambda i: i["name"] != FEATURE):
                self._finalise(request, item["name"], int(item["level"]))
        self._answer(request.request_id, results)

    def _finalise(self, request: ForwardedRequest, name: str, level: int) -> None:
        before = self._level() if name == FEATURE else self.image.features.get(name, 0)
        if level == before and (name == FEATURE or name in self.image.features):
            return
        self._out.append(MetadataLevelRaised(level) if name == FEATURE else FeatureFinalised(name, level))
        self._made.append(
            ChangeMade(
                requests.asker(request), "feature.finalise", "feature", name, {"level": before}, {"level": level}
            )
        )

    def _elect(self, request: ForwardedRequest) -> None:
        """At once, whether the database answers or not: its row is written when the log has it."""
        unclean = bool(request.payload.get("unclean"))
        results = []
        for item in request.payload["topics"]:
            topic = self.image.topic_named(item["name"])
            verdicts: list[list[int]] = []
            before: dict[str, int] = {}
            after: dict[str, int] = {}
            for index in item["partitions"]:
                tp = TopicPartition(topic.topic_id, index) if topic is not None else None
                state = self._state(tp) if tp is not None else None
                if topic is None or tp is None or state is None or not topic.ready:
                    verdicts.append([index, requests.UNKNOWN_TOPIC_OR_PARTITION])
                    continue
                elected, error = elections.held(state, self._serving(tp), unclean=unclean)
                verdicts.append([index, error])
                if elected is not None:
                    before[str(index)], after[str(index)] = state.leader, elected.leader
                    self._put(tp, elected)
            results.append({"name": item["name"], "error": 0, "message": None, "partitions": verdicts})
            refused = not after and any(e != elections.ELECTION_NOT_NEEDED for _, e in verdicts)
            if after or refused:
                kind = "unclean" if unclean else "preferred"
                errors = {str(i): e for i, e in verdicts if e}
                self._made.append(
                    ChangeMade(
                        requests.asker(request), f"topic.elect-{kind}", "topic", item["name"], before or None, after or None,
                        f"Kafka's error by partition: {errors}" if errors else "", refused,
                    )
                )  # fmt: skip
        self._answer(request.request_id, results)

    def _leave(self, request: ForwardedRequest) -> None:
        """Controlled shutdown: leaders move off and the broker leaves every ISR that can do without it."""
        broker_id, leaver = request.broker_id, Seat(request.broker_id, request.incarnation)
        if self._incarnation(broker_id) == request.incarnation:
            self.leaving.add(leaver)
            for topic, index, first in self.image.each_partition():
                if broker_id not in first.isr_ids or len(first.isr) < 2:
                    continue
                tp = TopicPartition(topic.topic_id, index)
                state = self._state(tp)
                assert state is not None
                rest = tuple(s for s in state.isr if s.broker_id != broker_id)
                if not any(self._serving(tp)(s.broker_id) == s.incarnation for s in rest):
                    continue
                shrunk = election.with_isr(state, rest, min_insync=self._config(topic).min_insync_replicas)
                if state.leader == broker_id:
                    self._put(tp, election.elected(shrunk, self._serving(tp)))
                else:
                    self._put(tp, shrunk)
        self._answer(request.request_id, [])

    def _answer(self, request_id: str, results: list[dict[str, Any]]) -> None:
        self._out.append(RequestAnswered(request_id, 0, None, {"results": results}))
        self._answered.append(request_id)

    def _answers(self, now: Now) -> None:
        for request_id, pending in list(self.pending.items()):
            if pending.waiting and now.mono_ms >= pending.deadline_mono_ms:
                for result in pending.results:
                    if result["name"] in pending.waiting:
                        result.update(error=REQUEST_TIMED_OUT, message="the database did not take the change in time; "
                                      "nothing was changed yet, but it may still be")  # fmt: skip
                pending.waiting.clear()
            if not pending.waiting:
                del self.pending[request_id]
                self._answer(request_id, pending.results)

    def _level(self) -> int:
        """Of the log once this look's records are in it."""
        raised = [r.level for r in self._out if isinstance(r, MetadataLevelRaised)]
        return max(self.image.metadata_version, *raised) if raised else self.image.metadata_version

    # -- wanted access -----------------------------------------------------------------------------------------------------
    def _wanted_access(self) -> None:
        if self.access and self._level() < ACCESS_LEVEL:
            self._effects.append(Report("refused", "access entries", requests.ACCESS_NEEDS_LEVEL))
            return
        wanted_now, self.access = self.access, []
        written: dict[tuple[str, str], int] = {}
        for wanted in wanted_now:
            known, _ = self.image.access_to(wanted.kind, wanted.key)
            known = max(known, written.get((wanted.kind, wanted.key), 0))
            if wanted.generation > known:
                written[wanted.kind, wanted.key] = wanted.generation
                self._out.append(_carried(wanted))
            elif wanted.generation < known:
                text = f"the row has generation {wanted.generation}, the log {known}: an older database?"
                self._effects.append(Report("drift", f"{wanted.kind} {wanted.key}", text))
            pending = self.pending.get(wanted.request_id or "")
            if pending is not None:
                pending.waiting.discard("" if (wanted.kind, wanted.key) == (BROKER, "-1") else wanted.key)

    # -- wanted topics -----------------------------------------------------------------------------------------------------
    def _wanted_topics(self) -> None:
        for topic_id, wanted in sorted(self.topics.items(), key=lambda kv: kv[1].name):
            if self._topic_step(wanted):
                del self.topics[topic_id]
                pending = self.pending.get(wanted.request_id or "")
                if pending is not None:
                    pending.waiting.discard(wanted.name)

    def _topic_step(self, wanted: DesiredTopic) -> bool:
        """Write what the row wants and the log lacks. True when nothing is left to do."""
        topic = self.image.topics.get(wanted.topic_id)
        if topic is None:
            return self._topic_absent(wanted)
        if wanted.generation <= topic.generation:
            if wanted.generation < topic.generation:
                self._drift(
                    wanted,
                    f"the row has generation {wanted.generation}, the log {topic.generation}: an older database?",
                )
            return True
        if wanted.deleted:
            self._out.append(TopicDeleted(topic.topic_id, topic.name, wanted.generation))
            for tp in [TopicPartition(topic.topic_id, i) for i in topic.partitions]:
                if self._work.pop(tp, None) is not None:
                    self._out[self._places_in_out.pop(tp)] = None
            return True
        grown: list[Record] = []
        if wanted.partitions > topic.partition_count:
            try:
                places = self._places(wanted, topic.partition_count)
            except PlacementError as e:
                self._effects.append(Report("refused", wanted.name, f"cannot grow: {e}"))
                return False
            grown.append(PartitionsGrown(topic.topic_id, wanted.generation, wanted.partitions))
            grown += [PartitionChanged(topic.topic_id, i, s) for i, s in places.items()]
        self._out.append(TopicConfigChanged(topic.topic_id, wanted.generation, dict(wanted.configs)))
        self._out += grown
        least = TopicConfig.from_overrides(wanted.configs, self.broker_defaults).min_insync_replicas
        for index, state in topic.partitions.items():
            tp = TopicPartition(topic.topic_id, index)
            now_state = self._work.get(tp, state)
            if now_state.elr and len(now_state.isr) >= least:
                self._put(tp, replace(now_state, elr=()))  # the watermark may rise without them from now on
        return True

    def _topic_absent(self, wanted: DesiredTopic) -> bool:
        if wanted.topic_id in self.image.deleted:
            if not wanted.deleted:
                self._drift(wanted, "the log says that this topic was deleted: an older database?")
            return True
        if wanted.deleted:
            self._out.append(TopicDeleted(wanted.topic_id, wanted.name, wanted.generation))
            return True
        if self.image.topic_named(wanted.name) is not None:
            self._drift(wanted, "the log has another topic of this name")
            return True
        try:
            places = self._places(wanted, 0)
        except PlacementError as e:
            self._effects.append(Report("refused", wanted.name, f"cannot be placed yet: {e}"))
            return False
        self._out.append(
            TopicCreated(wanted.topic_id, wanted.name, wanted.generation, dict(wanted.configs), wanted.partitions)
        )
        self._out += [PartitionChanged(wanted.topic_id, i, s) for i, s in places.items()]
        self._out.append(TopicReady(wanted.topic_id))
        return True

    def _drift(self, wanted: DesiredTopic, text: str) -> None:
        self._effects.append(Report("drift", wanted.name, text))

    def _places(self, wanted: DesiredTopic, first: int) -> dict[int, PartitionState]:
        live = self._live()
        given = wanted.assignment or {}
        missing = [i for i in range(first, wanted.partitions) if i not in given]
        chosen: dict[int, tuple[int, ...]] = {i: tuple(given[i]) for i in range(first, wanted.partitions) if i in given}
        if missing:
            if self._load is None:
                self._load = Counter(r for _, _, state in self.image.each_partition() for r in state.replicas)
            placed = place(wanted.topic_id, missing[0], len(missing), wanted.replication_factor, live, self._load)
            for replicas in placed:
                for r in replicas:
                    self._load[r] += 1
            chosen.update(zip(missing, placed, strict=True))
        out = {}
        for i, replicas in sorted(chosen.items()):
            isr = tuple(Seat(r, inc) for r in replicas if (inc := self._incarnation(r)) is not None)
            if not isr:
                raise PlacementError(f"none of the brokers {list(replicas)} of partition {i} is alive")
            out[i] = PartitionState(replicas, isr, isr[0].broker_id, isr[0].incarnation, 0, 0)
        return out

    # -- moves and recovery --------------------------------------------------------------------------------------------------
    def _wanted_assignments(self) -> None:
        for tp, wanted in list(self.assignments.items()):
            del self.assignments[tp]
            state, topic = self._state(tp), self.image.topics.get(tp.topic_id)
            if state is None or topic is None:
                continue
            name = f"{topic.name}-{tp.partition}"
            if state.target != wanted.replicas or state.assignment_generation == wanted.read_generation:
                after = placements.assigned(state, wanted.replicas, wanted.read_generation, self._incarnation)
                if isinstance(after, str):
                    self._effects.append(Report("refused", f"move {wanted.move_id}", f"{name}: {after}"))
                    self._refuse(wanted.request_id, name, after)
                    continue
                self._put(tp, after)
            if (pending := self.pending.get(wanted.request_id or "")) is not None:
                pending.waiting.discard(name)

    def _refuse(self, request_id: str | None, name: str, reason: str) -> None:
        """Of a request under way: this one of its wishes cannot be met."""
        pending = self.pending.get(request_id or "")
        if pending is not None:
            for result in pending.results:
                if result["name"] == name:
                    result.update(error=INVALID_REPLICA_ASSIGNMENT, message=reason)
            pending.waiting.discard(name)

    def _resets(self) -> None:
        for reset_id, reset in list(self.resets.items()):
            del self.resets[reset_id]
            tp = TopicPartition(reset.topic_id, reset.partition)
            state, topic = self._state(tp), self.image.topics.get(reset.topic_id)
            after: PartitionState | str | None = "this broker holds no such replica"
            if state is not None and topic is not None:
                least = self._config(topic).min_insync_replicas
                after = placements.without_copy(state, reset.broker_id, least, self._serving(tp))
            if isinstance(after, str):
                self._effects.append(Report("refused", f"recovery {reset_id}", after))
                continue
            self._put(tp, after)
            self._out.append(ReplicaReset(reset.topic_id, reset.partition, reset.broker_id, reset_id))

    # -- leaders for whoever has none ------------------------------------------------------------------------------------------
    def _partitions(self, now: Now) -> None:
        preferred = now.mono_ms >= self.preferred_at_ms
        if preferred:
            self.preferred_at_ms = now.mono_ms + PREFERRED_EVERY_MS
        for topic, index, first in self.image.each_partition():
            tp = TopicPartition(topic.topic_id, index)
            if topic.topic_id in self.image.deleted:
                continue
            state = self._work.get(tp, first)
            if state.leader == NO_LEADER:
                found = election.elected(state, self._serving(tp), unclean=self._config(topic).unclean_leader_election)
                self._put(tp, found)
            elif state.reassigning:
                self._put(tp, placements.finished(state, self._serving(tp)))
            elif preferred and state.leader != state.replicas[0]:
                seat = next((s for s in state.isr if s.broker_id == state.replicas[0]), None)
                if seat is not None and self._serving(tp)(seat.broker_id) == seat.incarnation:
                    self._put(tp, election.elected(state, self._serving(tp)))


def _carried(wanted: DesiredAccess) -> Record:
    if wanted.kind == BROKER:
        return BrokerConfigChanged(int(wanted.key), wanted.generation, dict(wanted.value or {}))
    return AccessChanged(wanted.kind, wanted.key, wanted.generation, wanted.value)
