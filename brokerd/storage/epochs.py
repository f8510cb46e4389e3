"""The leader epoch cache: start offsets of leader epochs, for truncation (KIP-101, KIP-279).

Epochs and start offsets increase. Epochs come from batch headers only, so the cache can always be rebuilt. It is kept in memory and written lazily
(`leader-epoch-checkpoint` in Kafka's text format, and the snapshots of the log). With ten thousand partitions, an fsync and a rename per partition at each
election would take many seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise


class EpochCache:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        """(epoch, start offset), ascending."""
        self.log_end = 0

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        """Set the start offset of `epoch`, unless this or a later epoch is known."""
        if epoch < 0 or (self.entries and epoch <= self.entries[-1][0]):
            return
        self.entries.append((epoch, offset))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch` and its end offset.

        For an epoch older than all known ones: that epoch and the start offset of the first known one, as in Kafka. The requester has no valid
        records of this log above it. (-1, -1) if no epoch is known. For an epoch newer than all known ones: the newest epoch and the log end
        offset, because a leader without records in its own epoch must still truncate records of another epoch on a follower.
        """
        if not self.entries or epoch < 0:
            return -1, -1
        if epoch < self.entries[0][0]:
            return epoch, self.entries[0][1]
        i = bisect_right(self.entries, (epoch, 1 << 63)) - 1
        end = self.entries[i + 1][1] if i + 1 < len(self.entries) else self.log_end
        return self.entries[i][0], end

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of `offset`, -1 if unknown."""
        latest = -1
        for epoch, start in self.entries:
            if start > offset:
                break
            latest = epoch
        return latest

    def truncate(self, end: int) -> None:
        while self.entries and self.entries[-1][1] >= end:
            self.entries.pop()
        self.log_end = end

    def drop_above(self, end: int) -> None:
        """Remove entries above the log end offset. A checkpoint that was written before a truncation can have such entries."""
        while self.entries and self.entries[-1][1] > end:
            self.entries.pop()

    def raise_start(self, start: int) -> None:
        """Remove epochs that end at or below `start`. The epoch that contains `start` now starts there."""
        while len(self.entries) > 1 and self.entries[1][1] <= start:
            self.entries.pop(0)
        if self.entries and self.entries[0][1] < start:
            self.entries[0] = (self.entries[0][0], start)

    def clear(self, end: int) -> None:
        self.entries.clear()
        self.log_end = end

    def to_text(self) -> str:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in self.entries)
        return f"0\n{len(self.entries)}\n{lines}"

    @staticmethod
    def from_text(text: str) -> list[tuple[int, int]]:
        """The entries. Raises ValueError for an invalid checkpoint."""
        lines = text.splitlines()
        if len(lines) < 2 or lines[0] != "0" or int(lines[1]) != len(lines) - 2:
            raise ValueError("not an epoch checkpoint")
        entries = [(int(a), int(b)) for a, b in (line.split(" ") for line in lines[2:])]
        if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(entries)):
            raise ValueError("epochs or offsets do not increase")
        return entries
