"""Outcomes of changes that were not confirmed. Invariant: `unknown` is a separate outcome, which never becomes `confirmed` later."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.services.common import finish_rows
from weir_common.phrases import sentence

PENDING_SECONDS_MAX = 300
"""Seconds after which a change that was not read back counts as unknown. A controller failover with a cold cluster takes less."""


def settle_overdue_changes() -> int:
    """Mark pending changes older than PENDING_SECONDS_MAX as unknown; returns how many. Moves, jobs and proposals finish their own changes."""
    overdue = timezone.now() - timedelta(seconds=PENDING_SECONDS_MAX)
    detail = sentence(
        "The cluster did not confirm the change within {seconds} s; check the object itself.",
        seconds=PENDING_SECONDS_MAX,
    )
    rows = Change.objects.filter(outcome=Outcome.PENDING, at__lt=overdue).exclude(
        object_kind__in=["move", "recovery", "archive", "proposal", "restart"]
    )
    return finish_rows(rows, Outcome.UNKNOWN, detail)
