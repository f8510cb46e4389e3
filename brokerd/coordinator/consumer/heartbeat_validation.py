"""Validation of a heartbeat's member id, instance id and member epoch against the members of a group (KIP-848). Pure.

Does not contain: assignors, subscriptions, the effects of a valid heartbeat (`group`).
"""

from __future__ import annotations

from brokerd.coordinator.consumer.assignment import TargetAssignmentBuilder
from brokerd.coordinator.consumer.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from brokerd.wire.errors import ErrorCode


def membership_error(group: TargetAssignmentBuilder, event: ConsumerHeartbeat) -> ConsumerHeartbeatReply | None:
    """The error response to a heartbeat whose member id, instance id or epoch is not valid, otherwise None."""
    joins = event.epoch == JOIN_GROUP_MEMBER_EPOCH
    if event.instance_id is not None:
        current_id = group.static.get(event.instance_id)
        if current_id is None and not joins:
            return ConsumerHeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID, f"unknown instance id {event.instance_id!r}")
        if current_id is not None and current_id != event.member_id:
            if not joins:
                return ConsumerHeartbeatReply(
                    ErrorCode.FENCED_INSTANCE_ID, f"instance id {event.instance_id!r} belongs to another member"
                )
            # A static member of the classic protocol cannot leave temporarily, so a new member with its instance id is accepted in any case.
            classic = event.classic is not None or group.members[current_id].classic is not None
            if group.current_assignments[current_id].epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH and not classic:
                return ConsumerHeartbeatReply(
                    ErrorCode.UNRELEASED_INSTANCE_ID, f"instance id {event.instance_id!r} is used by an active member"
                )
            return None
    known = event.member_id in group.members
    if not known and not joins:
        return ConsumerHeartbeatReply(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"member {event.member_id!r} is not in group {group.group_id!r}: join with epoch 0",
        )
    if known and not joins and group.members[event.member_id].classic is not None:
        return ConsumerHeartbeatReply(
            ErrorCode.UNKNOWN_MEMBER_ID, f"member {event.member_id!r} uses the classic protocol"
        )
    if not known and len(group.members) >= group.group_config.size_max:
        return ConsumerHeartbeatReply(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"the group has {group.group_config.size_max} members, which is the maximum (group.consumer.max.size)",
        )
    if known and event.epoch > JOIN_GROUP_MEMBER_EPOCH:
        at = group.current_assignments[event.member_id]
        again = event.epoch == at.previous_epoch and event.owned is not None and event.owned <= at.assigned
        if event.epoch > at.epoch or (event.epoch < at.epoch and not again):
            message = f"member epoch is {at.epoch}, not {event.epoch}: revoke all partitions and rejoin with epoch 0"
            return ConsumerHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return None
