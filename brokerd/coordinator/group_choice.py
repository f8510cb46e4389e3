"""The group that gets an event, by the present group with this ID and the protocol of the event. Pure.

Invariants: a group of one type never becomes one of another while it has members, except by the online migration of KIP-848; a share group never changes its
type. An empty classic group becomes a streams group and the reverse. Does not contain: the creation and the conversion of groups (`groups`).
"""

from __future__ import annotations

from enum import Enum, auto

from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import mixed_group
from brokerd.coordinator.consumer.events import JOIN_GROUP_MEMBER_EPOCH, ConsumerHeartbeat
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.group_replay import AnyGroup
from brokerd.coordinator.share_group import group as share_group
from brokerd.coordinator.share_group.events import ShareHeartbeat
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group import group as streams_group
from brokerd.coordinator.streams_group.events import JOIN_GROUP_MEMBER_EPOCH as JOIN_STREAMS_GROUP
from brokerd.coordinator.streams_group.events import StreamsHeartbeat
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.wire.errors import ErrorCode

Event = events.Event | mixed_group.Event | share_group.Event | streams_group.Event
MemberEvent = events.Join | events.Sync | events.Heartbeat | events.Leave


class GroupAction(Enum):
    """The step before a group can get the event. An empty group of the other protocol is replaced; the new one keeps its offsets and generations."""

    CREATE_CLASSIC = auto()
    CREATE_CONSUMER = auto()
    CREATE_SHARE = auto()
    CREATE_STREAMS = auto()
    UPGRADE = auto()
    """The classic group has members: it is converted, and the converted group gets the event."""


Choice = AnyGroup | GroupAction | ErrorCode


def choose_group(group: AnyGroup | None, event: Event) -> Choice:
    """The group itself, what must happen first, or the error for the client."""
    if isinstance(group, ShareGroup):
        return group if isinstance(event, share_group.Event) else _wrong_type_error(event)
    if isinstance(event, StreamsHeartbeat):
        return _for_streams_heartbeat(group, event)
    if isinstance(group, StreamsGroup):
        return _in_streams_group(group, event)
    if isinstance(event, ShareHeartbeat):
        if group is not None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return GroupAction.CREATE_SHARE if event.epoch == JOIN_GROUP_MEMBER_EPOCH else ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(event, ConsumerHeartbeat):
        return _for_consumer_heartbeat(group, event)
    if isinstance(event, MemberEvent):
        return _for_classic_member(group, event)
    if group is not None:
        return group
    if isinstance(event, events.Commit | events.TransactionalCommit) and event.generation >= 0:
        return ErrorCode.GROUP_ID_NOT_FOUND  # a member of a group that does not exist
    return GroupAction.CREATE_CLASSIC


def _wrong_type_error(event: Event) -> ErrorCode:
    """The error of an event for a share group or a streams group, as in Kafka."""
    if isinstance(event, events.Join):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if isinstance(event, events.Sync | events.Heartbeat | events.Leave):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.GROUP_ID_NOT_FOUND


def _for_streams_heartbeat(group: AnyGroup | None, event: StreamsHeartbeat) -> Choice:
    if isinstance(group, StreamsGroup):
        return group
    replaceable = group is None or (isinstance(group, Group) and group.state is State.EMPTY)
    if event.epoch == JOIN_STREAMS_GROUP and replaceable:
        return GroupAction.CREATE_STREAMS
    return ErrorCode.GROUP_ID_NOT_FOUND


def _in_streams_group(group: StreamsGroup, event: Event) -> Choice:
    if isinstance(event, streams_group.Event):
        return group
    if isinstance(event, events.Join) and not group.members:
        return GroupAction.CREATE_CLASSIC
    return _wrong_type_error(event)


def _for_consumer_heartbeat(group: Group | MixedGroup | None, event: ConsumerHeartbeat) -> Choice:
    if isinstance(group, MixedGroup):
        return group
    if event.epoch != JOIN_GROUP_MEMBER_EPOCH:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None and group.state is not State.EMPTY:
        return GroupAction.UPGRADE
    return GroupAction.CREATE_CONSUMER


def _for_classic_member(group: Group | MixedGroup | None, event: MemberEvent) -> Choice:
    if isinstance(group, Group) or (group is not None and group.members):
        return group
    if group is not None and not isinstance(event, events.Join):
        return ErrorCode.UNKNOWN_MEMBER_ID
    return GroupAction.CREATE_CLASSIC
