"""The state, the progress and the ETA of a move on a page."""

from __future__ import annotations

from console import move_cells
from controlplane.domain.wait_reason import Wait, WaitReason
from controlplane.selectors.move_loads import BlockedParts


def test_a_move_that_cannot_finish_shows_the_rate_that_it_needs() -> None:
    assert "needs 2.0 MB/s" in move_cells.eta((1, 2), 2_000_000)
    assert move_cells.eta((60.0, 120.0)).count("–") == 1
    assert "The move is paused." in move_cells.ends("paused", (), None, None)
    assert "waits for a controller" in move_cells.ends(
        "running", [Wait(WaitReason.CONTROLLER, 1)], None, None, in_words=True
    )


def test_a_bar_after_a_roll_back_is_empty() -> None:
    assert move_cells.move_bar("rolled_back", None) == ""
    assert "bar-red" in move_cells.move_bar("failed", 40.0) and "bar-blue" in move_cells.move_bar("running", 40.0)


def test_the_status_of_a_move_that_will_not_finish_says_so() -> None:
    assert "will not finish" in move_cells.move_status("running", (), 2_000_000)
    assert "will not finish" not in move_cells.move_status("running", (), None)


def test_the_note_about_blocked_partitions_has_the_tone_of_the_worst_cause() -> None:
    throttled, down = (BlockedParts(cause, 1, "orders", 0, "") for cause in ("throttle", "target_down"))
    assert move_cells.blocked_tone([throttled]) == "amber"
    assert move_cells.blocked_tone([throttled, down]) == "red"
    assert move_cells.blocked_tone([BlockedParts("rejected", 1, "orders", 0, "")]) == "red"
