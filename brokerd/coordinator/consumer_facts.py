"""What a group of the new protocol is: the sum of its facts, each a record of the log. Pure.

Laws: a fact is changed by `apply` alone, in life as in replay, so that a successor who has read the log is the same group; what was changed
since `begin` can be taken back. Called by `consumer_group`, which has the rules, by the loader and by the dump. Must not come in: rules,
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import Change, Fact, Header, Profile, Resolved
from brokerd.coordinator.reconciliation import Standing


@dataclass(slots=True)
class Facts:
    group_id: str
    epoch: int = 0
    topics_hash: int = 0
    target_epoch: int = 0
    members: dict[str, Profile] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    targets: dict[str, Share] = field(default_factory=dict)
    patterns: dict[str, Resolved] = field(default_factory=dict)

    static: dict[str, str] = field(default_factory=dict)
    """{instance id: member id}, as the profiles say."""
    holders: dict[TopicPartition, str] = field(default_factory=dict)
    """Who holds what, as the standings say."""
    classics: int = 0
    """How many members speak the classic protocol, as the profiles say."""
    empty_since_wall_ms: int = 0
    changes: list[Change] = field(default_factory=list)
    """Since `begin`."""
    _undo: list[Change] = field(default_factory=list)
    _wall_ms: int = 0

    def begin(self, wall_ms: int) -> None:
        self.changes, self._undo, self._wall_ms = [], [], wall_ms

    def take_back(self) -> None:
        """All that was changed since `begin`."""
        for change in reversed(self._undo):
            self.apply(change)
        self.changes, self._undo = [], []

    def value(self, fact: Fact, name: str) -> Any:
        match fact:
            case Fact.GROUP:
                return Header(self.epoch, self.topics_hash)
            case Fact.TARGET_EPOCH:
                return self.target_epoch
            case Fact.MEMBER:
                return self.members.get(name)
            case Fact.TARGET:
                return self.targets.get(name)
            case Fact.STANDING:
                return self.standings.get(name)
            case Fact.PATTERN:
                return self.patterns.get(name)

    def change(self, fact: Fact, name: str, value: Any) -> None:
        old = self.value(fact, name)
        if old != value:
            change = Change(fact, name, value)
            self._undo.append(Change(fact, name, old))
            self.changes.append(change)
            self.apply(change, self._wall_ms)

    def apply(self, change: Change, wall_ms: int = 0) -> None:
        """A fact as decided, or as it stands in the log."""
        name, value = change.name, change.value
        match change.fact:
            case Fact.GROUP:
                header = value if value is not None else Header(0)
                self.epoch, self.topics_hash = header.epoch, header.topics_hash
            case Fact.TARGET_EPOCH:
                self.target_epoch = value or 0
            case Fact.MEMBER:
                self._apply_member(name, value)
                self.empty_since_wall_ms = 0 if self.members else wall_ms
            case Fact.TARGET:
                _put(self.targets, name, value)
            case Fact.STANDING:
                for tp in self.standings.get(name, Standing()).held:
                    if self.holders.get(tp) == name:
                        del self.holders[tp]
                if value is not None:
                    self.holders.update(dict.fromkeys(value.held, name))
                elif name in self.members:
                    value = Standing()
                _put(self.standings, name, value)
            case Fact.PATTERN:
                _put(self.patterns, name, value)

    def _apply_member(self, name: str, profile: Profile | None) -> None:
        old = self.members.get(name)
        if old is not None and old.instance_id is not None and self.static.get(old.instance_id) == name:
            del self.static[old.instance_id]
        self.classics += (profile is not None and profile.classic is not None) - (
            old is not None and old.classic is not None
        )
        _put(self.members, name, profile)
        if profile is None:
            self.apply(Change(Fact.STANDING, name, None))
            return
        self.standings.setdefault(name, Standing())
        if profile.instance_id is not None:
            self.static[profile.instance_id] = name

    def tombstones(self) -> list[Change]:
        """What takes the whole group, but not its offsets, out of the log."""
        gone = [
            Change(fact, name, None)
            for fact, names in (
                (Fact.STANDING, self.standings), (Fact.TARGET, self.targets), (Fact.MEMBER, self.members),
                (Fact.PATTERN, self.patterns),
            )
            for name in names
        ]  # fmt: skip
        return [*gone, Change(Fact.TARGET_EPOCH, "", None), Change(Fact.GROUP, "", None)]

    def purge(self) -> None:
        """After a replay: what is left of members that are no more."""
        for member_id in {*self.standings, *self.targets} - self.members.keys():
            self.apply(Change(Fact.STANDING, member_id, None))
            self.apply(Change(Fact.TARGET, member_id, None))

    def validate(self) -> None:
        held: dict[TopicPartition, str] = {}
        for member_id, at in self.standings.items():
            for tp in at.held:
                other = held.setdefault(tp, member_id)
                assert other == member_id, f"{self.group_id}: {tp} is held by {other} and {member_id}"
        assert held == self.holders, f"{self.group_id}: the holders are not what the standings say"
        assert self.standings.keys() == self.members.keys(), f"{self.group_id}: a standing without its member"
        assert self.targets.keys() <= self.members.keys(), f"{self.group_id}: a target without its member"
        assert set(self.static.values()) <= self.members.keys(), f"{self.group_id}: a static seat without its member"
        assert self.classics == sum(m.classic is not None for m in self.members.values()), self.group_id
        assert self.target_epoch <= self.epoch, f"{self.group_id}: a target of the future"


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
