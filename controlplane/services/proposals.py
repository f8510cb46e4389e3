"""Acts that override a safety refusal: one person proposes, another approves, and only then anything happens.

Laws: nobody approves what he proposed (a house with one operator says so: WEIR_SECOND_PERSON=off); what is approved is what was shown, by its
hash, or it is refused with what differs; each step leaves a change row with its author; carrying out is idempotent, because a worker goes on
where a process died. What kinds there are: `overrides`. Called by the API, the console and the worker (`sweep`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.models import Proposal
from controlplane.models.change import Outcome
from controlplane.models.proposal import ProposalState
from controlplane.services.common import Refused, finish_changes, needs_reason, record, record_refusal

log = logging.getLogger(__name__)

OPEN_HOURS = 24
"""A proposal that nobody has decided by then expires: what its author saw is another world's."""

CARRY_OUT_SECONDS = 60
"""An approved proposal that is not carried out for longer is taken up by the worker: whoever approved it died in the middle."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What both people see: `title` names the act, `lines` what it does and what it may lose, `facts` what the lines rest on. These are hashed:
    no figure that moves by itself belongs in there. `figures` are such, each person sees those of his time."""

    title: str
    lines: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    """What was approved: `facts` are those that both have seen. `who` proposed it; `why` names the proposal and its approver, so that no other act
    has the same."""

    target: str
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Kind:
    """`show(target, arguments)` raises Refused where there is nothing to propose. `carry_out(act)` does it and returns how it ended (read back, as far
    as that goes) and a sentence; raises Refused; may be called twice."""

    label: str
    show: Callable[[str, Mapping[str, Any]], Shown]
    carry_out: Callable[[Act], tuple[Outcome, str]]


def kind_of(name: str) -> Kind:
    from controlplane.services.overrides import KINDS

    if name not in KINDS:
        raise Refused(f"{name!r} is nothing that can be proposed; use {', '.join(KINDS)}.", "kind")
    return KINDS[name]


def shown(kind: str, target: str, arguments: Mapping[str, Any]) -> tuple[Shown, str]:
    """What would be proposed, and its hash. Raises Refused."""
    now = shown_now(kind, target, arguments)
    return now, hashed(kind, target, arguments, _plain(now))


def shown_now(kind: str, target: str, arguments: Mapping[str, Any]) -> Shown:
    return kind_of(kind).show(target, arguments)


