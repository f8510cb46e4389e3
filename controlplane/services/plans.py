"""Plans as artefacts: saved, compared, approved, begun, in any size. Laws: what a plan says never changes, and its digest is over every part with what
it was read from; it holds no partition, so several may be kept of the same ones; it begins only as it was read: a partition that was placed
anew since is a refusal that names it, never a plan made silently anew. Called by the API and the console.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import plan as planning
from controlplane.bulk import read_many
from controlplane.models import Cluster, Move, Partition, Plan, PlanChunk
from controlplane.models.change import Outcome
from controlplane.placed import PartitionView
from controlplane.services import moves
from controlplane.services import planning as moves_planning
from controlplane.services.common import Refused, needs_reason, record, record_refusal
from controlplane.services.planning import sentences

CHUNK = 500
"""Parts per row: a page of a hundred reads one or two; 100,000 partitions are 200 rows."""

STALE_NAMED_MAX = 5
"""Partitions named that were placed anew since; the rest is counted, and the difference against now lists all."""

Part = tuple[str, str, int, list[int], list[int], int, int | None]
"""topic id, topic, partition, replicas from, replicas to, assignment generation, bytes to copy"""


def save_plan(scope: Mapping[str, Any], *, name: str = "", who: str, why: str, override: bool = False) -> Plan:
    """Plan `scope` (as in `plan.plan`, or Kafka's own file) and keep it. Raises Refused with every problem, but for safety refusals under
    `override`: the move that is made of it begins by two people alone."""
    label = (name or moves_planning.scope_name(scope))[:200]
    try:
        needs_reason(why)
        plan = moves_planning.planned(scope)
        lifted = moves_planning.unproblematic(plan, override=override)
        parts = sorted((_part(p) for p in plan.parts), key=lambda p: p[1:3])
        came, went = plan.incoming(), plan.outgoing()
        seen = Cluster.objects.filter(pk=1).values_list("metadata_seq", flat=True).first()
        with transaction.atomic():
            row = Plan.objects.create(
                name=name[:200], scope=moves_planning.said_shortly(scope), who=who, why=why, digest=digest_of(parts), parts=len(parts),
                copies=sum(len(set(p[4]) - set(p[3])) for p in parts), bytes_to_copy=plan.bytes_to_copy,
                brokers=[[b, came.get(b, 0), went.get(b, 0)] for b in sorted(came.keys() | went.keys())],
                warnings=sentences(plan.warnings), overrides=[*lifted[: moves_planning.SENTENCES_MAX]], metadata_seq=seen or 0,
            )  # fmt: skip
            PlanChunk.objects.bulk_create(
                PlanChunk(plan=row, number=i // CHUNK, parts=parts[i : i + CHUNK]) for i in range(0, len(parts), CHUNK)
            )
            _record(row, "plan.save", who, why, after={"digest": row.digest, "partitions": row.parts})
            return row
    except Refused as refused:
        record_refusal(who, "plan.save", "plan", label, refused, why=why, after=moves_planning.said_shortly(scope))
        raise


def approve_plan(plan_id: int, digest: str, *, who: str, why: str) -> Plan:
    """Say yes to exactly this plan: `digest` is of what was read. Raises Refused for another one, and for one approved already."""
    row = _get(plan_id)
    try:
        needs_reason(why)
        _same(row, digest)
        changed = Plan.objects.filter(pk=row.pk, approved_at__isnull=True, dropped_at__isnull=True).update(
            approved_by=who, approved_why=why, approved_at=timezone.now()
        )
        if not changed:
            raise Refused(f"Plan {row.pk} is approved by {row.approved_by} already." if row.approved_by else f"Plan {row.pk} is dropped.")  # fmt: skip
        _record(row, "plan.approve", who, why, after={"digest": row.digest})
    except Refused as refused:
        record_refusal(who, "plan.approve", "plan", str(row.pk), refused, why=why)
        raise
    return Plan.objects.get(pk=row.pk)


def drop_plan(plan_id: int, *, who: str, why: str = "") -> None:
    """Take it out of the list. Its rows stay: a change row names its digest. Raises Refused."""
    row = _get(plan_id)
    if not Plan.objects.filter(pk=row.pk, dropped_at__isnull=True).update(dropped_at=timezone.now()):
        raise Refused(f"Plan {row.pk} is dropped already.")
    _record(row, "plan.drop", who, why, before={"digest": row.digest})


def move_of(plan_id: int, digest: str, *, who: str, why: str = "", caps: Mapping[str, Any] | None = None) -> Move:
    """A planned move of exactly these parts; approved where the plan is. `caps`: the keyword arguments of `planning.plan_move`. Raises Refused
    with what was placed anew since the plan was made, and with every problem that there is now."""
    row = _get(plan_id)
    try:
        _same(row, digest)
        if row.dropped_at is not None:
            raise Refused(f"Plan {row.pk} is dropped; save it anew.")
        parts, views = list(parts_of(row.pk)), moves_planning.partition_views()
        if stale := stale_parts(parts, views):
            named = "; ".join(stale[:STALE_NAMED_MAX])
            more = f"; and {len(stale) - STALE_NAMED_MAX} more" if len(stale) > STALE_NAMED_MAX else ""
            raise Refused(
                f"{len(stale)} of {row.parts} partitions are not as they were when plan {row.pk} was made: {named}{more}. "
                "See its difference against now, and save it anew."
            )
    except Refused as refused:
        record_refusal(who, "plan.move", "plan", str(row.pk), refused, why=why)
        raise
    scope = {
        "kind": "partitions",
        "partitions": [{"topic": p[1], "partition": p[2], "replicas": p[4]} for p in parts],
    }
    # No transaction around it all: what refuses leaves its change row, which must not be rolled back with the rest.
    move = moves_planning.plan_move(
        scope, who=who, why=why or row.why, override=bool(row.overrides), label=row.scope, views=views, **(caps or {})
    )
    with transaction.atomic():
        if row.approved_at is not None and not move.overrides:
            move = moves.approve_move(
                move.pk, who=row.approved_by, why=f"{row.approved_why} (plan {row.pk}, {row.digest[:12]})"
            )
        Plan.objects.filter(pk=row.pk).update(move=move)
        _record(row, "plan.move", who, why, after={"digest": row.digest, "move": move.pk})
    return move


# -- parts -----------------------------------------------------------------------------------------------------------------------


def parts_of(plan_id: int, first: int = 0, count: int | None = None) -> Iterator[Part]:
    """Parts in order of topic and partition, read chunk by chunk."""
    chunks = PlanChunk.objects.filter(plan_id=plan_id, number__gte=first // CHUNK)
    if count is not None:
        chunks = chunks.filter(number__lte=(first + max(count, 1) - 1) // CHUNK)
    skip, left = first % CHUNK, count
    for parts in chunks.values_list("parts", flat=True).iterator(chunk_size=8):
        for part in parts[skip:]:
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield tuple(part)
        skip = 0


def digest_of(parts: Iterable[Part]) -> str:
    """SHA-256 over what shall be and what it was read from; not over sizes, which move."""
    digest = hashlib.sha256()
    for topic_id, _, partition, old, new, generation, _ in parts:
        digest.update(json.dumps([topic_id, partition, old, new, generation], separators=(",", ":")).encode())
    return digest.hexdigest()


def stale_parts(parts: Iterable[Part], views: Iterable[PartitionView]) -> list[str]:
    """A sentence per partition that is gone, or was placed anew since."""
    now = {(str(v.topic_id), v.partition): v for v in views}
    out = []
    for topic_id, topic, partition, _, _, generation, _ in parts:
        seen = now.get((topic_id, partition))
        if seen is None:
            out.append(f"{topic}-{partition} is gone")
        elif seen.generation != generation:
            out.append(
                f"{topic}-{partition} is on {list(seen.replicas)} (generation {generation}, now {seen.generation})"
            )
    return out


def placements_now() -> dict[tuple[str, int], tuple[list[int], int]]:
    """Of every partition (topic id, number): replicas and assignment generation."""
    columns = ("topic_id", "index", "replicas", "assignment_generation")
    return {(str(t), i): (list(r), g) for t, i, r, g in read_many(Partition.objects.order_by(), columns)}


def _part(p: planning.PlannedPart) -> Part:
    v = p.view
    return (
        str(v.topic_id), v.topic, v.partition, list(v.replicas), list(p.replicas_to), v.generation, p.bytes_to_copy,
    )  # fmt: skip


def _same(row: Plan, digest: str) -> None:
    if digest != row.digest:
        raise Refused(
            f"Plan {row.pk} has digest {row.digest}; {digest or 'none'} was given. Look at it again.", "digest"
        )


def _get(plan_id: int) -> Plan:
    row = Plan.objects.filter(pk=plan_id).first()
    if row is None:
        raise Refused(f"There is no plan {plan_id}.")
    return row


def _record(row: Plan, verb: str, who: str, why: str, *, before: Any = None, after: Any = None) -> None:
    record(
        who, verb, "plan", str(row.pk),
        why=why, before=before, after=after, object_id=f"plan-{row.pk}", outcome=Outcome.CONFIRMED,
    )  # fmt: skip
