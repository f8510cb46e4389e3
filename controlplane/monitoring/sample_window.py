"""The samples of brokers between which growing counters are compared.

Invariant: `before` is at least one window older than the newest sample, as soon as there is such a sample, and at most two. Does not contain: counters.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class SampleWindow(Generic[T]):
    def __init__(self, window_ms: int, at_ms: int, sample: T) -> None:
        """`at_ms`, `sample`: the first one."""
        self._window_ms = window_ms
        self._older = self._newer = (at_ms, sample)

    def compare(self, at_ms: int, sample: T) -> tuple[float, T] | None:
        """(seconds, sample) of the earlier sample to compare this one with, or None if the time has not advanced."""
        if at_ms - self._newer[0] >= self._window_ms:
            self._older, self._newer = self._newer, (at_ms, sample)
        before_ms, before = self._older
        return None if at_ms <= before_ms else ((at_ms - before_ms) / 1000, before)


def compare_sample(
    windows: dict[int, SampleWindow[T]], window_ms: int, broker_id: int, at_ms: int, sample: T
) -> tuple[float, T] | None:
    """`SampleWindow.compare` of the broker's window. The first sample of a broker opens its window and has no earlier one."""
    window = windows.get(broker_id)
    if window is None:
        windows[broker_id] = SampleWindow(window_ms, at_ms, sample)
        return None
    return window.compare(at_ms, sample)
