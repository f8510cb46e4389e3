"""Sentences about the bytes that a roll-back copies."""

from __future__ import annotations

from console.move_reviews import roll_back_lines
from controlplane.selectors.move_returns import CopiesBack


def lines(copies: CopiesBack, throttle: int | None) -> str:
    return " ".join(roll_back_lines({"done": 2, "copying": 1}, copies, throttle))


def test_a_roll_back_names_the_time_that_its_throttle_costs() -> None:
    found = lines(CopiesBack(150_000_000, 100_000_000, 0), 5_000)
    assert (
        "150 MB to copy. The throttle of 5.0 kB/s per broker also applies to the roll-back: at least 5 h 33 min."
        in found
    )
    assert "2 finished partitions" in found and "1 active partition: reverted" in found


def test_without_a_throttle_or_bytes_no_time_is_named() -> None:
    assert "100 MB to copy, without a throttle." in lines(CopiesBack(100_000_000, 100_000_000, 0), None)
    assert "to copy" not in lines(CopiesBack(0, 0, 0), 5_000)
    assert "The size of 2 partitions is unknown." in lines(CopiesBack(0, 0, 2), 5_000)
