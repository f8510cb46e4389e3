"""When a partition of __consumer_offsets is served: not before all that was read of it is replicated."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.groups import GroupsApi
from brokerd.cluster.model import Now
from brokerd.coordinator.groups import Groups
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.test_consumer_records import House
from tests.unit.coordinator.topics import TERMS, FakeTopics

NOW = Now(1_000, 1_000)


def test_members_of_a_group_that_is_still_read_are_not_frightened() -> None:
    """As in Kafka: a beat is answered blindly (aiokafka's consumer ends at any word it does not expect there), a sync with a rebalance, what a client can
    try again with the reason."""
    log: Any = SimpleNamespace(
        partition_count=lambda: 1, leader_epoch=lambda p: 7, read=lambda p, offset, size: b"", start_offset=lambda p: 0,
        end_offset=lambda p: 5, high_watermark=lambda p: 3, epoch_start=lambda p: 2, followed=lambda p: True, sure=lambda p: True,
    )  # fmt: skip
    groups = Groups(
        log, lambda: NOW, initial_delay_ms=0, size_max=10, retention_ms=1 << 40, metadata_bytes_max=100, topics=FakeTopics(),
        terms=lambda group_id: TERMS, draw=lambda: "id",
    )  # fmt: skip
    groups.became_leader(0, 7, NOW)
    groups.tick(NOW)
    assert not groups.led[0].loaded
    api = GroupsApi(groups, lambda topic, key, listener: None, session_ms_min=1, session_ms_max=10_000)

    def asked(door: Callable[[Any], None], body: Any) -> int:
        answers: list[Any] = []
        request: Any = SimpleNamespace(
            body=body,
            reply=answers.append,
            header=SimpleNamespace(api_version=4),
            client_id="c",
            client_host="/h",
            sees=None,
        )
        door(request)
        return int(answers[0].error_code)

    assert asked(api.heartbeat, m.HeartbeatRequest(group_id="g", generation_id=3, member_id="m")) == 0
    assert asked(api.sync, m.SyncGroupRequest(group_id="g", generation_id=3, member_id="m")) == (
        ErrorCode.REBALANCE_IN_PROGRESS
    )
    join = m.JoinGroupRequest(group_id="g", session_timeout_ms=6_000, member_id="m", protocol_type="consumer")
    assert asked(api.join, join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_what_only_this_log_holds_is_not_served() -> None:
    """Nor what another log holds that may lead next: a coordinator answered heartbeats from it, the end of the earlier epoch led next and had
    put that member out (seed 10761)."""
    offsets = {"end": 5, "high_watermark": 3}
    followed: list[bool] = []
    log: Any = SimpleNamespace(
        partition_count=lambda: 1, leader_epoch=lambda p: 7, read=lambda p, offset, size: b"", start_offset=lambda p: 0,
        end_offset=lambda p: offsets["end"], high_watermark=lambda p: offsets["high_watermark"], epoch_start=lambda p: 2,
        followed=lambda p: bool(followed),
    )  # fmt: skip
    groups = Groups(
        log,
        lambda: NOW,
        initial_delay_ms=0,
        size_max=10,
        retention_ms=1 << 40,
        metadata_bytes_max=100,
        topics=FakeTopics(),
        terms=lambda group_id: TERMS,
        draw=lambda: "id",
    )
    groups.became_leader(0, 7, NOW)
    for _ in range(3):
        groups.tick(NOW)
    assert not groups.led[0].loaded, "3 and 4 may never be seen by a successor"
    offsets["high_watermark"] = 5
    groups.tick(NOW)
    assert not groups.led[0].loaded, "who leads next may have another end"
    followed.append(True)
    groups.tick(NOW)
    assert groups.led[0].loaded


@pytest.mark.parametrize("joined", [House.classic_join, lambda house: house.beat("m", 0, "a")])
def test_nobodys_silence_counts_while_whoever_beats_is_refused(joined: Callable[[House], Any]) -> None:
    """A coordinator that was cut off for longer than a session threw the whole group out when it was heard again."""
    now = [NOW]
    house = House(clock=lambda: now[0])
    assert joined(house).error == 0

    def passes(ms: int) -> None:
        for _ in range(ms // 100):
            now[0] = Now(now[0].mono_ms + 100, now[0].wall_ms + 100)
            house.groups.tick(now[0])

    sure, house.log.sure = house.log.sure, lambda partition: False  # type: ignore[method-assign]
    passes(60_000)
    house.log.sure = sure  # type: ignore[method-assign]
    passes(4_900)
    assert house.group.members, "a session's time from then on"
    passes(5_300)
    assert not house.group or not house.group.members, "and no longer"
