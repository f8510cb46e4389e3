"""Operations that override a safety rule: one person proposes, another person approves, and only then the operation runs.

Invariants: a person cannot approve their own proposal (a site with a single operator sets WEIR_SECOND_PERSON=off). The approved content is the shown
content, compared by its hash; otherwise approval is rejected with the difference. Each step leaves a change row with its author. Carrying out is
idempotent, because a worker continues where a process died. The kinds of operations are in `overrides`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Proposal
from controlplane.models.change import Outcome
from controlplane.models.proposal import ProposalState
from controlplane.services.common import Rejected, audited, finish_changes, needs_reason, record, recorded_rejections
from controlplane.services.overrides import KINDS
from controlplane.services.proposal_kinds import (
    ApprovedOperation,
    HashedView,
    ProposalHandler,
    ProposalText,
    ShownView,
    StoredView,
)
from weir_common.phrases import Phrase, joined, phrase_to_json, sentence

log = logging.getLogger(__name__)

OPEN_HOURS = 24
"""An undecided proposal expires after this time, because its author saw values that are outdated by then."""

CARRY_OUT_SECONDS = 60
"""Time after which the worker carries out an approved proposal. The process of the approver has then ended without carrying it out."""


def kind_of(name: str) -> ProposalHandler:
    if name not in KINDS:
        kinds = ", ".join(KINDS)
        if not name:
            raise Rejected(sentence("The kind of approval request is missing; use {kinds}.", kinds=kinds), "kind")
        raise Rejected(
            sentence("Unknown kind of approval request {kind}; use {kinds}.", kind=repr(name), kinds=kinds), "kind"
        )
    return KINDS[name]


def render_target(kind: str, target: str, arguments: Mapping[str, object]) -> tuple[ProposalText, str]:
    """The view of a proposal for this operation, and its hash. Raises Rejected."""
    now = shown_now(kind, target, arguments)
    return now, digest_of(kind, target, arguments, _plain(now))


def shown_now(kind: str, target: str, arguments: Mapping[str, object]) -> ProposalText:
    return kind_of(kind).show(target, arguments)


def digest_of(kind: str, target: str, arguments: Mapping[str, object], view: HashedView) -> str:
    content = json.dumps([kind, target, arguments, view], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def _plain(view: ProposalText) -> HashedView:
    return {"title": view.title, "lines": list(view.lines), "facts": dict(view.facts)}


@audited(AuditOperation.PROPOSAL_PROPOSE, "{kind} {target}")
def propose(
    kind: str,
    target: str,
    arguments: Mapping[str, object] | None = None,
    *,
    actor: str,
    comment: str,
    shown_hash: str = "",
) -> Proposal:
    """Store a proposal for another person to approve. `shown_hash` (if given) must match the hash of the current view. Raises Rejected."""
    arguments = dict(arguments or {})
    needs_reason(comment)
    now, now_hash = render_target(kind, target, arguments)
    plain = ShownView(**_plain(now), current_values=list(now.current_values))
    stored = StoredView(**plain, phrases=now.phrases())
    if shown_hash and shown_hash != now_hash:
        raise Rejected("The shown facts have changed; reload and request the approval again.")
    try:
        with transaction.atomic():
            row = Proposal.objects.create(
                kind=kind,
                target=target,
                arguments=arguments,
                shown=stored,
                shown_hash=now_hash,
                proposed_by=actor,
                comment=comment,
                expires_at=timezone.now() + timedelta(hours=OPEN_HOURS),
            )
            _record(row, AuditOperation.PROPOSAL_PROPOSE, actor, comment, outcome=Outcome.PENDING, after=plain)
            return row
    except IntegrityError:
        other = Proposal.objects.filter(kind=kind, target=target, state__in=["open", "approved"]).first()
        if other is None:
            raise Rejected("An approval request for this is open already; decide it first.") from None
        raise Rejected(
            sentence("Approval request {id} for this is open already; decide it first.", id=other.pk)
        ) from None


def approve(proposal_id: int, *, actor: str, comment: str = "") -> Proposal:
    """Approval by the second person, followed by the operation. Raises Rejected for the author, for a closed proposal, and when the view has
    changed."""
    row = _get(proposal_id)
    name = f"{row.kind} {row.target}"[:255]
    with recorded_rejections(actor, AuditOperation.PROPOSAL_APPROVE, "proposal", name, comment=comment):
        _open(row)
        _require_second_person(row, actor)
        if differs := difference(row):
            raise Rejected(
                sentence("The facts have changed since the request: {differs} Request approval again.", differs=differs)
            )
        with transaction.atomic():
            _decide(row, ProposalState.APPROVED, actor, comment)
            alone = "" if actor != row.proposed_by else sentence("Approved by its author: WEIR_SECOND_PERSON is off.")
            _record(row, AuditOperation.PROPOSAL_APPROVE, actor, comment, outcome=Outcome.CONFIRMED, detail=alone)
    return carry_out(proposal_id)


def carry_out(proposal_id: int) -> Proposal:
    """Run an approved operation and store its outcome."""
    row = Proposal.objects.get(pk=proposal_id)
    if row.state != ProposalState.APPROVED:
        return row
    comment = f"{row.comment} (approval request {row.pk}, approved by {row.decided_by})"
    try:
        act = ApprovedOperation(row.target, row.arguments, row.shown["facts"], row.proposed_by, comment)
        outcome, detail = kind_of(row.kind).carry_out(act)
    except Rejected as rejection:
        outcome, detail = Outcome.REJECTED, rejection.reason
    done = outcome in (Outcome.CONFIRMED, Outcome.UNCHANGED)
    with transaction.atomic():
        changed = Proposal.objects.filter(pk=row.pk, state=ProposalState.APPROVED, version=row.version).update(
            state=ProposalState.DONE if done else ProposalState.FAILED,
            detail=detail,
            detail_phrase=phrase_to_json(detail),
            finished_at=timezone.now(),
            version=F("version") + 1,
        )
        if changed:
            finish_changes(f"proposal-{row.pk}", None, outcome, detail)
    return Proposal.objects.get(pk=row.pk)


def reject(proposal_id: int, *, actor: str, comment: str) -> Proposal:
    """Reject a proposal with a reason. A rejection by its author counts as withdrawn. Raises Rejected."""
    row = _get(proposal_id)
    with recorded_rejections(
        actor, AuditOperation.PROPOSAL_REJECT, "proposal", f"{row.kind} {row.target}"[:255], comment=comment
    ):
        needs_reason(comment)
        _open(row)
        if actor == row.proposed_by:
            state = ProposalState.WITHDRAWN
            detail = sentence("Withdrawn by {actor}: {reason}", actor=actor, reason=comment)
        else:
            state = ProposalState.REJECTED
            detail = sentence("Rejected by {actor}: {reason}", actor=actor, reason=comment)
        with transaction.atomic():
            _decide(row, state, actor, comment)
            Proposal.objects.filter(pk=row.pk).update(finished_at=timezone.now())
            verb = (
                AuditOperation.PROPOSAL_WITHDRAW if state == ProposalState.WITHDRAWN else AuditOperation.PROPOSAL_REJECT
            )
            _record(row, verb, actor, comment, outcome=Outcome.CONFIRMED)
            finish_changes(f"proposal-{row.pk}", None, Outcome.REJECTED, detail)
    return Proposal.objects.get(pk=row.pk)


def sweep() -> int:
    """Expire undecided proposals and continue approved ones that were not carried out. Returns how many were changed."""
    now = timezone.now()
    touched = 0
    for row in Proposal.objects.filter(state=ProposalState.OPEN, expires_at__lt=now):
        with transaction.atomic():
            if Proposal.objects.filter(pk=row.pk, state=ProposalState.OPEN, version=row.version).update(
                state=ProposalState.EXPIRED, finished_at=now, version=F("version") + 1
            ):
                finish_changes(
                    f"proposal-{row.pk}",
                    None,
                    Outcome.REJECTED,
                    sentence("The approval request expired after {hours} h without a decision.", hours=OPEN_HOURS),
                )
                touched += 1
    late = now - timedelta(seconds=CARRY_OUT_SECONDS)
    for pk in Proposal.objects.filter(state=ProposalState.APPROVED, decided_at__lt=late).values_list("pk", flat=True):
        log.warning("approved proposal was not carried out, continuing: proposal=%s", pk)
        carry_out(pk)
        touched += 1
    return touched


def may_decide(row: Proposal, actor: str) -> str:
    """Return the reason why this person may not approve the proposal; "" = approval is allowed."""
    try:
        _open(row)
        _require_second_person(row, actor)
    except Rejected as rejection:
        return rejection.reason
    return ""


def _require_second_person(row: Proposal, actor: str) -> None:
    if actor == row.proposed_by and settings.WEIR.second_person:
        raise Rejected(
            sentence(
                "{actor} made this request, so another operator must approve it. Set WEIR_SECOND_PERSON=off if there is one operator only.",
                actor=actor,
            )
        )


def _open(row: Proposal) -> None:
    if row.state != ProposalState.OPEN:
        raise Rejected(
            sentence(
                "Request {id} is {state}; only an open request can be decided.", id=row.pk, state=Phrase(row.state)
            )
        )
    if row.expires_at < timezone.now():
        raise Rejected(
            sentence(
                "Request {id} has expired at {expires_at} UTC; request it again.",
                id=row.pk,
                expires_at=f"{row.expires_at:%Y-%m-%d %H:%M}",
            )
        )


def _decide(row: Proposal, state: ProposalState, actor: str, comment: str) -> None:
    changed = Proposal.objects.filter(pk=row.pk, state=ProposalState.OPEN, version=row.version).update(
        state=state, decided_by=actor, decided_comment=comment, decided_at=timezone.now(), version=F("version") + 1
    )
    if not changed:
        raise Rejected(sentence("Request {id} was decided concurrently; reload it.", id=row.pk))


def _get(proposal_id: int) -> Proposal:
    row = Proposal.objects.filter(pk=proposal_id).first()
    if row is None:
        raise Rejected(sentence("Approval request {proposal_id} does not exist.", proposal_id=proposal_id))
    return row


def difference(row: Proposal, view: ProposalText | None = None) -> str:
    """The difference of the current view (`view`, if already computed) from the stored view, as a sentence; "" = none. Raises Rejected when the
    operation can no longer be proposed."""
    now = _plain(view or shown_now(row.kind, row.target, row.arguments))
    if digest_of(row.kind, row.target, row.arguments, now) == row.shown_hash:
        return ""
    old, new = row.shown.get("facts") or {}, now["facts"]
    keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
    if not keys:
        return sentence("the description has changed.")
    changes = (
        sentence("{fact} was {before}, now {after}", fact=k, before=str(old.get(k)), after=str(new.get(k)))
        for k in keys[:3]
    )
    return sentence("{changes}.", changes=joined(changes, "; "))


def _record(
    row: Proposal,
    verb: AuditOperation,
    actor: str,
    comment: str,
    *,
    outcome: Outcome,
    detail: str = "",
    after: object = None,
) -> None:
    # Only the proposal itself has a pending outcome, which is set later by its object id.
    object_id = f"proposal-{row.pk}" if outcome == Outcome.PENDING else ""
    record(
        actor,
        verb,
        "proposal",
        f"{row.kind} {row.target}"[:255],
        comment=comment,
        after=after if after is not None else {"proposal": row.pk, "hash": row.shown_hash},
        object_id=object_id,
        outcome=outcome,
        detail=detail,
    )
