"""Leaders check their followers in rounds: each leader once per round, the same number at each tick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.replication.follower_checks import ROUND_MS_MAX, TICK_MS, FollowerChecks


def leaders(count: int, *, alone: bool = False) -> list[Any]:
    return [SimpleNamespace(leads=True, core=SimpleNamespace(has_other_replicas=not alone)) for _ in range(count)]


def test_every_leader_is_due_once_per_round() -> None:
    checks, hosted = FollowerChecks(30_000), leaders(1_000)
    ticks = [checks.due(hosted, ms) for ms in range(0, ROUND_MS_MAX, TICK_MS)]
    assert sorted(map(id, (r for due in ticks for r in due))) == sorted(map(id, hosted))
    assert max(map(len, ticks)) == 101, "a tick checks its part of the round"


def test_the_next_round_starts_when_the_interval_is_over() -> None:
    checks, hosted = FollowerChecks(4_000), leaders(1)
    assert [len(checks.due(hosted, ms)) for ms in (0, 100, 400, 499, 500, 600)] == [1, 0, 0, 0, 1, 0]


def test_partitions_without_followers_are_never_due() -> None:
    followed, alone = leaders(1), leaders(2, alone=True)
    follower: Any = SimpleNamespace(leads=False, core=SimpleNamespace(has_other_replicas=True))
    assert FollowerChecks(30_000).due([*alone, *followed, follower], 0) == followed
