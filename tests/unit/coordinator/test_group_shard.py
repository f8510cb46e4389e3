"""A coordinator serves a partition of __consumer_offsets only after all loaded records are replicated."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.groups import GroupsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.model import Now
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.consumer.test_records import Harness
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics

NOW = Now(1_000, 1_000)


def test_members_of_a_loading_group_get_a_retriable_error() -> None:
    """As in Kafka: a heartbeat succeeds without a check (aiokafka's consumer fails on any unexpected error there), a
    sync returns a rebalance, and a request that the client can retry returns the reason."""
    log: Any = SimpleNamespace(
        partition_count=lambda: 1,
        leader_epoch=lambda p: 7,
        read=lambda p, offset, size: b"",
        start_offset=lambda p: 0,
        end_offset=lambda p: 5,
        high_watermark=lambda p: 3,
        epoch_start=lambda p: 2,
        all_followers_caught_up_to_epoch=lambda p: True,
        leadership_confirmed=lambda p: True,
    )
    groups = GroupCoordinator(
        log,
        lambda: NOW,
        initial_delay_ms=0,
        size_max=10,
        retention_ms=1 << 40,
        metadata_bytes_max=100,
        topics=FakeTopics(),
        group_config=lambda group_id: GROUP_CONFIG,
        draw=lambda: "id",
    )
    groups.on_election(0, 7, NOW)
    groups.tick(NOW)
    assert not groups.shards[0].loaded
    api = GroupsApi(groups, lambda topic, key, listener: None, session_ms_min=1, session_ms_max=10_000, auth=ALLOW_ALL)

    def error_of_request(handler: Callable[[Any], None], body: Any) -> int:
        responses: list[Any] = []
        request: Any = SimpleNamespace(
            body=body,
            reply=responses.append,
            header=SimpleNamespace(api_version=4),
            client_id="c",
            client_host="/h",
        )
        handler(request)
        return int(responses[0].error_code)

    assert error_of_request(api.heartbeat, m.HeartbeatRequest(group_id="g", generation_id=3, member_id="m")) == 0
    assert error_of_request(api.sync, m.SyncGroupRequest(group_id="g", generation_id=3, member_id="m")) == (
        ErrorCode.REBALANCE_IN_PROGRESS
    )
    join = m.JoinGroupRequest(group_id="g", session_timeout_ms=6_000, member_id="m", protocol_type="consumer")
    assert error_of_request(api.join, join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("joined", [Harness.classic_join, lambda harness: harness.beat("m", 0, "a")])
def test_sessions_do_not_expire_while_heartbeats_are_rejected(joined: Callable[[Harness], Any]) -> None:
    """A coordinator that was disconnected for longer than a session time-out removed the whole group after it was reachable again."""
    now = [NOW]
    harness = Harness(clock=lambda: now[0])
    assert joined(harness).error == 0

    def advance(ms: int) -> None:
        for _ in range(ms // 100):
            now[0] = Now(now[0].mono_ms + 100, now[0].wall_ms + 100)
            harness.groups.tick(now[0])

    leadership_confirmed, harness.log.leadership_confirmed = harness.log.leadership_confirmed, lambda partition: False  # type: ignore[method-assign]
    advance(60_000)
    harness.log.leadership_confirmed = leadership_confirmed  # type: ignore[method-assign]
    advance(4_900)
    assert harness.group.members, "a session's time from then on"
    advance(5_300)
    assert not harness.group.members, "and no longer"
