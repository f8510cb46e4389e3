"""The outcome of changes nobody confirmed. Law: unknown is an outcome of its own; it is never turned into confirmed by waiting."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlplane.models import Change
from controlplane.models.change import Outcome

PENDING_SECONDS_MAX = 300
"""Seconds after which a change that was not read back counts as unknown. A controller failover with a cold cluster takes less."""


def settle_overdue_changes() -> int:
    """Mark pending changes older than PENDING_SECONDS_MAX as unknown; returns how many. Moves, jobs and proposals finish their own."""
    overdue = timezone.now() - timedelta(seconds=PENDING_SECONDS_MAX)
    return (
        Change.objects.filter(outcome=Outcome.PENDING, at__lt=overdue)
        .exclude(object_kind__in=["move", "recovery", "archive", "proposal", "restart"])
        .update(
            outcome=Outcome.UNKNOWN,
            detail=f"Not read back from the cluster within {PENDING_SECONDS_MAX} s; look at the object itself.",
            finished_at=timezone.now(),
        )
    )
