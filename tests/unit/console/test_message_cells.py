"""Cells and marks of the values of messages."""

from __future__ import annotations

from console.message_cells import cells, marks


def test_a_known_metric_is_a_number_and_an_unknown_one_is_marked() -> None:
    found = cells({"name": "t", "half_undecided": 2, "half_oldest_s": 75.0, "dead_letters": 3})
    assert found["undecided"] == "2" and "1 min" in found["oldest"] and "3" in found["dead"]
    assert found["pending"] == found["overdue"] != "0"


def test_an_overdue_delivery_beyond_its_threshold_has_a_tone() -> None:
    late, on_time = (cells({"name": "t", "delayed_overdue_s": 75.0, "delayed_late": late}) for late in (True, False))
    assert "t-amber" in late["overdue"] and "t-amber" not in on_time["overdue"] and "1 min" in on_time["overdue"]


def test_lists_are_reloaded_when_their_metrics_change() -> None:
    shape = {"name": "t", "half_undecided": 2, "half_checks": 4, "delayed_pending": 1, "delayed_next_at": "x"}
    assert marks(shape) == {("half-messages:t", ""): (2, 4), ("delayed-messages:t", ""): (1, "x")}
