"""Deletion of a share group. Invariants: the coordinator decides; the start offsets before are in the audit log. Does not contain: changes of start
offsets (`services.offset_resets`)."""

from __future__ import annotations

from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models.change import Outcome
from controlplane.selectors import share_groups as selectors
from controlplane.services.common import Rejected, record, recorded_rejections
from weir_common.phrases import sentence

VERB = AuditOperation.SHARE_GROUP_DELETE


def delete_share_group(group_id: str, *, actor: str, comment: str = "") -> Outcome:
    """Delete a share group without members, with the delivery state of its records. Returns confirmed, or unknown when the cluster did not answer in
    time. Raises Rejected: the group has members, does not exist or is unknown now, or the coordinator rejects."""
    with recorded_rejections(actor, VERB, "share_group", group_id[:255], comment=comment):
        found = selectors.share_group(group_id)
        if found.row is None:
            silent = ", ".join(str(s.broker_id) for s in found.brokers_silent)
            reason = f"brokers {silent} did not respond" if silent else "no broker coordinates it"
            raise Rejected(
                sentence("Share group {group_id} was not found: {reason}.", group_id=repr(group_id), reason=reason)
            )
        if found.members:
            raise Rejected(
                sentence(
                    "Share group {group_id} has {count} members. Stop its consumers first: they would start at other records.",
                    group_id=repr(group_id),
                    count=len(found.members),
                )
            )
        offsets = {f"{p.topic}-{p.index}": p.start_offset for p in found.partitions if p.start_offset is not None}
        before = {"state": found.row.state, "start_offsets": offsets}
        outcome, detail = Outcome.CONFIRMED, ""
        try:
            kafka.delete_group(group_id)
        except NoResponse as e:
            outcome, detail = Outcome.UNKNOWN, str(e)
        except Declined as e:
            raise Rejected(
                sentence("Share group {group_id} was not deleted: {detail}", group_id=repr(group_id), detail=e)
            ) from e
    record(actor, VERB, "share_group", group_id, comment=comment, before=before, outcome=outcome, detail=detail)
    return outcome
