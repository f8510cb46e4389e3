"""Numbers of partitions that a topic had before partitions were added, from the audit log.

Does not contain: changes that the audit log does not have, for example of a cluster that was installed before its control plane."""

from __future__ import annotations

from controlplane.models import Change, Topic


def earlier_partition_counts(topic: str) -> list[int]:
    """Numbers of partitions before each addition, the latest first. Additions to a deleted topic with the same name do not count."""
    row = Topic.objects.filter(name=topic, deleted_at__isnull=True).first()
    if row is None:
        return []
    changes = Change.objects.filter(
        object_kind="topic", object_name=topic, object_id=str(row.id), before__partitions__lt=row.partitions
    )
    return sorted(set(changes.order_by().values_list("before__partitions", flat=True)), reverse=True)
