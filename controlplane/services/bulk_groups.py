"""Deletion of many empty consumer groups: its preview for each group, and its execution group by group.

Invariant: a group with members is never deleted, also if it had none in the preview, because its coordinator rejects the deletion. A rejection of one
group does not stop the other groups, and its reason is in the result. Does not contain: one deletion (`groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Count, Q

from controlplane.models import ConsumerGroup
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, needs_reason
from controlplane.services.groups import delete_group
from weir_common.phrases import sentence

GROUPS_MAX = 200
"""Maximum number of groups of one bulk deletion. Each one is a request to its coordinator, and all of them run in one request of the console."""


class GroupOutcome(StrEnum):
    DONE = "done"
    UNKNOWN = "unknown"
    """The cluster did not respond in time."""
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkGroupRow:
    """A group of a preview. `offsets`: partitions with a committed offset, which are lost. `members`: if there are some, the group is omitted."""

    group_id: str
    state: str
    members: int
    offsets: int
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class BulkGroupResult:
    """`name`: the group ID."""

    name: str
    outcome: GroupOutcome
    detail: str


def preview(group_ids: Sequence[str]) -> list[BulkGroupRow]:
    """The offsets that a deletion of these groups would lose, in the order of the IDs. Unknown groups are omitted. Raises Rejected for too many."""
    _limit(group_ids)
    committed = Count("partitions", filter=Q(partitions__committed__isnull=False))
    rows = ConsumerGroup.objects.filter(pk__in=group_ids).annotate(offsets=committed).in_bulk()
    return [
        BulkGroupRow(g.group_id, g.state, g.member_count, g.offsets, g.lag_records)
        for g in (rows[i] for i in group_ids if i in rows)
    ]


def delete_groups(group_ids: Sequence[str], *, actor: str, comment: str) -> list[BulkGroupResult]:
    """Delete the groups one after the other, each with its change in the audit log. If it raises Rejected, nothing was deleted."""
    needs_reason(comment)
    _limit(group_ids)
    return [_delete(group_id, actor, comment) for group_id in dict.fromkeys(group_ids)]


def _limit(group_ids: Sequence[str]) -> None:
    if len(group_ids) > GROUPS_MAX:
        raise Rejected(
            sentence(
                "{count} groups are more than {max}, the limit of a bulk deletion. Narrow the filter, or select groups.",
                count=f"{len(group_ids):,}",
                max=f"{GROUPS_MAX:,}",
            )
        )


def _delete(group_id: str, actor: str, comment: str) -> BulkGroupResult:
    try:
        outcome = delete_group(group_id, actor=actor, comment=comment)
    except Rejected as error:
        return BulkGroupResult(group_id, GroupOutcome.REJECTED, error.reason)
    return BulkGroupResult(group_id, GroupOutcome.DONE if outcome is Outcome.CONFIRMED else GroupOutcome.UNKNOWN, "")
