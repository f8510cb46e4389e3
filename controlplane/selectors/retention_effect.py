"""Records of a topic that a change of its configs deletes: an estimate for the review of the change.

Invariant: only a shorter or smaller retention has an effect; deletions that the current configs cause are not counted. Does not contain: the times of
records, so a shorter retention time has no number of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Sum

from controlplane.models import ObservedPartition

POLICY, RETENTION_BYTES, RETENTION_MS = "cleanup.policy", "retention.bytes", "retention.ms"


@dataclass(frozen=True, slots=True)
class RetentionEffect:
    """`partitions` exceed the new size by `bytes` together, replicas counted once. `keep_ms`: older records are deleted; None: the time is not shorter."""

    partitions: int
    bytes: int
    keep_ms: int | None


def deletion(topic: str, now: Mapping[str, str], new: Mapping[str, str]) -> RetentionEffect | None:
    """The effect of the configs `new` on a topic with the configs `now`: values in effect, without units. None: nothing is deleted."""
    after = {**now, **new}
    if "delete" not in after[POLICY]:
        return None
    before = now if "delete" in now[POLICY] else {}
    size, keep_ms = _shorter(before, after, RETENTION_BYTES), _shorter(before, after, RETENTION_MS)
    partitions = total = 0
    if size is not None:
        larger = ObservedPartition.objects.filter(topic__name=topic, size_bytes__gt=size)
        sums = larger.aggregate(n=Count("pk"), bytes=Sum("size_bytes"))
        partitions, total = sums["n"], (sums["bytes"] or 0) - size * sums["n"]
    return RetentionEffect(partitions, total, keep_ms) if partitions or keep_ms is not None else None


def _shorter(before: Mapping[str, str], after: Mapping[str, str], name: str) -> int | None:
    """The new limit if it is stricter than the current one; -1 means that there is no limit."""
    old, new = int(before.get(name, "-1")), int(after[name])
    return new if new >= 0 and (old < 0 or new < old) else None
