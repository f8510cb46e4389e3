"""Which leader epoch wrote which offsets: the list that truncation asks (KIP-101, KIP-279).

Law: epochs and start offsets both grow. Kept in memory, rebuilt from the batch headers at recovery.
"""

from __future__ import annotations

from bisect import bisect_right


class EpochCache:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        """(epoch, its first offset), growing."""
        self.log_end = 0

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        """Records of `epoch` begin at `offset`, unless the epoch is known already."""
        if epoch < 0 or (self.entries and epoch <= self.entries[-1][0]):
            return
        self.entries.append((epoch, offset))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch` and the offset where it ends; (-1, -1) when there is none (KIP-279)."""
        if not self.entries or epoch < self.entries[0][0]:
            return -1, -1
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

    def raise_start(self, start: int) -> None:
        """Forget what lies wholly below `start`; the epoch that covers it now begins there."""
        while len(self.entries) > 1 and self.entries[1][1] <= start:
            self.entries.pop(0)
        if self.entries and self.entries[0][1] < start:
            self.entries[0] = (self.entries[0][0], start)

    def clear(self, end: int) -> None:
        self.entries.clear()
        self.log_end = end
