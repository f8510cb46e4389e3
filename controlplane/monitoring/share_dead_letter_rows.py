"""Numbers of dead letters of share groups, from the samples of the brokers to rows.

Invariant: a row is deleted only after its broker has answered without it, and one with archived records without dead letters after KEPT. Does not contain:
the counting (`brokerd.apis.share_dead_letters`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.clients.broker_samples import BrokerSample
from controlplane.models import ShareGroupLetters

KEPT = timedelta(days=7)
"""Time for which a row is kept, as for an ended alert."""


def write(samples: Iterable[BrokerSample], now: datetime) -> None:
    """Write the rows. Idempotent. Raises DatabaseError."""
    found = {s.broker_id: s.share_letters for s in samples if s.share_letters is not None}
    if not found:
        return
    rows = {(r.broker_id, r.group_id, r.topic): r for r in ShareGroupLetters.objects.filter(broker_id__in=found)}
    for broker_id, letters in found.items():
        for metrics in letters:
            row = rows.pop((broker_id, metrics.group_id, metrics.topic), None)
            before = row.unwritten if row is not None else 0
            if row is not None and (row.written, row.unwritten) == (metrics.written, metrics.unwritten):
                continue
            row = row or ShareGroupLetters(broker_id=broker_id, group_id=metrics.group_id, topic=metrics.topic)
            # A restarted broker starts counting at 0, so all that it counts is new.
            if metrics.unwritten > before or 0 < metrics.unwritten < before:
                row.unwritten_at = now
            row.written, row.unwritten, row.reason, row.changed_at = (
                metrics.written,
                metrics.unwritten,
                metrics.reason,
                now,
            )
            row.save()
    for row in rows.values():  # the broker has started again
        if row.unwritten_at is None or row.unwritten_at < now - KEPT:
            row.delete()
        elif row.written or row.unwritten:
            row.written = row.unwritten = 0
            row.save()
