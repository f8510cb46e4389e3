"""Deletion of a consumer group: sends the request to the coordinator with a deadline, reads the result back, and records the operation."""

from __future__ import annotations

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import ConsumerGroup
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, record, recorded_rejections
from weir_common.phrases import sentence


def delete_group(group_id: str, *, actor: str, comment: str = "") -> Outcome:
    """Delete an empty group with its committed offsets. Returns confirmed, or unknown when the cluster did not respond in time.
    Raises Rejected when the group has members, does not exist, or the coordinator rejects."""
    from controlplane.clients import kafka
    from controlplane.clients.connection import Declined, NoResponse

    row = ConsumerGroup.objects.filter(pk=group_id).first()
    before = None
    if row is not None:
        before = {
            "state": row.state,
            "offsets": {f"{p.topic}-{p.index}": p.committed for p in row.partitions.all() if p.committed is not None},
        }
    with recorded_rejections(actor, AuditOperation.GROUP_DELETE, "group", group_id[:255], comment=comment):
        if row is not None and row.member_count:
            raise Rejected(
                sentence(
                    "Group {group_id} has {member_count} members; stop its consumers first, or their offsets would be lost.",
                    group_id=repr(group_id),
                    member_count=row.member_count,
                )
            )
        try:
            kafka.delete_group(group_id)
        except NoResponse as e:
            record(
                actor,
                AuditOperation.GROUP_DELETE,
                "group",
                group_id[:255],
                comment=comment,
                before=before,
                outcome=Outcome.UNKNOWN,
                detail=str(e),
            )
            return Outcome.UNKNOWN
        except Declined as e:
            raise Rejected(
                sentence("Group {group_id} was not deleted: {detail}", group_id=repr(group_id), detail=e)
            ) from e
    ConsumerGroup.objects.filter(pk=group_id).delete()
    record(
        actor,
        AuditOperation.GROUP_DELETE,
        "group",
        group_id[:255],
        comment=comment,
        before=before,
        outcome=Outcome.CONFIRMED,
    )
    return Outcome.CONFIRMED
