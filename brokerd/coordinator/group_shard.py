"""One partition of __consumer_offsets that this broker leads: its groups and its pending writes. No I/O.

Invariants: a transaction marker completes only the offset commits that were written before it. A group that is being deleted is not used until
the write of its tombstones has completed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.coordinator.classic.events import TopicIndex
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.group_replay import AnyGroup
from brokerd.coordinator.shard import CoordinatorShard
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group.group import StreamsGroup


@dataclass(slots=True)
class GroupShard(CoordinatorShard):
    groups: dict[str, AnyGroup] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    """{producer id: ids of groups with pending offsets of its transaction}."""
    replaced: list[MixedGroup | ShareGroup | StreamsGroup] = field(default_factory=list)
    """Replaced groups with replies that wait for a write."""
    was_unavailable: bool = False
    """True if the shard rejected requests at the last tick."""
    deleting: set[str] = field(default_factory=set)
    """Groups whose tombstones are being written. An entry is removed when its write completes or times out (`InternalLog.APPEND_TIMEOUT_MS`)."""
    deleted_topics: dict[str, int] = field(default_factory=dict)
    """{deleted topic: log end offset of this partition at the deletion}. Commits below it are deleted, with retries until none is left."""

    def replace(self, group: AnyGroup, by: AnyGroup | None) -> None:
        self.replaced = [x for x in self.replaced if x.has_pending_replies]
        if not isinstance(group, Group) and group.has_pending_replies:
            self.replaced.append(group)
        if by is None:
            del self.groups[group.group_id]
        else:
            self.groups[group.group_id] = by

    def on_transaction_ended(self, producer_id: int, committed: bool, marker_offset: int) -> None:
        """A transaction marker is in the log at `marker_offset`. Commits above it belong to the producer's next transaction."""
        still_open = set()
        for group_id in sorted(self.touched.pop(producer_id, ())):
            group = self.groups.get(group_id)
            if group is not None:
                group.commits.transaction_ended(producer_id, committed, marker_offset)
                if group.commits.in_transaction(producer_id):
                    still_open.add(group_id)
        if still_open:
            self.touched[producer_id] = still_open

    def offsets_of_deleted(self, topic: str) -> dict[str, list[TopicIndex]]:
        """{group id: partitions of the deleted topic whose committed offsets must be deleted}."""
        below = self.deleted_topics[topic]
        found = {group_id: group.commits.of_topic(topic, below) for group_id, group in self.groups.items()}
        return {group_id: keys for group_id, keys in found.items() if keys}
