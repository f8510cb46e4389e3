"""Lag in time and status of share groups over time: restarts, members, thresholds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from brokerd.cluster.metadata import GROUP, AccessChanged
from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.share_groups import DescribedShareGroup, ShareMember, SharePartitionOffset
from controlplane.domain.alert_thresholds import of_stored
from controlplane.domain.lag import Block, LagStatus
from controlplane.models import LogEnds, ShareGroupPartition
from controlplane.monitoring import samples as samples_module
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import Difference
from controlplane.monitoring.publisher import LivePublisher
from controlplane.monitoring.samples import MetricsCache
from controlplane.monitoring.share_group_lag import SharePartitionLag
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0, F1 = ("flights", 0), ("flights", 1)


def group(starts: dict[tuple[str, int], tuple[int | None, int | None]], members: int = 1) -> DescribedShareGroup:
    """`starts`: (start offset, lag) by partition. Member 0 has all partitions, the others have none."""
    offsets = tuple(SharePartitionOffset(*key, start, lag) for key, (start, lag) in starts.items())
    found = tuple(ShareMember(f"m{n}", "c", "h", ("flights",), tuple(starts) if n == 0 else ()) for n in range(members))
    return DescribedShareGroup("workers", "Stable" if members else "Empty", 1, "simple", found, offsets)


class Clock:
    """The rounds of a monitor. One round takes two seconds."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.now_s = world, 0
        self.metrics = MetricsCache()
        self.stable: dict[tuple[str, int], int] = {}
        """Last stable offsets that the leader reports on request."""
        self.share_full: frozenset[tuple[str, tuple[str, int]]] | None = None
        """The share partitions at their limit that the leader reports."""
        monkeypatch.setattr(samples_module.timezone, "now", lambda: datetime.fromtimestamp(self.now_s, UTC))

    def run_until(
        self, until_s: int, described: Callable[[int], DescribedShareGroup | None], end: Callable[[int], int]
    ) -> None:
        for now_s in range(self.now_s + 2, until_s + 1, 2):
            self.now_s = now_s
            found = described(self.now_s)
            offsets = {F0: (0, end(self.now_s)), F1: (0, end(self.now_s))}
            groups = () if found is None else (found,)
            requested = self.metrics.lags.stalled_partitions(
                {"flights": [0, 1]}, self.metrics.share_lags.stalled_partitions()
            )
            stable = {key: self.stable[key] for key in requested if key in self.stable}
            sample = BrokerSample(
                1, self.now_s * 1000, offsets, stable=stable, share_groups=groups, share_full=self.share_full
            )
            changed = self.metrics.apply([sample], {}, self.world.image, self.now_s * 1000)
            self.metrics.write(changed, self.world.projection, self.world.image)

    def restart(self) -> None:
        self.metrics = MetricsCache()
        self.metrics.restore()

    def lag_of(self, key: tuple[str, int] = F0) -> SharePartitionLag:
        return self.metrics.share_lags.groups["workers"].partitions[key]


@pytest.fixture
def clock(world: World, monkeypatch: pytest.MonkeyPatch) -> Clock:
    world.topic("flights", (1,), (1,))
    return Clock(world, monkeypatch)


def test_the_lag_in_time_is_the_age_of_the_record_at_the_start_offset(clock: Clock) -> None:
    clock.run_until(200, lambda s: group({F0: (10 * (s - 60), 600), F1: (None, None)}), lambda s: 10 * s)
    found = clock.lag_of()
    assert found.age is not None and (found.age.ms, found.age.at_least) == (60_000, False)
    assert (found.status, clock.lag_of(F1).age, clock.lag_of(F1).status) == (LagStatus.HEALTHY, None, LagStatus.UNKNOWN)
    row = ShareGroupPartition.objects.get(index=0)
    assert (row.group_id, row.start_offset, row.lag_records, row.lag_ms) == ("workers", 1_400, 600, 60_000)
    assert (row.status, row.member_count, row.lag_at_least) == ("healthy", 1, False)
    assert ShareGroupPartition.objects.get(index=1).start_offset is None


def test_a_record_older_than_the_first_observation_has_a_lower_bound(clock: Clock) -> None:
    clock.run_until(20, lambda s: group({F0: (5, 995)}), lambda s: 1_000)
    found = clock.lag_of()
    assert found.age is not None and found.age.at_least and found.age.ms == 18_000
    clock.run_until(30, lambda s: group({F0: (5, 0)}), lambda s: 1_000)
    assert clock.lag_of().age is not None and clock.lag_of().age == type(found.age)(0), "every delivery has ended"


def test_a_group_without_members_has_stopped_after_the_threshold(clock: Clock) -> None:
    clock.run_until(60, lambda s: group({F0: (10 * s - 10, 10)}), lambda s: 10 * s)
    start = 10 * clock.now_s - 10
    clock.run_until(80, lambda s: group({F0: (start, 10 * s - start)}, members=0), lambda s: 10 * s)
    assert clock.lag_of().status is not LagStatus.STOPPED, "a restart of its consumers takes seconds"
    clock.run_until(200, lambda s: group({F0: (start, 10 * s - start)}, members=0), lambda s: 10 * s)
    assert clock.lag_of().status is LagStatus.STOPPED
    assert ShareGroupPartition.objects.get().status == "stopped"
    clock.metrics.use_thresholds(of_stored({}, [("group_stopped", "workers", 600.0)]))
    clock.run_until(210, lambda s: group({F0: (start, 10 * s - start)}, members=0), lambda s: 10 * s)
    assert clock.lag_of().status is not LagStatus.STOPPED, "the group has its own threshold"


def test_an_empty_share_partition_is_idle_without_members(clock: Clock) -> None:
    clock.run_until(200, lambda s: group({F0: (500, 0)}, members=0), lambda s: 500)
    assert clock.lag_of().status is LagStatus.IDLE


