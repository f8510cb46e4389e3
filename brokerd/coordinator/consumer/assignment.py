"""Target assignments of a group of the consumer protocol: subscriptions, resolved regular expressions, group epoch (Kafka: TargetAssignmentBuilder).

Invariants: a change of members, subscriptions or subscribed topics increases the group epoch. The target assignment of an epoch is computed for
all members together. Does not contain current assignments and time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.config.groups import GroupConfig
from brokerd.coordinator.consumer.assignors import ASSIGNORS, MemberSubscription
from brokerd.coordinator.consumer.events import (
    ConsumerHeartbeat,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    ResolvedRegularExpression,
    Topics,
)
from brokerd.coordinator.consumer.group_state import PersistedGroup
from brokerd.coordinator.consumer.patterns import Pattern, PatternError


@dataclass(slots=True, kw_only=True)
class TargetAssignmentBuilder(PersistedGroup):
    topics: Topics
    group_config: GroupConfig
    _seen: int = -1
    """The version of the topics at which `topics_hash` was last compared."""

    def assignor(self) -> str:
        """The server-side assignor that most members request."""
        votes: dict[str, int] = {}
        for m in self.members.values():
            if m.assignor is not None:
                votes[m.assignor] = votes.get(m.assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name]) if votes else self.group_config.assignors[0]

    def topics_of_member(self, member_metadata: MemberMetadata) -> frozenset[str]:
        """The topic names that a member is subscribed to, including topics that do not exist."""
        if member_metadata.pattern is None:
            return member_metadata.topics
        resolved = self.patterns.get(member_metadata.pattern)
        return member_metadata.topics | resolved.topics if resolved is not None else member_metadata.topics

    def subscribed_names(self) -> frozenset[str]:
        return frozenset[str]().union(*map(self.topics_of_member, self.members.values()))

    def _resolve(self, event: ConsumerHeartbeat, now: Now) -> None:
        """Resolve the regular expressions with the current topics. Delete unused ones."""
        used = {m.pattern for m in self.members.values() if m.pattern is not None}
        for text in [p for p in self.patterns if p not in used]:
            self.change(GroupRecordKey.REGULAR_EXPRESSION, text, None)
        if self._seen == self.topics.version:
            return
        for text, known in list(self.patterns.items()):
            try:
                found = Pattern(text).among(filter(event.may_describe, self.topics.names()))
            except PatternError:
                continue  # the search exceeds its limit now: keep the last matched topics
            if known.topics != found:
                self.change(
                    GroupRecordKey.REGULAR_EXPRESSION,
                    text,
                    ResolvedRegularExpression(found, self.topics.version, now.wall_ms),
                )

    def _raise_epoch(self, only_if_topics_changed: bool = False) -> None:
        self._seen = self.topics.version
        names = self.subscribed_names()
        seen = [(name, self.topics.topic_named(name)) for name in sorted(names)]
        digest = hashlib.blake2b(repr(seen).encode(), digest_size=8).digest()
        topics_hash = int.from_bytes(digest, "big", signed=True) if names else 0
        if not only_if_topics_changed or topics_hash != self.topics_hash:
            self.change(GroupRecordKey.GROUP, "", GroupMetadata(self.epoch + 1, topics_hash))

    def _assign(self) -> None:
        counts: dict[UUID, int] = {}
        subscriptions: dict[str, MemberSubscription] = {}
        for member_id, m in self.members.items():
            existing = [t for t in map(self.topics.topic_named, self.topics_of_member(m)) if t is not None]
            counts.update(existing)
            place = (m.instance_id is None, m.instance_id or member_id)
            subscriptions[member_id] = MemberSubscription(frozenset(topic_id for topic_id, _ in existing), place)
        shares = ASSIGNORS[self.assignor()](subscriptions, counts, self.targets)
        for member_id, share in shares.items():
            self.change(GroupRecordKey.TARGET_ASSIGNMENT, member_id, share)
        self.change(GroupRecordKey.TARGET_EPOCH, "", self.epoch)
