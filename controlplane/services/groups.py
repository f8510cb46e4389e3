"""What can be done to a consumer group. Law: asks the cluster, reads back, records. The only service that talks to brokers, with a
deadline; called by the API and the console's forms."""

from __future__ import annotations

from controlplane.models import ConsumerGroup
from controlplane.models.change import Outcome
from controlplane.services.common import Refused, record, record_refusal


def delete_group(group_id: str, *, who: str, why: str = "") -> Outcome:
    """Delete an empty group with its committed offsets. Returns confirmed, or unknown when the cluster did not answer in time.
    Raises Refused when it has members, is not there, or the coordinator refuses."""
    from controlplane import kafka

    row = ConsumerGroup.objects.filter(pk=group_id).first()
    before = None
    if row is not None:
        before = {
            "state": row.state,
            "offsets": {f"{p.topic}-{p.index}": p.committed for p in row.partitions.all() if p.committed is not None},
        }
    try:
        if row is not None and row.member_count:
            raise Refused(
                f"Group {group_id!r} has {row.member_count} members; stop its consumers first, or their offsets would be lost."
            )
        try:
            kafka.delete_group(group_id)
        except kafka.NoAnswer as e:
            record(
                who, "group.delete", "group", group_id[:255],
                why=why, before=before, outcome=Outcome.UNKNOWN, detail=str(e),
            )  # fmt: skip
            return Outcome.UNKNOWN
        except kafka.Declined as e:
            raise Refused(f"Group {group_id!r} was not deleted: {e}") from e
    except Refused as refused:
        record_refusal(who, "group.delete", "group", group_id[:255], refused, why=why)
        raise
    ConsumerGroup.objects.filter(pk=group_id).delete()
    record(who, "group.delete", "group", group_id[:255], why=why, before=before, outcome=Outcome.CONFIRMED)
    return Outcome.CONFIRMED