def hashed(kind: str, target: str, arguments: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    said = json.dumps([kind, target, arguments, shown], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def _plain(shown: Shown) -> dict[str, Any]:
    return {"title": shown.title, "lines": list(shown.lines), "facts": dict(shown.facts)}


def propose(
    kind: str, target: str, arguments: Mapping[str, Any] | None = None, *, who: str, why: str, shown_hash: str = ""
) -> Proposal:
    """Write it down for another to approve. `shown_hash` (where given) must be of what would be shown now. Raises Refused."""
    arguments = dict(arguments or {})
    try:
        needs_reason(why)
        now, now_hash = shown(kind, target, arguments)
        plain = _plain(now) | {"figures": list(now.figures)}
        if shown_hash and shown_hash != now_hash:
            raise Refused("What was shown has changed since; look at it again.")
        try:
            with transaction.atomic():
                row = Proposal.objects.create(
                    kind=kind, target=target, arguments=arguments, shown=plain, shown_hash=now_hash, proposed_by=who, why=why,
                    expires_at=timezone.now() + timedelta(hours=OPEN_HOURS),
                )  # fmt: skip
                _record(row, "proposal.propose", who, why, outcome=Outcome.PENDING, after=plain)
                return row
        except IntegrityError:
            other = Proposal.objects.filter(kind=kind, target=target, state__in=["open", "approved"]).first()
            number = f" as proposal {other.pk}" if other is not None else ""
            raise Refused(f"This is proposed already{number}; decide that one first.") from None
    except Refused as refused:
        record_refusal(who, "proposal.propose", "proposal", f"{kind} {target}"[:255], refused, why=why)
        raise


def approve(proposal_id: int, *, who: str, why: str = "") -> Proposal:
    """The second person's word, and the act at once. Raises Refused: for its author, when it is over, when what was shown has changed."""
    row = _get(proposal_id)
    name = f"{row.kind} {row.target}"[:255]
    try:
        _open(row)
        _another(row, who)
        if differs := difference(row):
            raise Refused(f"It is not what was proposed any more: {differs} Propose it anew.")
        with transaction.atomic():
            _decide(row, ProposalState.APPROVED, who, why)
            alone = "" if who != row.proposed_by else "Approved by its author: WEIR_SECOND_PERSON is off."
            _record(row, "proposal.approve", who, why, outcome=Outcome.CONFIRMED, detail=alone)
    except Refused as refused:
        record_refusal(who, "proposal.approve", "proposal", name, refused, why=why)
        raise
    return carry_out(proposal_id)


def carry_out(proposal_id: int) -> Proposal:
    """Do what is approved, and write down how it ended."""
    row = Proposal.objects.get(pk=proposal_id)
    if row.state != ProposalState.APPROVED:
        return row
    why = f"{row.why} (proposal {row.pk}, approved by {row.decided_by})"
    try:
        act = Act(row.target, row.arguments, row.shown["facts"], row.proposed_by, why)
        outcome, detail = kind_of(row.kind).carry_out(act)
    except Refused as refused:
        outcome, detail = Outcome.REFUSED, refused.reason
    done = outcome in (Outcome.CONFIRMED, Outcome.UNCHANGED)
    with transaction.atomic():
        changed = Proposal.objects.filter(pk=row.pk, state=ProposalState.APPROVED, version=row.version).update(
            state=ProposalState.DONE if done else ProposalState.FAILED, detail=detail, finished_at=timezone.now(),
            version=F("version") + 1,
        )  # fmt: skip
        if changed:
            finish_changes(f"proposal-{row.pk}", None, outcome, detail)
    return Proposal.objects.get(pk=row.pk)


def reject(proposal_id: int, *, who: str, why: str) -> Proposal:
    """Say no, with a reason; by its author it counts as withdrawn. Raises Refused."""
    row = _get(proposal_id)
    try:
        needs_reason(why)
        _open(row)
        state = ProposalState.WITHDRAWN if who == row.proposed_by else ProposalState.REJECTED
        with transaction.atomic():
            _decide(row, state, who, why)
            Proposal.objects.filter(pk=row.pk).update(finished_at=timezone.now())
            verb = "proposal.withdraw" if state == ProposalState.WITHDRAWN else "proposal.reject"
            _record(row, verb, who, why, outcome=Outcome.CONFIRMED)
            finish_changes(f"proposal-{row.pk}", None, Outcome.REFUSED, f"{state} by {who}: {why}")
    except Refused as refused:
        record_refusal(who, "proposal.reject", "proposal", f"{row.kind} {row.target}"[:255], refused, why=why)
        raise
    return Proposal.objects.get(pk=row.pk)


def sweep() -> int:
    """Expire what nobody decided, and go on with what was approved and not carried out. Returns how many were touched."""
    now = timezone.now()
    touched = 0
    for row in Proposal.objects.filter(state=ProposalState.OPEN, expires_at__lt=now):
        with transaction.atomic():
            if Proposal.objects.filter(pk=row.pk, state=ProposalState.OPEN, version=row.version).update(
                state=ProposalState.EXPIRED, finished_at=now, version=F("version") + 1
            ):
                finish_changes(f"proposal-{row.pk}", None, Outcome.REFUSED, f"Nobody decided it within {OPEN_HOURS} h.")
                touched += 1
    late = now - timedelta(seconds=CARRY_OUT_SECONDS)
    for pk in Proposal.objects.filter(state=ProposalState.APPROVED, decided_at__lt=late).values_list("pk", flat=True):
        log.warning("proposal %s was approved and not carried out; going on with it", pk)
        carry_out(pk)
        touched += 1
    return touched


def may_decide(row: Proposal, who: str) -> str:
    """Why this person may not approve it; "" = he may."""
    try:
        _open(row)
        _another(row, who)
    except Refused as refused:
        return refused.reason
    return ""


def _another(row: Proposal, who: str) -> None:
    if who == row.proposed_by and settings.SECOND_PERSON:
        raise Refused(
            f"{who} has proposed this, so another operator must approve it. A house that has one operator only sets WEIR_SECOND_PERSON=off."
        )


def _open(row: Proposal) -> None:
    if row.state != ProposalState.OPEN:
        raise Refused(f"Proposal {row.pk} is {row.state}; only an open one can be decided.")
    if row.expires_at < timezone.now():
        raise Refused(f"Proposal {row.pk} has expired at {row.expires_at:%Y-%m-%d %H:%M} UTC; propose it anew.")


def _decide(row: Proposal, state: ProposalState, who: str, why: str) -> None:
    changed = Proposal.objects.filter(pk=row.pk, state=ProposalState.OPEN, version=row.version).update(
        state=state, decided_by=who, decided_why=why, decided_at=timezone.now(), version=F("version") + 1
    )
    if not changed:
        raise Refused(f"Proposal {row.pk} was decided in this moment; look at it again.")


def _get(proposal_id: int) -> Proposal:
    row = Proposal.objects.filter(pk=proposal_id).first()
    if row is None:
        raise Refused(f"There is no proposal {proposal_id}.")
    return row


def difference(row: Proposal, shown: Shown | None = None) -> str:
    """What would be shown differently now (`shown`, where it is known), as a sentence; "" = nothing. Raises Refused where it could not be proposed at
    all any more."""
    now = _plain(shown or shown_now(row.kind, row.target, row.arguments))
    if hashed(row.kind, row.target, row.arguments, now) == row.shown_hash:
        return ""
    old, new = row.shown.get("facts") or {}, now["facts"]
    keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
    if not keys:
        return "it reads differently now."
    return "; ".join(f"{k} was {old.get(k)}, now {new.get(k)}" for k in keys[:3]) + "."


def _record(
    row: Proposal, verb: str, who: str, why: str, *, outcome: Outcome, detail: str = "", after: Any = None
) -> None:
    # Only the proposing waits for its outcome: what its object id finishes later.
    object_id = f"proposal-{row.pk}" if outcome == Outcome.PENDING else ""
    record(
        who, verb, "proposal", f"{row.kind} {row.target}"[:255],
        why=why, after=after if after is not None else {"proposal": row.pk, "hash": row.shown_hash}, object_id=object_id,
        outcome=outcome, detail=detail,
    )  # fmt: skip
