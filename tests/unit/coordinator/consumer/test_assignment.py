"""Target assignments: the chosen assignor, resolved regular expressions, and the group epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.consumer import assignment
from brokerd.coordinator.consumer.assignment import TargetAssignmentBuilder
from brokerd.coordinator.consumer.events import ConsumerHeartbeat, MemberMetadata
from brokerd.coordinator.consumer.patterns import PatternError
from tests.unit.coordinator.topics import GROUP_CONFIG, A, B, FakeTopics, share

NOW = Now(1_000, 2_000)


def metadata(*topics: str, pattern: str | None = None, assignor: str | None = None) -> MemberMetadata:
    return MemberMetadata(None, None, "c", "/h", frozenset(topics), pattern, 5_000, assignor)


def group(**members: MemberMetadata) -> TargetAssignmentBuilder:
    made = TargetAssignmentBuilder(group_id="g", topics=FakeTopics(), group_config=GROUP_CONFIG)
    made.begin(NOW.wall_ms)
    for name, member in members.items():
        made._apply_member(name, member)
    return made


def heartbeat(*visible: str) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(None, "m", 1, "c", "/h", may_describe=visible.__contains__ if visible else None)


def resolve(it: TargetAssignmentBuilder, pattern: str, *visible: str) -> frozenset[str]:
    it.patterns.setdefault(pattern, assignment.ResolvedRegularExpression(frozenset(), -1, 0))
    it._resolve(heartbeat(*visible), NOW)
    return it.patterns[pattern].topics


def test_the_assignor_with_the_most_votes_is_used() -> None:
    assert group(a=metadata("a")).assignor() == GROUP_CONFIG.assignors[0]
    votes = group(a=metadata(assignor="range"), b=metadata(assignor="uniform"), c=metadata(assignor="range"))
    assert votes.assignor() == "range"
    assert group(a=metadata(assignor="uniform"), b=metadata(assignor="range")).assignor() == "range", "first by name"


def test_a_pattern_matches_topics_that_the_member_may_describe() -> None:
    assert resolve(group(a=metadata(pattern="[ab]")), "[ab]", "b") == {"b"}
    it = group(a=metadata("x", pattern="[ab]"))
    assert resolve(it, "[ab]") == {"a", "b"}
    assert it.subscribed_names() == {"a", "b", "x"}


def test_unused_patterns_are_deleted_and_unchanged_topics_are_not_searched_again() -> None:
    it = group(a=metadata(pattern="a"))
    resolve(it, "a")
    it.patterns["old"] = it.patterns["a"]
    it._seen = it.topics.version
    it.patterns["a"] = replace(it.patterns["a"], topics=frozenset())
    it._resolve(heartbeat(), NOW)
    assert "old" not in it.patterns and it.patterns["a"].topics == frozenset()


def test_a_search_above_its_limit_keeps_the_last_matched_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    it = group(a=metadata(pattern="a"))
    assert resolve(it, "a") == {"a"}

    class SlowPatterns:
        def __init__(self, text: str) -> None: ...

        def among(self, names: object) -> frozenset[str]:
            raise PatternError("too much")

    monkeypatch.setattr(assignment, "Pattern", SlowPatterns)
    it._seen = -1
    it._resolve(heartbeat(), NOW)
    assert it.patterns["a"].topics == {"a"}


def test_the_group_epoch_increases_with_the_subscribed_topics_only() -> None:
    topics = FakeTopics()
    it = group(a=metadata("a"))
    it.topics = topics
    it._raise_epoch()
    it._raise_epoch(only_if_topics_changed=True)
    assert it.epoch == 1
    topics.there["b"] = (B, 9)
    it._raise_epoch(only_if_topics_changed=True)
    assert it.epoch == 1, "no member is subscribed to b"
    topics.there["a"] = (A, 5)
    it._raise_epoch(only_if_topics_changed=True)
    assert it.epoch == 2


def test_a_target_assignment_is_computed_for_all_members_and_existing_topics() -> None:
    it = group(m1=metadata("a", "gone"), m2=metadata("a"))
    it.epoch = 4
    it._assign()
    assert it.targets["m1"] | it.targets["m2"] == share(A, 0, 1, 2, 3)
    assert not it.targets["m1"] & it.targets["m2"] and it.target_epoch == 4
