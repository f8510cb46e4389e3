"""What brokers forward for their clients, made rows: one request, one transaction.

Laws: a request that was handled already gives its rows again and writes nothing; all of it is written or nothing, but for reassignments,
where each partition is judged by itself, as in Kafka. Called by `database`, in its thread. Must not come in: what a change means (services).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BROKER
from brokerd.cluster.znodes import ForwardedRequest
from controlplane import tails
from controlplane.controller import requests
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredFailed,
    DesiredRead,
    DesiredTopic,
)
from controlplane.models import AccessEntry, HandledRequest, MovePartition, ObservedTopic, Topic
from controlplane.services import Refused, access, reassignments, throttles, topics

HANDLED_KEPT = timedelta(days=1)
"""How long a handled request is remembered; its author waits for seconds."""


def written(request: ForwardedRequest, image: Image) -> list[DesiredRead | DesiredFailed]:
    """Write it; what the core is to hear. Raises Refused, IntegrityError, or KeyError, TypeError, ValueError for what cannot be read."""
    with transaction.atomic():
        match request.kind:
            case "alter_access":
                return [DesiredRead(access=_access(request, image))]
            case "alter_broker_configs":
                return [DesiredRead(access=_settings(request, image))]
            case "alter_reassignments":
                return _reassignments(request, image)
            case _:
                return [DesiredRead(tuple(desired(row, request.request_id) for row in _topics(request)))]


def _handled(request: ForwardedRequest) -> list[str] | None:
    """What it wrote the first time; None when it is new."""
    row = HandledRequest.objects.filter(pk=request.request_id).first()
    if row is None:
        HandledRequest.objects.filter(at__lt=timezone.now() - HANDLED_KEPT).delete()
    return row.topic_ids if row is not None else None


def _remember(request: ForwardedRequest, rows: list[str]) -> None:
    HandledRequest.objects.create(request_id=request.request_id, kind=request.kind, topic_ids=rows)


def _access(request: ForwardedRequest, image: Image) -> tuple[DesiredAccess, ...]:
    out = []
    for item in request.payload["topics"]:
        known = image.access_to(item["kind"], item["name"])[0]
        row = access.put(item["kind"], item["name"], item["value"], who=requests.asker(request), above=known)
        out.append(entry_of(row, request.request_id))
    return tuple(out)


def _settings(request: ForwardedRequest, image: Image) -> tuple[DesiredAccess, ...]:
    out = []
    for item in request.payload["topics"]:
        key = item["name"] or access.ALL_BROKERS
        known, held = image.access_to(BROKER, key)
        row = access.put_settings(key, item["configs"], held or {}, who=requests.asker(request), above=known)
        out.append(entry_of(row, request.request_id))
    return tuple(out)


def _reassignments(request: ForwardedRequest, image: Image) -> list[DesiredRead | DesiredFailed]:
    rid = request.request_id
    refused: list[DesiredRead | DesiredFailed] = []
    before = _handled(request)
    if before is None:
        rows, refusals = reassignments.reassign(request.payload["topics"], image, who=requests.asker(request))
        _remember(request, [str(r.pk) for r in rows])
        refused = [DesiredFailed(rid, code, text, (name,)) for name, (code, text) in refusals.items()]
    else:
        rows = list(MovePartition.objects.filter(pk__in=[int(pk) for pk in before]))
    wanted = {(r.topic_id, r.partition) for r in rows}
    # What is so already has no row; the core sees it and answers.
    same = [
        DesiredAssignment(topic.topic_id, item["partition"], tuple(item["replicas"]), -1, "", rid)
        for item in request.payload["topics"]
        if item["replicas"] is not None
        and (topic := image.topic_named(item["topic"])) is not None
        and (topic.topic_id, item["partition"]) not in wanted
        and topic.partitions[item["partition"]].target == tuple(item["replicas"])
    ]
    return [DesiredRead(assignments=(*(placed(r, rid) for r in rows), *same)), *refused]


def _topics(request: ForwardedRequest) -> list[Topic]:
    if (before := _handled(request)) is not None:
        return list(Topic.objects.filter(id__in=[UUID(i) for i in before]))
    rows = [_topic(request, topic, requests.asker(request)) for topic in request.payload["topics"]]
    _remember(request, [str(row.id) for row in rows])
    return rows


def _topic(request: ForwardedRequest, topic: Mapping[str, Any], who: str) -> Topic:
    rid = request.request_id
    if request.kind == "create_topics":
        given = topic.get("assignment")
        return topics.create_topic(
            topic["name"],
            partitions=topic["partitions"],
            replication_factor=topic["replication_factor"],
            configs={k: str(v) for k, v in (topic.get("configs") or {}).items() if v is not None},
            assignment={int(k): list(v) for k, v in given.items()} if given else None,
            who=who,
            request_id=rid,
            checked=True,
        )
    name = _name(topic)
    if request.kind == "delete_topics":
        return topics.delete_topic(name, who=who, request_id=rid)
    row = topics.get_topic(name)
    if request.kind == "create_partitions":
        given = topic.get("assignment")
        return topics.alter_topic(
            name,
            partitions=topic["partitions"],
            assignment={row.partitions + i: list(r) for i, r in enumerate(given)} if given else None,
            who=who,
            request_id=rid,
        )
    wanted, problem = requests.altered(row.configs, topic["configs"])
    if problem is not None:
        raise Refused(problem, "configs")
    return topics.alter_topic(
        name,
        set_configs=wanted,
        delete_configs=[k for k in row.configs if k not in wanted],
        who=who,
        request_id=rid,
    )


def _name(topic: Mapping[str, Any]) -> str:
    if topic.get("name"):
        return str(topic["name"])
    topic_id = UUID(str(topic["id"]))
    row = Topic.objects.filter(id=topic_id).first()
    if row is not None:
        return row.name
    seen = ObservedTopic.objects.filter(id=topic_id).first()
    raise Refused(
        f"Topic {seen.name if seen else topic_id} lives in the cluster but not in the database (drift); adopt it first.",
        "name",
    )


# -- rows as the core wants them ---------------------------------------------------------------------------------------------


def desired(row: Topic, request_id: str | None = None) -> DesiredTopic:
    return DesiredTopic(
        topic_id=row.id,
        name=row.name,
        generation=row.generation,
        deleted=row.deleted_at is not None,
        partitions=row.partitions,
        replication_factor=row.replication_factor,
        configs=throttles.effective(row.configs, row.overlay),
        assignment={int(k): tuple(v) for k, v in row.assignment.items()} if row.assignment else None,
        request_id=request_id or row.request_id,
    )


def placed(row: MovePartition, request_id: str | None = None) -> DesiredAssignment:
    order = tails.order(
        row.state, wanted=row.wanted, replicas_from=row.replicas_from, replicas_to=row.replicas_to, cut_at=row.cut_at,
        hand_over_at=row.hand_over_at,
    )  # fmt: skip
    return DesiredAssignment(
        row.topic_id, row.partition, order.replicas, row.read_generation, str(row.move_id), request_id, order.observers,
        order.cut_at, order.hand_over_at,
    )  # fmt: skip


def entry_of(row: AccessEntry, request_id: str | None = None) -> DesiredAccess:
    value = throttles.effective(row.value or {}, row.overlay) if row.kind == BROKER else row.value
    return DesiredAccess(row.kind, row.key, row.generation, value, request_id)
