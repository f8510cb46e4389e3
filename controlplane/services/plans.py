"""Stored plans of any size: saved, compared, approved, started. Invariants: the content of a plan never changes. Its digest covers every part and the
placement that the part was planned from. A plan reserves no partition, so several plans of the same partitions may exist. A plan starts only as
it was approved: a partition with a new placement is a rejection that names it, never a silent new plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from controlplane.domain import planner as planning
from controlplane.domain import scope as scopes
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.planner_types import PlannerPartition
from controlplane.domain.scope import PartitionsScope, Placement, Scope
from controlplane.models import Cluster, Move, Plan, PlanChunk
from controlplane.models.change import Outcome
from controlplane.selectors.plan_parts import CHUNK, Part, parts_of
from controlplane.services import move_planning as moves_planning
from controlplane.services import moves
from controlplane.services.common import Rejected, audited, needs_reason, record, recorded_rejections
from controlplane.services.move_planning import MoveCaps, sentences
from weir_common.phrases import sentence

STALE_NAMED_MAX = 5
"""Maximum number of partitions listed by name whose placement changed since. The others are counted; the comparison with the current state lists all."""


@audited(
    AuditOperation.PLAN_SAVE,
    lambda a: a["name"] or scopes.short_name(a["scope"]),
    after=lambda a: scopes.to_json(moves_planning.shorten_scope(a["scope"])),
)
def save_plan(scope: Scope, *, name: str = "", actor: str, comment: str, override: bool = False) -> Plan:
    """Plan `scope` and store the plan. Raises Rejected with every problem. With `override`, safety
    rejections are stored instead: only two people can start the move that is made from such a plan."""
    needs_reason(comment)
    plan = moves_planning.compute_plan(scope)
    lifted = moves_planning.require_only_rejections(plan, override=override)
    parts = sorted((_part(p) for p in plan.parts), key=lambda p: p[1:3])
    came, went = plan.incoming_bytes(), plan.outgoing_bytes()
    seen = Cluster.objects.filter(pk=1).values_list("metadata_seq", flat=True).first()
    with transaction.atomic():
        row = Plan.objects.create(
            name=name[:200],
            scope=moves_planning.shorten_scope(scope),
            actor=actor,
            comment=comment,
            digest=digest_of(parts),
            parts=len(parts),
            copies=sum(len(set(p[4]) - set(p[3])) for p in parts),
            bytes_to_copy=plan.bytes_to_copy,
            brokers=[[b, came.get(b, 0), went.get(b, 0)] for b in sorted(came.keys() | went.keys())],
            warnings=sentences(plan.warnings),
            overrides=tuple(lifted[: moves_planning.SENTENCES_MAX]),
            metadata_seq=seen or 0,
        )
        PlanChunk.objects.bulk_create(
            PlanChunk(plan=row, number=i // CHUNK, parts=parts[i : i + CHUNK]) for i in range(0, len(parts), CHUNK)
        )
        _record(row, AuditOperation.PLAN_SAVE, actor, comment, after={"digest": row.digest, "partitions": row.parts})
        return row


def approve_plan(plan_id: int, digest: str, *, actor: str, comment: str) -> Plan:
    """Approve exactly this plan: `digest` is that of the plan that was read. Raises Rejected for another digest, and for an approved plan."""
    row = _get(plan_id)
    with recorded_rejections(actor, AuditOperation.PLAN_APPROVE, "plan", str(row.pk), comment=comment):
        needs_reason(comment)
        _require_same_digest(row, digest)
        changed = Plan.objects.filter(pk=row.pk, approved_at__isnull=True, dropped_at__isnull=True).update(
            approved_by=actor, approved_comment=comment, approved_at=timezone.now()
        )
        if not changed:
            raise Rejected(
                sentence("Plan {id} is already approved by {user}.", id=row.pk, user=row.approved_by)
                if row.approved_by
                else sentence("Plan {id} is archived.", id=row.pk)
            )
        _record(row, AuditOperation.PLAN_APPROVE, actor, comment, after={"digest": row.digest})
    return Plan.objects.get(pk=row.pk)


def drop_plan(plan_id: int, *, actor: str, comment: str = "") -> None:
    """Remove the plan from the list. Its rows stay, because a change row refers to its digest. Raises Rejected."""
    row = _get(plan_id)
    if not Plan.objects.filter(pk=row.pk, dropped_at__isnull=True).update(dropped_at=timezone.now()):
        raise Rejected(sentence("Plan {id} is already archived.", id=row.pk))
    _record(row, AuditOperation.PLAN_DROP, actor, comment, before={"digest": row.digest})


def move_of(plan_id: int, digest: str, *, actor: str, comment: str = "", caps: MoveCaps | None = None) -> Move:
    """A planned move of exactly these parts; approved if the plan is. `caps`: the keyword arguments of `move_planning.plan_move`. Raises Rejected
    with the partitions whose placement changed since the plan was made, and with every current problem."""
    row = _get(plan_id)
    with recorded_rejections(actor, AuditOperation.PLAN_MOVE, "plan", str(row.pk), comment=comment):
        _require_same_digest(row, digest)
        if row.dropped_at is not None:
            raise Rejected(sentence("Plan {id} is archived; save it again.", id=row.pk))
        parts, views = list(parts_of(row.pk)), moves_planning.partition_views()
        if stale := stale_parts(parts, views):
            named = "; ".join(stale[:STALE_NAMED_MAX])
            more = f"; and {len(stale) - STALE_NAMED_MAX} more" if len(stale) > STALE_NAMED_MAX else ""
            raise Rejected(
                sentence(
                    "{count} of {parts} partitions have changed since plan {id} was made: {named}{more}. Compare the plan with the current assignment, and save it again.",
                    count=len(stale),
                    parts=row.parts,
                    id=row.pk,
                    named=named,
                    more=more,
                )
            )
    scope = PartitionsScope(tuple(Placement(p[1], p[2], tuple(p[4])) for p in parts))
    # There is no transaction around all steps, because the change row of a rejected operation must not be rolled back.
    move = moves_planning.plan_move(
        scope,
        actor=actor,
        comment=comment or row.comment,
        override=bool(row.overrides),
        label=row.scope,
        views=views,
        **(caps or {}),
    )
    with transaction.atomic():
        if row.approved_at is not None and not move.overrides:
            move = moves.approve_move(
                move.pk, actor=row.approved_by, comment=f"{row.approved_comment} (plan {row.pk}, {row.digest[:12]})"
            )
        Plan.objects.filter(pk=row.pk).update(move=move)
        _record(row, AuditOperation.PLAN_MOVE, actor, comment, after={"digest": row.digest, "move": move.pk})
    return move


# -- parts -----------------------------------------------------------------------------------------------------------------------


def digest_of(parts: Iterable[Part]) -> str:
    """SHA-256 over the planned placement and the placement it was planned from; not over sizes, which change."""
    digest = hashlib.sha256()
    for topic_id, _, partition, old, new, generation, _ in parts:
        digest.update(json.dumps([topic_id, partition, old, new, generation], separators=(",", ":")).encode())
    return digest.hexdigest()


def stale_parts(parts: Iterable[Part], views: Iterable[PlannerPartition]) -> list[str]:
    """A sentence per partition that was deleted, or whose placement changed since."""
    now = {(str(v.topic_id), v.partition): v for v in views}
    out = []
    for topic_id, topic, partition, _, _, generation, _ in parts:
        seen = now.get((topic_id, partition))
        if seen is None:
            out.append(f"{topic}-{partition} no longer exists")
        elif seen.generation != generation:
            out.append(
                f"{topic}-{partition} is on {list(seen.replicas)} (generation {generation}, now {seen.generation})"
            )
    return out


def _part(part: planning.PlannedPart) -> Part:
    v = part.view
    return (
        str(v.topic_id),
        v.topic,
        v.partition,
        list(v.replicas),
        list(part.replicas_to),
        v.generation,
        part.bytes_to_copy,
    )


def _require_same_digest(row: Plan, digest: str) -> None:
    if digest != row.digest:
        raise Rejected(
            sentence(
                "Plan {plan_id} has digest {digest}; {given} was given. Reload the plan.",
                plan_id=row.pk,
                digest=row.digest,
                given=digest or sentence("none"),
            ),
            "digest",
        )


def _get(plan_id: int) -> Plan:
    row = Plan.objects.filter(pk=plan_id).first()
    if row is None:
        raise Rejected(sentence("Plan {plan_id} does not exist.", plan_id=plan_id))
    return row


def _record(
    row: Plan, verb: AuditOperation, actor: str, comment: str, *, before: object = None, after: object = None
) -> None:
    record(
        actor,
        verb,
        "plan",
        str(row.pk),
        comment=comment,
        before=before,
        after=after,
        object_id=f"plan-{row.pk}",
        outcome=Outcome.CONFIRMED,
    )
