"""What all services share: the refusal, the actor, and how a change row is written.

Law: a refusal says what was refused, why, and what would make it possible. Called by services only (Refused also by doors).
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from controlplane.models import Change
from controlplane.models.change import Outcome


class Refused(Exception):
    """`field` names the input at fault ("" = none: the state of the cluster is, and trying later may do)."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


def needs_reason(why: str) -> None:
    """Raises Refused where a costly act comes without one. Doors ask it for acts of people; what clients and the house do has none to give."""
    if not why.strip():
        raise Refused("Give a reason: it is kept in the audit, for whoever asks later why this was done.", "why")


def record(
    who: str,
    verb: str,
    object_kind: str,
    object_name: str,
    *,
    why: str = "",
    before: Any = None,
    after: Any = None,
    object_id: str = "",
    generation: int | None = None,
    outcome: Outcome = Outcome.PENDING,
    detail: str = "",
) -> Change:
    """Write the change row of an act, inside the act's own transaction."""
    return Change.objects.create(
        who=who,
        verb=verb,
        object_kind=object_kind,
        object_name=object_name,
        why=why,
        before=before,
        after=after,
        object_id=object_id,
        generation=generation,
        outcome=outcome,
        detail=detail,
        finished_at=None if outcome == Outcome.PENDING else timezone.now(),
    )


def record_refusal(
    who: str, verb: str, object_kind: str, object_name: str, refused: Refused, *, why: str = "", after: Any = None
) -> None:
    """A refused act leaves a row too. Must be called outside the transaction that the refusal rolled back."""
    record(
        who, verb, object_kind, object_name,
        why=why, after=after, outcome=Outcome.REFUSED, detail=refused.reason,
    )  # fmt: skip


def finish_changes(object_id: str, generation: int | None, outcome: Outcome, detail: str = "") -> int:
    """Fill in the outcome of pending changes of this object up to `generation` (None = all). Once only; returns how many."""
    rows = Change.objects.filter(object_id=object_id, outcome=Outcome.PENDING)
    if generation is not None:
        rows = rows.filter(generation__lte=generation)
    return rows.update(outcome=outcome, detail=detail, finished_at=timezone.now())
