"""The group that gets an event: each type of group, empty or with members, and each kind of event."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.config.share_groups import ShareGroupConfig
from brokerd.config.streams_groups import StreamsGroupConfig
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer.events import ConsumerHeartbeat
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.group_choice import Event, GroupAction, choose_group
from brokerd.coordinator.share_group.events import ShareHeartbeat
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group.events import StreamsHeartbeat
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics

NONE, EMPTY_CLASSIC, CLASSIC, EMPTY_CONSUMER, CONSUMER, SHARE, EMPTY_STREAMS, STREAMS = GROUPS = (
    "none",
    "empty classic",
    "classic",
    "empty consumer",
    "consumer",
    "share",
    "empty streams",
    "streams",
)
SAME = "the present group"


def ignore(response: object) -> None:
    pass


JOIN = events.Join(ignore, "", "new", None, "c", "/h", 10_000, 10_000, "consumer", (("range", b""),), False)
SYNC = events.Sync(ignore, "m", None, 1, None, None, {})
HEARTBEAT = events.Heartbeat(ignore, "m", None, 1)
LEAVE = events.Leave(ignore, (("m", None),))
COMMIT = events.Commit(ignore, "", None, -1, {})
MEMBER_COMMIT = events.Commit(ignore, "m", None, 3, {})
TRANSACTIONAL_MEMBER_COMMIT = events.TransactionalCommit(ignore, "m", None, 3, {}, 7, 0)
CONSUMER_JOIN = ConsumerHeartbeat(ignore, "m", 0, "c", "/h")
CONSUMER_HEARTBEAT = ConsumerHeartbeat(ignore, "m", 4, "c", "/h")
SHARE_JOIN = ShareHeartbeat(ignore, "m", 0, "c", "/h")
SHARE_HEARTBEAT = ShareHeartbeat(ignore, "m", 4, "c", "/h")
STREAMS_JOIN = StreamsHeartbeat(ignore, "m", 0, "c", "/h")
STREAMS_HEARTBEAT = StreamsHeartbeat(ignore, "m", 4, "c", "/h")


def present(kind: str) -> Any:
    match kind:
        case "empty classic" | "classic":
            classic = Group("g", 0, 10)
            if kind == CLASSIC:
                classic.state = State.STABLE
            return classic
        case "empty consumer" | "consumer":
            consumer: Any = MixedGroup("g", topics=FakeTopics(), group_config=GROUP_CONFIG)
            if kind == CONSUMER:
                consumer.members["m"] = object()
            return consumer
        case "share":
            return ShareGroup("g", topics=FakeTopics(), config=ShareGroupConfig())
        case "empty streams" | "streams":
            streams: Any = StreamsGroup("g", topics=FakeTopics(), config=StreamsGroupConfig())
            if kind == STREAMS:
                streams.members["m"] = object()
            return streams
    return None


CREATE_CLASSIC, CREATE_CONSUMER = GroupAction.CREATE_CLASSIC, GroupAction.CREATE_CONSUMER
CREATE_STREAMS, INCONSISTENT = GroupAction.CREATE_STREAMS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
UNKNOWN, NOT_FOUND = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND
CHOICES: list[tuple[Event, tuple[object, ...]]] = [
    (JOIN, (CREATE_CLASSIC, SAME, SAME, CREATE_CLASSIC, SAME, INCONSISTENT, CREATE_CLASSIC, INCONSISTENT)),
    (SYNC, (CREATE_CLASSIC, SAME, SAME, UNKNOWN, SAME, UNKNOWN, UNKNOWN, UNKNOWN)),
    (HEARTBEAT, (CREATE_CLASSIC, SAME, SAME, UNKNOWN, SAME, UNKNOWN, UNKNOWN, UNKNOWN)),
    (LEAVE, (CREATE_CLASSIC, SAME, SAME, UNKNOWN, SAME, UNKNOWN, UNKNOWN, UNKNOWN)),
    (COMMIT, (CREATE_CLASSIC, SAME, SAME, SAME, SAME, NOT_FOUND, SAME, SAME)),
    (MEMBER_COMMIT, (NOT_FOUND, SAME, SAME, SAME, SAME, NOT_FOUND, SAME, SAME)),
    (TRANSACTIONAL_MEMBER_COMMIT, (NOT_FOUND, SAME, SAME, SAME, SAME, NOT_FOUND, SAME, SAME)),
    (
        CONSUMER_JOIN,
        (CREATE_CONSUMER, CREATE_CONSUMER, GroupAction.UPGRADE, SAME, SAME, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    ),
    (CONSUMER_HEARTBEAT, (UNKNOWN, UNKNOWN, UNKNOWN, SAME, SAME, NOT_FOUND, NOT_FOUND, NOT_FOUND)),
    (SHARE_JOIN, (GroupAction.CREATE_SHARE, *[NOT_FOUND] * 4, SAME, NOT_FOUND, NOT_FOUND)),
    (SHARE_HEARTBEAT, (UNKNOWN, *[NOT_FOUND] * 4, SAME, NOT_FOUND, NOT_FOUND)),
    (STREAMS_JOIN, (CREATE_STREAMS, CREATE_STREAMS, *[NOT_FOUND] * 4, SAME, SAME)),
    (STREAMS_HEARTBEAT, (*[NOT_FOUND] * 6, SAME, SAME)),
]
"""Per event: the choice for each of GROUPS."""


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [(kind, event, choice) for event, choices in CHOICES for kind, choice in zip(GROUPS, choices, strict=True)],
)
def test_the_group_of_an_event(kind: str, event: Event, expected: object) -> None:
    group = present(kind)
    found = choose_group(group, event)
    assert found is (group if expected is SAME else expected)
