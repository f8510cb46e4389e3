"""Share groups that make no progress, from the rows of the monitor. Does not contain: the texts of their alerts (`controlplane.domain.alert_group_cases`)."""

from __future__ import annotations

from django.db.models import F, Max, Sum

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.alert_types import ShareGroupFacts
from controlplane.domain.lag import LagStatus
from controlplane.domain.share_lag import STALL_STATUSES, ShareStall, stall_of
from controlplane.models import ShareGroupPartition


def stopped_share_groups(thresholds: AlertThresholds) -> tuple[tuple[ShareGroupFacts, ...], int]:
    """(share groups, those with the largest lag first, and the number of all). At most as many groups are returned as get single alerts."""
    rows = ShareGroupPartition.objects.filter(status__in=[s.value for s in STALL_STATUSES])
    groups = rows.order_by().values("group_id").annotate(records=Sum("lag_records"), ms=Max("lag_ms"))
    count = groups.count()
    most = int(thresholds[ThresholdName.GROUP_ALERTS_MAX])
    largest = list(groups.order_by(F("records").desc(nulls_last=True), "group_id")[:most])
    names = [g["group_id"] for g in largest]
    stalls: dict[str, tuple[ShareStall, str]] = {}
    uncertain: set[str] = set()
    for row in rows.filter(group_id__in=names).order_by(F("lag_ms").desc(nulls_last=True), "topic", "index"):
        stall = stall_of(LagStatus(row.status), row.member_count)
        if row.lag_at_least:
            uncertain.add(row.group_id)
        if stall is not None:
            stalls.setdefault(row.group_id, (stall, f"{row.topic}-{row.index}"))
    facts = (
        ShareGroupFacts(name, *stalls[name], g["records"], g["ms"], name in uncertain)
        for g in largest
        if (name := g["group_id"]) in stalls
    )
    return tuple(facts), count
