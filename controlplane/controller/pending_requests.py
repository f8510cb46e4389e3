"""Requests that brokers forward for clients. A request that needs rows is pending until its records are in the log.

Invariants: each request is answered once, in the log entry of its effect or at its deadline. Metadata levels, features, elections
and controlled shutdowns never wait for the database. Does not contain: validation (`request_validation`), rows (`desired`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from brokerd.cluster.levels import FEATURE
from brokerd.cluster.metadata import AccessChanged, FeatureFinalised, MetadataLevelRaised
from brokerd.cluster.model import Now, ReplicaIncarnation, TopicPartition
from brokerd.cluster.requests import (
    AlterAccess,
    AlterBrokerConfigs,
    AlterReassignments,
    AlterTopicConfigs,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionResult,
    ElectLeaders,
    FeatureUpdate,
    ForwardedRequest,
    ItemResult,
    LevelResult,
    PartitionsToElect,
    RaiseMetadataLevel,
    RowsPayload,
    Unreadable,
    UpdateFeatures,
    results_to_json,
)
from brokerd.cluster.typed_json import encode_record
from brokerd.wire.errors import ErrorCode
from controlplane.controller import elections, leaders, request_validation
from controlplane.controller.events import DesiredFailed, LoggedChange, WriteDesired
from controlplane.controller.reconcile_pass import ReconcilePass
from controlplane.domain.audit_operation import AuditOperation

ACCESS_LEVEL = AccessChanged.LEVEL
REQUEST_MS_MAX = 15_000
"""Deadline of a forwarded request. Later it is answered with a time-out."""


@dataclass(slots=True)
class PendingRequest:
    """A request with its results so far, and the names of the items that are not in the log yet."""

    request: ForwardedRequest
    results: list[ItemResult]
    waiting: set[str]
    deadline_mono_ms: int
    partitions: Mapping[str, TopicPartition] = field(default_factory=dict)
    """The partition that each item reassigns."""

    def fail(self, names: Container[str], error: int, message: str) -> None:
        self.results = [replace(r, error=error, message=message) if r.name in names else r for r in self.results]


@dataclass(slots=True)
class PendingRequests:
    pending: dict[str, PendingRequest] = field(default_factory=dict)
    new_requests: list[ForwardedRequest] = field(default_factory=list)

    # -- input -----------------------------------------------------------------------------------------------------------
    def receive(self, request: ForwardedRequest) -> None:
        if request.request_id not in self.pending:
            self.new_requests.append(request)

    def on_failed(self, event: DesiredFailed) -> None:
        pending = self.pending.get(event.request_id)
        if pending is not None:
            failed = set(event.names) or set(pending.waiting)
            pending.fail(pending.waiting & failed, event.error, event.message)
            pending.waiting -= failed

    def mark_fulfilled(self, request_id: str | None, name: str) -> None:
        """The item is in the log, or in this pass's records."""
        pending = self.pending.get(request_id or "")
        if pending is not None:
            pending.waiting.discard(name)

    def record_rejection(self, request_id: str | None, name: str, reason: str) -> None:
        """Record that the item `name` of the request is rejected, with the reason."""
        pending = self.pending.get(request_id or "")
        if pending is not None:
            pending.fail((name,), ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
            pending.waiting.discard(name)

    def overdue(self, now: Now) -> bool:
        return any(now.mono_ms >= p.deadline_mono_ms for p in self.pending.values())

    def validate(self) -> None:
        for request_id, pending in self.pending.items():
            assert request_id == pending.request.request_id, f"request {request_id} is kept under another's id"
            names = {r.name for r in pending.results}
            assert pending.waiting <= names, (
                f"request {request_id} waits for unrequested items: {pending.waiting - names}"
            )

    # -- steps of a pass -------------------------------------------------------------------------------------------------
    def decide(self, plan: ReconcilePass, now: Now) -> None:
        new_requests, self.new_requests = self.new_requests, []
        for request in new_requests:
            match request.payload:
                case ControlledShutdown():
                    leaders.start_controlled_shutdown(plan, ReplicaIncarnation(request.broker_id, request.broker_epoch))
                    _respond(plan, request, [])
                case RaiseMetadataLevel():
                    _raise_level(plan, request, request.payload)
                case UpdateFeatures():
                    _update_features(plan, request, request.payload)
                case ElectLeaders():
                    _elect(plan, request, request.payload)
                case Unreadable():
                    plan.respond(request.request_id, ErrorCode.INVALID_REQUEST, request.payload.reason, {})
                case (
                    CreateTopics()
                    | DeleteTopics()
                    | CreatePartitions()
                    | AlterTopicConfigs()
                    | AlterBrokerConfigs()
                    | AlterAccess()
                    | AlterReassignments()
                ):
                    self._forward_to_database(plan, request, request.payload, now)
                case _:
                    assert_never(request.payload)

    def _forward_to_database(
        self, plan: ReconcilePass, request: ForwardedRequest, payload: RowsPayload, now: Now
    ) -> None:
        """Send the valid items to the database thread."""
        results = request_validation.verdicts(payload, plan.image, plan.live_brokers())
        if isinstance(payload, AlterAccess | AlterBrokerConfigs) and plan.level() < ACCESS_LEVEL:
            too_early = (ErrorCode.UNSUPPORTED_VERSION, request_validation.ACCESS_NEEDS_LEVEL)
            results = [ItemResult(r.name, *too_early) for r in results]
        good = {r.name or "" for r in results if not r.error}
        if not good or payload.validate_only:
            _respond(plan, request, results)
            return
        self.pending[request.request_id] = PendingRequest(
            request, results, good, now.mono_ms + REQUEST_MS_MAX, _partitions(plan, payload)
        )
        desired = payload.only(place for place, r in enumerate(results) if not r.error)
        plan.effects.append(WriteDesired(replace(request, payload=desired)))

    def respond_when_due(self, plan: ReconcilePass, now: Now) -> None:
        """Answer completed requests and those past their deadline."""
        for request_id, pending in list(self.pending.items()):
            gone = {name for name in pending.waiting if _is_deleted(plan, pending.partitions.get(name))}
            if gone:
                text = "the topic was deleted before the change was made"
                pending.fail(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
                pending.waiting -= gone
            if pending.waiting and now.mono_ms >= pending.deadline_mono_ms:
                text = "the database did not write the change in time; the change may still be applied later"
                pending.fail(pending.waiting, ErrorCode.REQUEST_TIMED_OUT, text)
                pending.waiting.clear()
            if not pending.waiting:
                del self.pending[request_id]
                _respond(plan, pending.request, pending.results)


def _partitions(plan: ReconcilePass, payload: RowsPayload) -> dict[str, TopicPartition]:
    """Return the partition of each item of a reassignment. A topic that is created later under the same name is another topic."""
    if not isinstance(payload, AlterReassignments):
        return {}
    topics = {item.topic: plan.image.topic_named(item.topic) for item in payload.items}
    return {
        item.name: TopicPartition(topic.topic_id, item.partition)
        for item in payload.items
        if (topic := topics[item.topic]) is not None
    }


def _is_deleted(plan: ReconcilePass, tp: TopicPartition | None) -> bool:
    return tp is not None and plan.state(tp) is None


def _respond(plan: ReconcilePass, request: ForwardedRequest, results: Sequence[ItemResult]) -> None:
    plan.respond(request.request_id, ErrorCode.NONE, None, results_to_json(results))


def _raise_level(plan: ReconcilePass, request: ForwardedRequest, payload: RaiseMetadataLevel) -> None:
    level, problem = request_validation.requested_level(payload.level, plan.image, plan.registrations.values())
    if problem is None:
        _finalise(plan, request, FEATURE, level)
    error = ErrorCode.NONE if problem is None else ErrorCode.INVALID_UPDATE_VERSION
    plan.respond(request.request_id, error, problem, encode_record(LevelResult(level)))


def _update_features(plan: ReconcilePass, request: ForwardedRequest, payload: UpdateFeatures) -> None:
    results = request_validation.feature_results(payload, plan.image, plan.registrations.values(), plan.level())
    if not payload.validate_only and not any(r.error for r in results):
        for item in sorted(payload.items, key=_log_level_first):
            _finalise(plan, request, item.name, item.level)
    _respond(plan, request, results)


def _log_level_first(item: FeatureUpdate) -> bool:
    return item.name != FEATURE


def _finalise(plan: ReconcilePass, request: ForwardedRequest, name: str, level: int) -> None:
    before = plan.level() if name == FEATURE else plan.image.features.get(name, 0)
    if level == before and (name == FEATURE or name in plan.image.features):
        return
    plan.add(MetadataLevelRaised(level) if name == FEATURE else FeatureFinalised(name, level))
    plan.logged_changes.append(
        LoggedChange(
            request_validation.principal_of(request),
            AuditOperation.FEATURE_FINALISE,
            "feature",
            name,
            {"level": before},
            {"level": level},
        )
    )


def _elect(plan: ReconcilePass, request: ForwardedRequest, payload: ElectLeaders) -> None:
    """Elect immediately, without the database. The audit row is written after the record is in the log."""
    _respond(plan, request, [_elect_in_topic(plan, request, item, unclean=payload.unclean) for item in payload.items])


def _elect_in_topic(
    plan: ReconcilePass, request: ForwardedRequest, item: PartitionsToElect, *, unclean: bool
) -> ElectionResult:
    topic = plan.image.topic_named(item.name)
    verdicts: list[tuple[int, ErrorCode]] = []
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    for index in item.partitions:
        tp = TopicPartition(topic.topic_id, index) if topic is not None else None
        state = plan.state(tp) if tp is not None else None
        if topic is None or tp is None or state is None or not topic.ready:
            verdicts.append((index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        least = plan.config(topic).min_insync_replicas
        elected, error = elections.elect(
            state,
            plan.serving_epochs(tp),
            plan.leadership_disabled(),
            min_insync=least,
            unclean=unclean,
            log_ends=plan.log_ends.get((tp, state.leader_epoch)),
        )
        verdicts.append((index, error))
        if elected is not None:
            before[str(index)], after[str(index)] = state.leader, elected.leader
            plan.put(tp, elected, requested=True)
    rejected = not after and any(e != ErrorCode.ELECTION_NOT_NEEDED for _, e in verdicts)
    if after or rejected:
        errors = {str(i): int(e) for i, e in verdicts if e}
        plan.logged_changes.append(
            LoggedChange(
                request_validation.principal_of(request),
                AuditOperation.TOPIC_CLIENT_ELECT_UNCLEAN if unclean else AuditOperation.TOPIC_CLIENT_ELECT_PREFERRED,
                "topic",
                item.name,
                before or None,
                after or None,
                f"Kafka error codes by partition: {errors}" if errors else "",
                rejected,
            )
        )
    return ElectionResult(item.name, partitions=tuple(verdicts))
