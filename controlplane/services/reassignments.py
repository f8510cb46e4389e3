"""Reassignments requested by Kafka clients (AlterPartitionReassignments): the same moves as an operator's, started immediately.

Invariants: each partition is checked separately. A partition belongs to one move, so a request for another placement is rejected, and the rejection
names the move. A cancellation reverts one partition of a move, with the same check as an operator's cancel. Runs in the
caller's transaction. The controller passes its metadata image, so requests are decided by the current state of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from django.db.models import F
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.model import PartitionState, TopicState
from brokerd.cluster.requests import NewReassignment
from brokerd.wire.errors import ErrorCode
from controlplane.domain import move_revert
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.move_states import IN_FLIGHT, TAIL, MoveOrigin
from controlplane.domain.move_types import ObservedPart, PlacementBefore
from controlplane.domain.scope import PartitionsScope, Placement
from controlplane.models import Move, MovePartition
from controlplane.models.move import MoveState, PartState
from controlplane.services import move_worker
from controlplane.services.common import record


class ReassignmentRejection(NamedTuple):
    code: ErrorCode
    message: str


Rejections = dict[str, ReassignmentRejection]
"""Rejections by "topic-partition"."""


def reassign(items: Sequence[NewReassignment], image: Image, *, actor: str) -> tuple[list[MovePartition], Rejections]:
    """Returns the rows that the controller has to carry out now, and the rejections."""
    rows: list[MovePartition] = []
    rejected: Rejections = {}
    begun: list[tuple[TopicState, int, tuple[int, ...]]] = []
    for item in items:
        topic = image.topic_named(item.topic)
        state = topic.partitions.get(item.partition) if topic is not None else None
        if topic is None or state is None:
            continue  # this was checked before: the topic was just deleted, and the controller answers for it
        part = MovePartition.objects.filter(topic_id=topic.topic_id, partition=item.partition, active=True).first()
        if item.replicas is None:
            outcome = _revert_partition(part, topic, state, item.partition, image, actor)
            if isinstance(outcome, MovePartition):
                rows.append(outcome)
            else:
                rejected[item.name] = outcome
        elif part is not None and part.desired_replicas == list(item.replicas) and part.state in IN_FLIGHT:
            rows.append(part)
        elif part is not None:
            text = f"{item.name} is part of move {part.move_id}, to {part.desired_replicas}; cancel that move, or wait until it ends"
            rejected[item.name] = ReassignmentRejection(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
        elif state.target != item.replicas:
            begun.append((topic, item.partition, item.replicas))
    return rows + (_begin(begun, actor) if begun else []), rejected


def _begin(parts: Sequence[tuple[TopicState, int, tuple[int, ...]]], actor: str) -> list[MovePartition]:
    """Create a running move of all these partitions and submit each immediately. Batches and a throttle are available in the console only."""
    now = timezone.now()
    named = tuple(Placement(t.name, i, tuple(to)) for t, i, to in parts)
    move = Move.objects.create(
        origin=MoveOrigin.CLIENT,
        scope=PartitionsScope(named),
        actor=actor,
        comment="requested through a broker",
        state=MoveState.RUNNING,
        started_at=now,
        parts_in_flight_max=max(8, len(parts)),
    )
    for topic, index, to in parts:
        state = topic.partitions[index]
        MovePartition.objects.create(
            move=move,
            topic_id=topic.topic_id,
            topic_name=topic.name,
            partition=index,
            before=PlacementBefore(tuple(state.target), state.leader_id, tuple(state.isr_ids)),
            replicas_from=list(state.target),
            replicas_to=list(to),
            desired_replicas=list(to),
            read_generation=state.assignment_generation,
            state=PartState.SUBMITTED,
            submitted_at=now,
        )
    before = {f"{t.name}-{i}": list(t.partitions[i].target) for t, i, _ in parts}
    after = {f"{t.name}-{i}": list(to) for t, i, to in parts}
    move.transitions.create(state_from="planned", state_to="running", actor=actor, comment="requested through a broker")
    record(
        actor, AuditOperation.MOVE_START, "move", str(move.pk), before=before, after=after, object_id=f"move-{move.pk}"
    )
    return list(move.parts.order_by("id"))


def _revert_partition(
    part: MovePartition | None, topic: TopicState, state: PartitionState, index: int, image: Image, actor: str
) -> MovePartition | ReassignmentRejection:
    name = f"{topic.name}-{index}"
    if part is None:
        text = (
            f"{name} is being reassigned outside the moves of this control plane; create a move to the desired replicas"
        )
        return ReassignmentRejection(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
    if part.state in TAIL:
        text = f"{name} moves in mode tail, which clients cannot cancel; cancel move {part.move_id} in the console or by REST"
        return ReassignmentRejection(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
    if part.state not in IN_FLIGHT:
        return ReassignmentRejection(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            f"{name} is queued in move {part.move_id}: there is no reassignment to cancel yet",
        )
    view = replace(move_worker.views_of([part])[0], observed=_observed_part(state))
    if view.going_back:
        return part
    alive = frozenset(b.broker_id for b in image.live_brokers())
    if (problem := move_revert.cancel_problem([view], alive)) is not None:
        return ReassignmentRejection(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    move = Move.objects.get(pk=part.move_id)
    Move.objects.filter(pk=move.pk).update(
        version=F("version") + 1
    )  # the new version invalidates a poll of the worker in progress
    move_worker.apply_steps(move, move_revert.cancel_steps([view]))
    record(
        actor,
        AuditOperation.MOVE_CANCEL_PART,
        "move",
        str(move.pk),
        before={name: part.desired_replicas},
        after={name: part.replicas_from},
        object_id=f"move-{move.pk}",
    )
    return MovePartition.objects.get(pk=part.pk)


def _observed_part(state: PartitionState) -> ObservedPart:
    return ObservedPart(
        state.replicas, state.isr_ids, state.adding, state.removing, state.leader_id, state.assignment_generation, {}
    )
