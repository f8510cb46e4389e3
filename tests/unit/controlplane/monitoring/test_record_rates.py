"""Records per second of a topic: an average over seconds, without gaps."""

from __future__ import annotations

from controlplane.monitoring.record_rates import RATE_WINDOW_MS, RecordRates


def test_a_rate_is_an_average_over_the_window() -> None:
    rates = RecordRates()
    found = [rates.add("t", 100 * s if s < 20 else 2000 + 10 * (s - 20), s * 1000) for s in range(32)]
    assert (found[0], found[1], found[19]) == (None, 100.0, 100.0)
    assert found[20 + RATE_WINDOW_MS // 1000] == 10.0


def test_a_rate_begins_again_after_a_gap_after_lost_records_and_when_it_was_forgotten() -> None:
    rates = RecordRates()
    assert [rates.add("t", end, at_ms) for end, at_ms in ((0, 0), (100, 1000))] == [None, 100.0]
    assert [rates.add("t", end, at_ms) for end, at_ms in ((900, 1_801_000), (920, 1_802_000))] == [None, 20.0]
    assert [rates.add("t", end, at_ms) for end, at_ms in ((5, 1_803_000), (6, 1_804_000))] == [None, 1.0]
    rates.forget("t")
    assert rates.add("t", 7, 1_805_000) is None
