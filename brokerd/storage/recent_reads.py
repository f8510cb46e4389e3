"""Positions at which recent reads of a segment ended. Pure.

A consumer that continues a sequential read needs no index search. Consumers that read the same records do not read the batch headers either: they share the
result of the first consumer. Batches below the end of a read never change; the owner clears this when it truncates or replaces the segment. Does not contain:
files, indexes.
"""

from __future__ import annotations

ENTRIES_MAX = 64
"""Maximum number of reads of one segment that are remembered, for consumers at different positions."""


class RecentReads:
    __slots__ = ("_ends", "_positions")

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}
        """{base offset of a batch at which a read ended: its position}, oldest first."""
        self._ends: dict[tuple[int, int, bool], tuple[int, int]] = {}
        """{(start position, maximum bytes, at least one batch): (base offset and position of the batch at which the read ended)}, oldest first. Only of
        reads that the maximum of bytes has ended."""

    def position_of(self, base_offset: int) -> int | None:
        """The position of the batch with this base offset."""
        return self._positions.get(base_offset)

    def end_of(self, start: int, bytes_max: int, upto_offset: int, at_least_one: bool) -> int | None:
        """The end position of such a read of batches below `upto_offset`."""
        found = self._ends.get((start, bytes_max, at_least_one))
        return found[1] if found is not None and found[0] <= upto_offset else None

    def on_read_ended(self, base_offset: int, position: int) -> None:
        """A read ended at the batch with this base offset and position."""
        positions = self._positions
        positions[base_offset] = position
        if len(positions) > ENTRIES_MAX:
            del positions[next(iter(positions))]

    def on_read_filled(self, start: int, bytes_max: int, at_least_one: bool, base_offset: int, position: int) -> None:
        """A read of at most `bytes_max` bytes from `start` ended at this batch because of its size."""
        ends = self._ends
        ends[start, bytes_max, at_least_one] = base_offset, position
        if len(ends) > ENTRIES_MAX:
            del ends[next(iter(ends))]

    def clear(self) -> None:
        self._positions.clear()
        self._ends.clear()
