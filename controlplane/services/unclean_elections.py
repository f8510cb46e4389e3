"""Automatic unclean leader elections of the last hours, for alerts. The audit log has them: the controller records each one.

Does not contain: elections that a person requested (they know the possible loss); what the replicas deleted afterwards (`selectors.truncations`).
"""

from __future__ import annotations

from datetime import datetime

from controlplane.domain.alert_types import NAMES_MAX, UncleanElectionFacts
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Change, ObservedTopic

CHANGES_MAX = 200
"""Maximum number of changes that are read, newest first. A change has all elections of a topic after one failure."""


def unclean_elections(since: datetime) -> tuple[UncleanElectionFacts, ...]:
    """The partitions of each topic that had such an election after `since`. Deleted topics are omitted."""
    rows = Change.objects.filter(verb=AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY, at__gt=since)
    found: dict[str, set[int]] = {}
    for name, after in rows.order_by("-at").values_list("object_name", "after")[:CHANGES_MAX]:
        found.setdefault(name, set()).update(int(index) for index in after or {})
    kept = ObservedTopic.objects.filter(name__in=list(found)).values_list("name", flat=True)
    return tuple(
        UncleanElectionFacts(
            name, (len(found[name]), tuple(f"{name}-{index}" for index in sorted(found[name])[:NAMES_MAX]))
        )
        for name in sorted(kept)
    )
