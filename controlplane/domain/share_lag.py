"""Causes for which a share group makes no progress in a partition. Pure.

The status is that of a consumer group (`lag.Track`), with the start offset of the share partition instead of a committed offset: the start offset moves
when the delivery of its record ends. Does not contain: the observations.
"""

from __future__ import annotations

from enum import StrEnum

from controlplane.domain.lag import LagStatus


class ShareStall(StrEnum):
    NO_MEMBERS = "no_members"
    NOT_ASSIGNED = "not_assigned"
    """The group has members, and none of them has the partition."""
    NO_PROGRESS = "no_progress"
    """Members have the partition, and the start offset does not move."""


STALL_STATUSES = (LagStatus.STOPPED, LagStatus.STALLED)
"""The statuses of a partition with records whose delivery does not end."""


def stall_of(status: LagStatus, member_count: int) -> ShareStall | None:
    """`member_count`: members to which the partition is assigned. None: the group makes progress, has nothing to do, or is unknown."""
    if status is LagStatus.STOPPED:
        return ShareStall.NO_MEMBERS
    if status is LagStatus.STALLED:
        return ShareStall.NO_PROGRESS if member_count else ShareStall.NOT_ASSIGNED
    return None
