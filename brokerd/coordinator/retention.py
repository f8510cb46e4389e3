"""Which committed offsets nobody needs any more, and which topics a group reads (`offsets.retention.minutes`, OffsetDelete).

Laws: pure; as in Kafka an empty group's offsets go when it has been empty for the retention, a living group's when its members no longer read the topic and the commit
is that old; what cannot be known protects. Called by `groups` and the doors of offsets.
"""

from __future__ import annotations

from brokerd.cluster.model import Now
from brokerd.coordinator import embedded
from brokerd.coordinator.consumer_group import ConsumerGroup
from brokerd.coordinator.conversion import words_of
from brokerd.coordinator.events import State, TopicIndex
from brokerd.coordinator.replay import AnyGroup


def subscribed(group: AnyGroup) -> frozenset[str] | None:
    """The topics that its members read; None where only they know: it may be any."""
    if isinstance(group, ConsumerGroup):
        return group.subscribed_names()
    if group.members and group.protocol_type != embedded.PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(embedded.read_subscription(words_of(member, group.protocol)).topics)
        except ValueError:
            return None
    return frozenset(topics)


def expired(group: AnyGroup, now: Now, retention_ms: int) -> tuple[list[TopicIndex], bool]:
    """(offsets to forget, whether the group goes with them)."""
    if group.commits.pending:
        return [], False
    old = [k for k, o in group.commits.offsets.items() if now.wall_ms - o.commit_wall_ms > retention_ms]
    if group.members:
        read = subscribed(group)
        if read is None or (not isinstance(group, ConsumerGroup) and group.state is not State.STABLE):
            return [], False
        return [k for k in old if k[0] not in read], False
    if group.state.value != State.EMPTY.value or now.wall_ms - group.empty_since_wall_ms <= retention_ms:
        return [], False
    return old, len(old) == len(group.commits.offsets)
