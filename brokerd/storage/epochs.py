"""Which leader epoch wrote which offsets: the list that truncation asks (KIP-101, KIP-279).

Laws: epochs and their first offsets both grow; epochs come from the batch headers alone, so the list can always be rebuilt.
Kept in memory, written lazily (`leader-epoch-checkpoint`, Kafka's text format, and inside the log's snapshots): an fsync and a
rename per partition at each election would cost ten thousand partitions many seconds. Called by `log` and the doors.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise


class EpochCache:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        """(epoch, its first offset), growing."""
        self.log_end = 0

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        """Records of `epoch` begin at `offset`, unless the epoch (or a later one) is known already."""
        if epoch < 0 or (self.entries and epoch <= self.entries[-1][0]):
            return
        self.entries.append((epoch, offset))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch` and the offset where it ends.

        An epoch older than all that is known: itself and where the first known one begins, as Kafka answers (whoever asks
        holds nothing of this log beyond that). (-1, -1) when nothing is known. An epoch newer than all gives the newest and
        the log's end: a leader that has not yet written in its own epoch must still cut off a follower's foreign one.
        """
        if not self.entries or epoch < 0:
            return -1, -1
        if epoch < self.entries[0][0]:
            return epoch, self.entries[0][1]
        i = bisect_right(self.entries, (epoch, 1 << 63)) - 1
        end = self.entries[i + 1][1] if i + 1 < len(self.entries) else self.log_end
        return self.entries[i][0], end

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 when unknown."""
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
        """Forget what a list written before a truncation says of offsets beyond the log's end."""
        while self.entries and self.entries[-1][1] > end:
            self.entries.pop()

    def raise_start(self, start: int) -> None:
        """Forget what lies wholly below `start`; the epoch that covers it now begins there."""
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
        """The entries; ValueError when they cannot be true."""
        lines = text.splitlines()
        if len(lines) < 2 or lines[0] != "0" or int(lines[1]) != len(lines) - 2:
            raise ValueError("not an epoch checkpoint")
        entries = [(int(a), int(b)) for a, b in (line.split(" ") for line in lines[2:])]
        if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(entries)):
            raise ValueError("epochs or offsets do not grow")
        return entries
