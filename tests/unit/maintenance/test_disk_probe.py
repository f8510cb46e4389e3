"""A disk is slow after several slow probes, healthy after more fast ones, and hung if a probe does not return."""

from __future__ import annotations

import pytest

from brokerd.cluster.disk_health import DiskHealth
from brokerd.maintenance.disk_probe import FAST_PROBES, SLOW_PROBES, TICK_GAP_MS_MAX, DiskProbe, ProbeLimits

LIMITS = ProbeLimits(interval_ms=5_000, slow_ms=1_000, hung_ms=60_000)


def health_after_probes(probe: DiskProbe, *took_ms: int) -> DiskHealth:
    for ms in took_ms:
        probe.on_finished(ms, LIMITS)
    return probe.health


def test_a_probe_begins_an_interval_after_the_end_of_the_last_one() -> None:
    probe = DiskProbe()
    begun = [
        ms
        for ms in range(0, 21_000, 1_000)
        if probe.tick(ms, LIMITS) and health_after_probes(probe, 3) is DiskHealth.OK
    ]
    assert begun == [5_000, 10_000, 15_000, 20_000]
    assert probe.latency_ms == 3


def test_a_probe_that_waits_is_not_repeated() -> None:
    probe = DiskProbe()
    assert [ms for ms in range(0, 40_000, 1_000) if probe.tick(ms, LIMITS)] == [5_000]
    assert (probe.latency_ms, probe.health) == (34_000, DiskHealth.SLOW)


@pytest.mark.parametrize(
    ("took_ms", "health"),
    [
        ([1_000] * (SLOW_PROBES - 1), DiskHealth.OK),
        ([1_000] * SLOW_PROBES, DiskHealth.SLOW),
        ([1_000, 1_000, 999, 1_000, 1_000], DiskHealth.OK),
        ([SLOW_PROBES * 1_000], DiskHealth.SLOW),
    ],
)
def test_one_slow_probe_changes_nothing(took_ms: list[int], health: DiskHealth) -> None:
    assert health_after_probes(DiskProbe(), *took_ms) is health


def test_a_slow_disk_is_healthy_after_fast_probes_in_a_row() -> None:
    probe = DiskProbe()
    assert health_after_probes(probe, *[1_500] * SLOW_PROBES) is DiskHealth.SLOW
    assert health_after_probes(probe, *[499] * (FAST_PROBES - 1), 500, *[499] * (FAST_PROBES - 1)) is DiskHealth.SLOW
    assert health_after_probes(probe, 499) is DiskHealth.OK


def test_a_probe_that_never_returns_means_a_hung_disk_for_good() -> None:
    probe = DiskProbe()
    for ms in range(0, 66_000, 1_000):
        probe.tick(ms, LIMITS)
        assert (probe.health is DiskHealth.HUNG) == (ms >= 65_000)
    assert health_after_probes(probe, *[1] * FAST_PROBES) is DiskHealth.HUNG
    assert not any(probe.tick(ms, LIMITS) for ms in range(66_000, 99_000, 1_000))


def test_the_time_of_a_suspended_process_does_not_count() -> None:
    probe = DiskProbe()
    for ms in range(0, 6_000, 1_000):
        probe.tick(ms, LIMITS)
    probe.tick(3_600_000, LIMITS)
    assert (probe.waiting_ms, probe.health) == (TICK_GAP_MS_MAX, DiskHealth.SLOW)


def test_without_an_interval_there_are_no_probes_and_a_slow_disk_is_forgotten() -> None:
    probe, off = DiskProbe(), ProbeLimits(0, 1_000, 60_000)
    assert health_after_probes(probe, *[1_500] * SLOW_PROBES) is DiskHealth.SLOW
    assert not any(probe.tick(ms, off) for ms in range(0, 20_000, 1_000))
    assert probe.health is DiskHealth.OK


def test_a_probe_without_a_time_is_followed_by_the_next() -> None:
    probe = DiskProbe()
    assert [ms for ms in range(0, 6_000, 1_000) if probe.tick(ms, LIMITS)] == [5_000]
    probe.on_failed()
    assert [ms for ms in range(6_000, 12_000, 1_000) if probe.tick(ms, LIMITS)] == [10_000]
    assert probe.last_ms is None
