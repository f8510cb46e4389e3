"""The state that the watchdog reports for a loop, second by second."""

from __future__ import annotations

from brokerd.runtime.watchdog import BUSY_MS_MAX, SLOW_MS, Watchdog, WatchdogVerdict


def verdicts_per_second(
    watch: Watchdog, seconds: int, *, progress: int = 1, cpu_share: float = 0.0, begin_ms: int = 0
) -> list[WatchdogVerdict]:
    return [
        watch.check(begin_ms + ms, progress, int((begin_ms + ms) * cpu_share))
        for ms in range(1_000, seconds * 1_000 + 1, 1_000)
    ]


def test_an_event_loop_blocked_by_a_disk_is_ended_after_the_limit() -> None:
    seen = verdicts_per_second(Watchdog(30_000), 40)
    assert WatchdogVerdict.HANGS not in seen[:30]
    assert seen[32] is WatchdogVerdict.HANGS


def test_a_busy_event_loop_is_reported_and_not_ended() -> None:
    seen = verdicts_per_second(Watchdog(30_000), BUSY_MS_MAX // 1_000 - 10, cpu_share=0.1)
    assert set(seen) == {WatchdogVerdict.WORKS, WatchdogVerdict.SLOW}
    assert seen.index(WatchdogVerdict.SLOW) == SLOW_MS // 1_000


def test_an_endless_callback_is_ended_eventually() -> None:
    seen = verdicts_per_second(Watchdog(30_000), BUSY_MS_MAX // 1_000 + 10, cpu_share=1.0)
    assert seen[-1] is WatchdogVerdict.ENDLESS
    assert WatchdogVerdict.HANGS not in seen


def test_progress_resets_the_limit() -> None:
    watch = Watchdog(30_000)
    for step in range(10):
        seen = verdicts_per_second(watch, 20, progress=step, begin_ms=step * 20_000)
        assert WatchdogVerdict.HANGS not in seen


def test_the_time_of_a_suspended_process_does_not_count() -> None:
    watch = Watchdog(30_000)
    verdicts_per_second(watch, 10)
    assert watch.check(10_000 + 3_600_000, 1, 0) is not WatchdogVerdict.HANGS
    assert watch.silent_ms < 15_000
