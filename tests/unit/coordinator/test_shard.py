"""Coordinator shards: loading, and the requests that may be served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.coordinator.groups import GroupCoordinator
from tests.unit.coordinator.test_group_shard import NOW
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics


def test_a_coordinator_does_not_serve_records_above_the_high_watermark() -> None:
    """A replica without these records may become the next leader. A coordinator answered heartbeats from
    such records; then the replica with the end of the earlier epoch became leader, and it had removed that member
    (seed 10761)."""
    offsets = {"end": 5, "high_watermark": 3}
    caught_up: list[bool] = []
    log: Any = SimpleNamespace(
        partition_count=lambda: 1,
        leader_epoch=lambda p: 7,
        read=lambda p, offset, size: b"",
        start_offset=lambda p: 0,
        end_offset=lambda p: offsets["end"],
        high_watermark=lambda p: offsets["high_watermark"],
        epoch_start=lambda p: 2,
        all_followers_caught_up_to_epoch=lambda p: bool(caught_up),
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
    for _ in range(3):
        groups.tick(NOW)
    assert not groups.shards[0].loaded, "3 and 4 may never be seen by a successor"
    offsets["high_watermark"] = 5
    groups.tick(NOW)
    assert not groups.shards[0].loaded, "who leads next may have another end"
    caught_up.append(True)
    groups.tick(NOW)
    assert groups.shards[0].loaded
