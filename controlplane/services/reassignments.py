"""Reassignments that clients of brokers ask for (Kafka's AlterPartitionReassignments): the same moves as an operator's, begun at once.

Laws: each partition is judged by itself; a partition belongs to one move, so a client that wants another placement than its move is refused
and told which; to cancel is to send one part of a move back, with the same proof as an operator's cancel. In the caller's transaction.
Called by the controller's database thread (`controller.forwarded`), which gives the image: clients act on what the log says now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import F
from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER, PartitionState, TopicState
from controlplane import moves as core
from controlplane.models import Move, MovePartition
from controlplane.models.move import MoveState, PartState
from controlplane.services import advancing
from controlplane.services.common import record

INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS, NO_REASSIGNMENT_IN_PROGRESS = 39, 60, 85

Refusals = dict[str, tuple[int, str]]
"""By "topic-partition": Kafka's code and a sentence."""


def reassign(items: Sequence[Mapping[str, Any]], image: Image, *, who: str) -> tuple[list[MovePartition], Refusals]:
    """`items`: {"name": "topic-partition", "topic", "partition", "replicas": [..] or None to cancel}. The rows that the controller is to carry
    out now, and what was refused."""
    rows: list[MovePartition] = []
    refused: Refusals = {}
    begun: list[tuple[TopicState, int, tuple[int, ...]]] = []
    for item in items:
        topic = image.topic_named(item["topic"])
        state = topic.partitions.get(item["partition"]) if topic is not None else None
        if topic is None or state is None:
            continue  # judged before: it has gone in this moment, and the core will say so
        part = MovePartition.objects.filter(topic_id=topic.topic_id, partition=item["partition"], active=True).first()
        if item["replicas"] is None:
            outcome = _send_back(part, topic, state, item["partition"], image, who)
            if isinstance(outcome, MovePartition):
                rows.append(outcome)
            else:
                refused[item["name"]] = outcome
        elif part is not None and part.wanted == list(item["replicas"]) and part.state in core.IN_FLIGHT:
            rows.append(part)
        elif part is not None:
            text = f"{item['name']} is part of move {part.move_id}, to {part.wanted}; cancel it or wait for its end"
            refused[item["name"]] = (REASSIGNMENT_IN_PROGRESS, text)
        elif state.target != tuple(item["replicas"]):
            begun.append((topic, item["partition"], tuple(item["replicas"])))
    return rows + (_begin(begun, who) if begun else []), refused


def _begin(parts: Sequence[tuple[TopicState, int, tuple[int, ...]]], who: str) -> list[MovePartition]:
    """One running move of all of them, each ordered at once: whoever wants batches and a throttle asks the console."""
    now = timezone.now()
    named = [{"topic": t.name, "partition": i, "replicas": list(to)} for t, i, to in parts]
    move = Move.objects.create(
        origin="client", scope={"kind": "partitions", "partitions": named}, who=who, why="asked through a broker",
        state=MoveState.RUNNING, started_at=now, parts_in_flight_max=max(8, len(parts)),
    )  # fmt: skip
    for topic, index, to in parts:
        state = topic.partitions[index]
        MovePartition.objects.create(
            move=move, topic_id=topic.topic_id, topic_name=topic.name, partition=index,
            before={"replicas": list(state.target), "leader": _leader(state), "isr": list(state.isr_ids)},
            replicas_from=list(state.target), replicas_to=list(to), wanted=list(to),
            read_generation=state.assignment_generation, state=PartState.ORDERED, ordered_at=now,
        )  # fmt: skip
    before = {f"{t.name}-{i}": list(t.partitions[i].target) for t, i, _ in parts}
    after = {f"{t.name}-{i}": list(to) for t, i, to in parts}
    move.transitions.create(state_from="planned", state_to="running", who=who, why="asked through a broker")
    record(who, "move.start", "move", str(move.pk), before=before, after=after, object_id=f"move-{move.pk}")
    return list(move.parts.order_by("id"))


def _send_back(
    part: MovePartition | None, topic: TopicState, state: PartitionState, index: int, image: Image, who: str
) -> MovePartition | tuple[int, str]:
    name = f"{topic.name}-{index}"
    if part is None:
        text = (
            f"{name} is being reassigned, and no move of this control plane knows of it; move it to where it shall be"
        )
        return NO_REASSIGNMENT_IN_PROGRESS, text
    if part.state in core.TAIL:
        text = f"{name} moves without its old data, which clients do not see; cancel move {part.move_id} where it was ordered"
        return NO_REASSIGNMENT_IN_PROGRESS, text
    if part.state not in core.IN_FLIGHT:
        return NO_REASSIGNMENT_IN_PROGRESS, f"{name} waits for its turn in move {part.move_id}: nothing to cancel yet"
    view = replace(advancing.views_of([part])[0], observed=_observed(state))
    if view.going_back:
        return part
    alive = frozenset(b.broker_id for b in image.live_brokers())
    if (problem := core.cancel_problem([view], alive)) is not None:
        return INVALID_REPLICA_ASSIGNMENT, problem
    move = Move.objects.get(pk=part.move_id)
    Move.objects.filter(pk=move.pk).update(version=F("version") + 1)  # a worker that looks now has seen another world
    advancing.apply_steps(move, core.cancel_steps([view]))
    record(
        who, "move.cancel_part", "move", str(move.pk), before={name: part.wanted}, after={name: part.replicas_from},
        object_id=f"move-{move.pk}",
    )  # fmt: skip
    return MovePartition.objects.get(pk=part.pk)


def _observed(state: PartitionState) -> core.ObservedPart:
    return core.ObservedPart(
        state.replicas, state.isr_ids, state.adding, state.removing, _leader(state), state.assignment_generation, {}
    )


def _leader(state: PartitionState) -> int | None:
    return None if state.leader == NO_LEADER else state.leader
