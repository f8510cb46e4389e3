"""Expiration of committed offsets (`offsets.retention.minutes`) and the topics that a group is subscribed to (OffsetDelete). Pure.

As in Kafka, the offsets of an empty group expire when it has been empty for the retention time. An offset of a group with members expires when
the commit is that old and no member is subscribed to the topic. Offsets do not expire while the subscription is unknown.
"""

from __future__ import annotations

from brokerd.cluster.model import Now
from brokerd.coordinator.classic.events import State, TopicIndex
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.consumer.migration import subscription_data
from brokerd.coordinator.group_replay import AnyGroup
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group.group import StreamsGroup


def subscribed_topics(group: AnyGroup) -> frozenset[str] | None:
    """The topics that the members are subscribed to. None: the subscription cannot be read, so it may be any topic."""
    if isinstance(group, ConsumerGroupMachine | ShareGroup | StreamsGroup):
        return group.subscribed_names()
    if group.members and group.protocol_type != consumer_protocol.PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(consumer_protocol.read_subscription(subscription_data(member, group.protocol)).topics)
        except ValueError:
            return None
    return frozenset(topics)


def find_expired(group: AnyGroup, now: Now, retention_ms: int) -> tuple[list[TopicIndex], bool]:
    """(partitions whose offsets have expired, whether the group is deleted with them)."""
    if group.commits.pending or isinstance(group, ShareGroup):
        return [], False  # a share group is deleted by an administrator only: the state of its partitions goes with it
    old = [k for k, o in group.commits.offsets.items() if now.wall_ms - o.commit_wall_ms > retention_ms]
    if group.members:
        read = subscribed_topics(group)
        if read is None or (isinstance(group, Group) and group.state is not State.STABLE):
            return [], False
        return [k for k in old if k[0] not in read], False
    if group.state.value != State.EMPTY.value or now.wall_ms - group.empty_since_wall_ms <= retention_ms:
        return [], False
    return old, len(old) == len(group.commits.offsets)
