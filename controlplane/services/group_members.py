"""Removal of a member from a consumer group. Invariant: the coordinator decides; the result is read back and recorded."""

from __future__ import annotations

from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, record, recorded_rejections
from weir_common.phrases import sentence

VERB = AuditOperation.GROUP_REMOVE_MEMBER


def remove_member(group_id: str, member_id: str, *, actor: str, comment: str = "") -> Outcome:
    """Remove the member with this member ID or group.instance.id; the others take over its partitions. A consumer that still runs joins again with
    another member ID. Returns confirmed, or unknown when the cluster did not respond in time. Raises Rejected."""
    with recorded_rejections(actor, VERB, "group", group_id[:255], comment=comment, after={"member_id": member_id}):
        try:
            with GroupOffsetsClient(group_id) as client:
                status = client.status()
                member = next((m for m in status.members if member_id in (m.member_id, m.instance_id)), None)
                if member is None:
                    raise Rejected(
                        sentence(
                            "Group {group_id} has no member {member_id}.",
                            group_id=repr(group_id),
                            member_id=repr(member_id),
                        ),
                        "member_id",
                    )
                before = {"member_id": member.member_id, "instance_id": member.instance_id, "host": member.host}
                try:
                    client.remove_member(member, status.type, f"removed by {actor}")
                    left = all(m.member_id != member.member_id for m in client.status().members)
                except NoResponse as e:
                    record(
                        actor,
                        VERB,
                        "group",
                        group_id,
                        comment=comment,
                        before=before,
                        outcome=Outcome.UNKNOWN,
                        detail=str(e),
                    )
                    return Outcome.UNKNOWN
        except NoResponse as e:
            raise Rejected(sentence("The cluster did not respond: {detail}", detail=e)) from e
        except Declined as e:
            raise Rejected(sentence("The coordinator declined: {detail}", detail=e)) from e
    outcome = Outcome.CONFIRMED if left else Outcome.UNKNOWN
    detail = "" if left else sentence("The coordinator still lists the member.")
    record(actor, VERB, "group", group_id, comment=comment, before=before, outcome=outcome, detail=detail)
    return outcome
