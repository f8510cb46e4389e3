"""When a partition of __consumer_offsets is served: not before all that was read of it is replicated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.groups import Groups
from tests.unit.coordinator.topics import TERMS, FakeTopics

NOW = Now(1_000, 1_000)


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
