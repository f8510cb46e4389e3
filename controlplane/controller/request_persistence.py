"""Writes rows for requests that brokers forward for clients: one transaction per request.

Invariants: a request that was handled before returns its rows and writes nothing. A request is written completely or not at all,
except reassignments: each partition is decided separately, as in Kafka. Does not contain: the meaning of a change (services).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_never
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BROKER
from brokerd.cluster.requests import (
    AccessUpdate,
    AlterAccess,
    AlterBrokerConfigs,
    AlterReassignments,
    BrokerConfigOps,
    ForwardedRequest,
    NewPartitions,
    NewReassignment,
    NewTopic,
    TopicConfigOps,
    TopicsPayload,
    TopicToDelete,
)
from controlplane.controller import request_validation
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredFailed,
    DesiredRead,
    DesiredTopic,
)
from controlplane.domain import tail_move
from controlplane.domain.config_overlay import apply_overlay
from controlplane.domain.move_states import PartState
from controlplane.models import AccessEntry, HandledRequest, MovePartition, ObservedTopic, Topic
from controlplane.services import Rejected, access, reassignments, topics

HANDLED_KEPT = timedelta(days=1)
"""Time for which a handled request is remembered. Its client waits for seconds."""


TopicItem = NewTopic | TopicToDelete | NewPartitions | TopicConfigOps


def persist(request: ForwardedRequest, image: Image) -> list[DesiredRead | DesiredFailed]:
    """Write the request and return the events for the core. Raises Rejected, IntegrityError, or ValueError for a text that the database
    cannot store."""
    with transaction.atomic():
        payload = request.payload
        if isinstance(payload, AlterAccess):
            return [DesiredRead(access=_access(request, payload.items, image))]
        if isinstance(payload, AlterBrokerConfigs):
            return [DesiredRead(access=_settings(request, payload.items, image))]
        if isinstance(payload, AlterReassignments):
            return _reassignments(request, payload.items, image)
        assert isinstance(payload, TopicsPayload), f"{request.kind} writes no rows"
        rows = _topics(request, payload.items)
        return [DesiredRead(tuple(desired_topic(row, request.request_id) for row in rows))]


def _handled_rows(request: ForwardedRequest) -> list[str] | None:
    """Ids of the rows that the request wrote the first time; None for a new request."""
    row = HandledRequest.objects.filter(pk=request.request_id).first()
    if row is None:
        HandledRequest.objects.filter(at__lt=timezone.now() - HANDLED_KEPT).delete()
    return row.topic_ids if row is not None else None


def _remember(request: ForwardedRequest, rows: list[str]) -> None:
    HandledRequest.objects.create(request_id=request.request_id, kind=request.kind, topic_ids=rows)


def _access(request: ForwardedRequest, items: Sequence[AccessUpdate], image: Image) -> tuple[DesiredAccess, ...]:
    out = []
    for item in items:
        known = image.access_to(item.kind, item.name)[0]
        row = access.put(item.kind, item.name, item.value, actor=request_validation.principal_of(request), above=known)
        out.append(desired_access(row, request.request_id))
    return tuple(out)


def _settings(request: ForwardedRequest, items: Sequence[BrokerConfigOps], image: Image) -> tuple[DesiredAccess, ...]:
    out = []
    for item in items:
        key = item.name or access.ALL_BROKERS
        known, logged = image.configs_of_broker(int(key))
        row = access.put_settings(
            key, item.configs, logged, actor=request_validation.principal_of(request), above=known
        )
        out.append(desired_access(row, request.request_id))
    return tuple(out)


def _reassignments(
    request: ForwardedRequest, items: Sequence[NewReassignment], image: Image
) -> list[DesiredRead | DesiredFailed]:
    rid = request.request_id
    rejected: list[DesiredRead | DesiredFailed] = []
    before = _handled_rows(request)
    if before is None:
        rows, rejections = reassignments.reassign(items, image, actor=request_validation.principal_of(request))
        _remember(request, [str(r.pk) for r in rows])
        rejected = [DesiredFailed(rid, code, text, (name,)) for name, (code, text) in rejections.items()]
    else:
        rows = list(MovePartition.objects.filter(pk__in=[int(pk) for pk in before]))
    desired = {(r.topic_id, r.partition) for r in rows}
    # A partition with the requested replicas needs no row. The core answers for it.
    same = [
        DesiredAssignment(topic.topic_id, item.partition, item.replicas, -1, "", rid)
        for item in items
        if item.replicas is not None
        and (topic := image.topic_named(item.topic)) is not None
        and (topic.topic_id, item.partition) not in desired
        and (state := topic.partitions.get(item.partition)) is not None
        and state.target == item.replicas
    ]
    return [DesiredRead(assignments=(*(desired_assignment(r, rid) for r in rows), *same)), *rejected]


def _topics(request: ForwardedRequest, items: Sequence[TopicItem]) -> list[Topic]:
    if (before := _handled_rows(request)) is not None:
        return list(Topic.objects.filter(id__in=[UUID(i) for i in before]))
    rows = [_topic(request.request_id, item, request_validation.principal_of(request)) for item in items]
    _remember(request, [str(row.id) for row in rows])
    return rows


def _topic(rid: str, item: TopicItem, actor: str) -> Topic:
    match item:
        case NewTopic():
            return topics.create_topic(
                item.name,
                partitions=item.partitions,
                replication_factor=item.replication_factor,
                configs={k: v for k, v in item.configs.items() if v is not None},
                assignment={k: list(v) for k, v in item.assignment.items()} if item.assignment else None,
                actor=actor,
                request_id=rid,
                checked=True,
            )
        case TopicToDelete():
            return topics.delete_topic(_name(item), actor=actor, request_id=rid)
        case NewPartitions():
            row = topics.get_topic(item.name)
            given = item.assignment
            return topics.alter_topic(
                item.name,
                partitions=item.partitions,
                assignment={row.partitions + i: list(r) for i, r in enumerate(given)} if given else None,
                actor=actor,
                request_id=rid,
            )
        case TopicConfigOps():
            row = topics.get_topic(item.name)
            desired, problem = request_validation.apply_config_operations(row.configs, item.configs)
            if problem is not None:
                raise Rejected(problem, "configs")
            return topics.alter_topic(
                item.name,
                set_configs=desired,
                delete_configs=[k for k in row.configs if k not in desired],
                actor=actor,
                request_id=rid,
            )
        case _:
            assert_never(item)


def _name(topic: TopicToDelete) -> str:
    if topic.name:
        return topic.name
    assert topic.id is not None, "the core has found the topic by its name or its id"
    row = Topic.objects.filter(id=topic.id).first()
    if row is not None:
        return row.name
    seen = ObservedTopic.objects.filter(id=topic.id).first()
    raise Rejected(
        f"Topic {seen.name if seen else topic.id} exists in the cluster but not in the database (drift); adopt it first.",
        "name",
    )


# -- rows as the core's values -----------------------------------------------------------------------------------------------


def desired_topic(row: Topic, request_id: str | None = None) -> DesiredTopic:
    return DesiredTopic(
        topic_id=row.id,
        name=row.name,
        generation=row.generation,
        deleted=row.deleted_at is not None,
        partitions=row.partitions,
        replication_factor=row.replication_factor,
        configs=apply_overlay(row.configs, row.overlay),
        assignment={int(k): tuple(v) for k, v in row.assignment.items()} if row.assignment else None,
        request_id=request_id or row.request_id,
    )


def desired_assignment(row: MovePartition, request_id: str | None = None) -> DesiredAssignment:
    order = tail_move.order(
        PartState(row.state),
        desired_replicas=row.desired_replicas,
        replicas_from=row.replicas_from,
        replicas_to=row.replicas_to,
        delete_below=row.delete_below,
        hand_over_at=row.hand_over_at,
    )
    return DesiredAssignment(
        row.topic_id,
        row.partition,
        order.replicas,
        row.read_generation,
        str(row.move_id),
        request_id,
        order.observers,
        order.delete_below,
        order.hand_over_at,
    )


def desired_access(row: AccessEntry, request_id: str | None = None) -> DesiredAccess:
    value = apply_overlay(row.value or {}, row.overlay) if row.kind == BROKER else row.value
    return DesiredAccess(row.kind, row.key, row.generation, value, request_id)
