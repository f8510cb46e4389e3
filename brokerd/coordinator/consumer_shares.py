"""Who is to have what in a group of the new protocol: subscriptions, patterns against the topics there are, the group's epoch, the shares.

Laws: whatever changes who is to have what raises the group's epoch; shares are reckoned anew for an epoch, all of them at once. What
`consumer_group` stands on; stands on `consumer_facts`. Must not come in: who has what at the moment, time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.coordinator.assignors import ASSIGNORS, Wish
from brokerd.coordinator.consumer_events import Beat, Fact, Header, Profile, Resolved, Terms, Topics
from brokerd.coordinator.consumer_facts import Facts
from brokerd.coordinator.patterns import Pattern, PatternError


@dataclass(slots=True, kw_only=True)
class Shares(Facts):
    topics: Topics
    terms: Terms
    _seen: int = -1
    """The version of the topics at which `topics_hash` was last compared."""

    def assignor(self) -> str:
        """The one that most members ask for."""
        votes: dict[str, int] = {}
        for m in self.members.values():
            if m.assignor is not None:
                votes[m.assignor] = votes.get(m.assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name]) if votes else self.terms.assignors[0]

    def subscribed(self, profile: Profile) -> frozenset[str]:
        """The names of the topics that a member wants, whether they exist or not."""
        if profile.pattern is None:
            return profile.topics
        resolved = self.patterns.get(profile.pattern)
        return profile.topics | resolved.topics if resolved is not None else profile.topics

    def subscribed_names(self) -> frozenset[str]:
        return frozenset[str]().union(*map(self.subscribed, self.members.values()))

    def _resolve(self, e: Beat, now: Now) -> None:
        """Patterns against the topics of now; those that nobody uses any more are forgotten."""
        used = {m.pattern for m in self.members.values() if m.pattern is not None}
        for text in [p for p in self.patterns if p not in used]:
            self.change(Fact.PATTERN, text, None)
        if self._seen == self.topics.version:
            return
        for text, known in list(self.patterns.items()):
            try:
                found = Pattern(text).among(filter(e.sees, self.topics.names()))
            except PatternError:
                continue  # it takes too much work by now: what it matched stays
            if known.topics != found:
                self.change(Fact.PATTERN, text, Resolved(found, self.topics.version, now.wall_ms))

    def _raise_epoch(self, only_if_topics_changed: bool = False) -> None:
        self._seen = self.topics.version
        names = self.subscribed_names()
        seen = [(name, self.topics.named(name)) for name in sorted(names)]
        digest = hashlib.blake2b(repr(seen).encode(), digest_size=8).digest()
        topics_hash = int.from_bytes(digest, "big", signed=True) if names else 0
        if not only_if_topics_changed or topics_hash != self.topics_hash:
            self.change(Fact.GROUP, "", Header(self.epoch + 1, topics_hash))

    def _assign(self) -> None:
        counts: dict[UUID, int] = {}
        wishes: dict[str, Wish] = {}
        for member_id, m in self.members.items():
            there = [t for t in map(self.topics.named, self.subscribed(m)) if t is not None]
            counts.update(there)
            place = (m.instance_id is None, m.instance_id or member_id)
            wishes[member_id] = Wish(frozenset(topic_id for topic_id, _ in there), place)
        shares = ASSIGNORS[self.assignor()](wishes, counts, self.targets)
        for member_id, share in shares.items():
            self.change(Fact.TARGET, member_id, share)
        self.change(Fact.TARGET_EPOCH, "", self.epoch)