def test_members_that_do_not_finish_the_first_record_stall_the_group_also_over_a_restart(clock: Clock) -> None:
    def describe_stuck_group(s: int) -> DescribedShareGroup:
        return group({F0: (100, 10 * s - 100)}, members=2)

    clock.run_until(10, lambda s: group({F0: (10 * s, 0)}), lambda s: 10 * s)
    clock.run_until(36, describe_stuck_group, lambda s: 10 * s)
    assert clock.lag_of().status is not LagStatus.STALLED
    clock.restart()
    clock.run_until(60, describe_stuck_group, lambda s: 10 * s)
    found = clock.lag_of()
    assert found.status is LagStatus.STALLED and found.member_count == 1
    assert found.age is not None and not found.age.at_least, "the log ends are stored from the start offset on"
    assert LogEnds.objects.exists()
    clock.run_until(clock.now_s + 4, lambda s: group({F0: (10 * s, 0)}), lambda s: 10 * s)
    assert clock.lag_of().status is LagStatus.HEALTHY


@pytest.mark.parametrize(
    ("level", "stable", "status"),
    [
        ("read_committed", 100, LagStatus.BLOCKED),
        ("read_committed", 101, LagStatus.STALLED),
        ("read_uncommitted", 100, LagStatus.STALLED),
    ],
)
def test_only_committed_reads_are_blocked_by_an_open_transaction(
    clock: Clock, level: str, stable: int, status: LagStatus
) -> None:
    clock.world.image.apply(AccessChanged(GROUP, "workers", 1, {"share.isolation.level": level}))
    clock.run_until(10, lambda s: group({F0: (10 * s, 0)}), lambda s: 10 * s)
    clock.stable[F0] = stable
    clock.run_until(60, lambda s: group({F0: (100, 10 * s - 100)}), lambda s: 10 * s)
    found = clock.lag_of()
    assert found.status is status
    assert found.block is (Block.OPEN_TRANSACTION if status is LagStatus.BLOCKED else Block.NONE)
    assert ShareGroupPartition.objects.get(index=0).block == found.block.value
    clock.stable.clear()
    clock.run_until(64, lambda s: group({F0: (10 * s, 0)}), lambda s: 10 * s)
    assert clock.lag_of().status is LagStatus.HEALTHY and clock.lag_of().block is Block.NONE


def test_the_rows_of_a_deleted_group_are_deleted_also_those_of_an_earlier_process(clock: Clock) -> None:
    clock.run_until(4, lambda s: group({F0: (1, 3), F1: (1, 3)}), lambda s: 4)
    assert ShareGroupPartition.objects.count() == 2
    clock.run_until(6, lambda s: group({F0: (1, 3)}), lambda s: 4)
    assert [r.index for r in ShareGroupPartition.objects.all()] == [0]
    clock.run_until(8, lambda s: None, lambda s: 4)
    assert not ShareGroupPartition.objects.exists() and clock.metrics.share_lags.groups == {}
    clock.run_until(10, lambda s: group({F0: (1, 3)}), lambda s: 4)
    clock.restart()
    clock.run_until(12, lambda s: None, lambda s: 4)
    assert ShareGroupPartition.objects.exists(), "its coordinator may not have answered yet"
    clock.metrics.settled = True
    clock.run_until(14, lambda s: None, lambda s: 4)
    assert not ShareGroupPartition.objects.exists()


def test_a_live_update_has_lag_in_time_and_status(world: World) -> None:
    world.topic("flights", (1,), (1,))
    hub, metrics = Hub(), MetricsCache()
    live = LivePublisher(hub)
    live.image(world.image, Difference(), metrics)
    for at_s in (10, 12):
        starts: dict[tuple[str, int], tuple[int | None, int | None]] = {F0: (30, 70), F1: (None, None)}
        sample = BrokerSample(1, at_s * 1000, {F0: (0, 100), F1: (0, 100)}, share_groups=(group(starts),))
        live.samples(metrics.apply([sample], {}, world.image, at_s * 1000), metrics)
    update = [u for u in hub.since(hub.run, 0) or [] if u["kind"] == "share_groups"][-1]
    (shown,) = update["data"]["groups"]
    assert (shown["lag_ms_max"], shown["lag_at_least"], shown["status"]) == (2_000, True, "unknown")
    first, second = shown["partitions"]
    assert (first["lag_ms"], first["lag_at_least"], first["status"]) == (2_000, True, "healthy")
    assert (second["lag_ms"], second["lag_at_least"], second["status"]) == (None, False, "unknown")
    assert (first["block"], second["block"]) == ("", "")


def test_a_share_partition_is_at_its_limit_while_its_leader_reports_it(clock: Clock) -> None:
    def limits_in_rows() -> dict[int, bool | None]:
        return dict(ShareGroupPartition.objects.values_list("index", "is_full"))

    def run(full: frozenset[tuple[str, tuple[str, int]]] | None) -> None:
        clock.share_full = full
        clock.run_until(clock.now_s + 2, lambda s: group({F0: (5, 995), F1: (7, 993)}), lambda s: 1_000)

    run(None)
    assert limits_in_rows() == {0: None, 1: None}, "no sample"
    run(frozenset({("workers", F0), ("others", F1)}))
    assert limits_in_rows() == {0: True, 1: False}
    run(None)
    assert limits_in_rows() == {0: True, 1: False}, "a round without sizes requests no limits"
    run(frozenset())
    assert limits_in_rows() == {0: False, 1: False}
    clock.metrics.apply([], {1: "no response"}, clock.world.image, clock.now_s * 1000)
    run(None)
    assert limits_in_rows() == {0: None, 1: None}, "the leader did not respond"
