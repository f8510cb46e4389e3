"""A front partition's log and its target partitions in memory, for tests of `DelayedFront` and `HalfFront`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.delivery.front_log import FrontTarget, journal_key
from brokerd.delivery.front_partition import FrontPartition
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record

START_MS = 1_790_000_000_000


class Bench:
    """`FrontLog` in memory. Every append is replicated at once, unless `replicated` is set."""

    def __init__(self) -> None:
        self.now = Now(1_000, START_MS)
        self.batches: list[bytes] = []
        self._next_offsets: list[int] = []
        """The offset after each batch, ascending."""
        self.start_offset = self.end_offset = 0
        self.replicated: int | None = None
        self.stable: int | None = None
        self.settled = self.writable = True
        self.cold = False
        self.batch_bytes_max = 100_000
        self.aborts: list[tuple[int, int, int]] = []
        self.sent: list[tuple[FrontTarget, bytes, Callable[[ErrorCode, Now], None]]] = []
        self.targets: dict[FrontTarget, list[Record]] = {t: [] for t in FrontTarget}
        self.sequences: set[tuple[FrontTarget, int]] = set()

    @property
    def high_watermark(self) -> int:
        return self.end_offset if self.replicated is None else self.replicated

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        if self.cold:
            return None
        first = bisect_right(self._next_offsets, offset)
        found = b""
        for batch in self.batches[first : bisect_right(self._next_offsets, upto)]:
            if found and len(found) + len(batch) > bytes_max:
                break
            found += batch
        return found

    def aborted(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        return self.aborts

    def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
        entries = [Record(i, self.now.wall_ms, journal_key(target), v) for i, v in enumerate(values)]
        self.append(records.build(entries, base_offset=self.end_offset, control=True))
        return self.end_offset

    def delete_below(self, offset: int) -> None:
        self.start_offset = offset

    def send(self, target: FrontTarget, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        self.sent.append((target, batch, done))

    # -- for the tests -----------------------------------------------------------------------------------------------
    def append(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.end_offset = records.peek(batch).next_offset
        self._next_offsets.append(self.end_offset)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        target, batch, done = self.sent.pop(0)
        sequence = records.peek(batch).base_sequence
        if not error and (target, sequence) not in self.sequences:
            if sequence >= 0:
                self.sequences.add((target, sequence))
            self.targets[target] += records.iterate(batch)
        done(error, self.now)

    def pass_ms(self, front: FrontPartition, ms: int, *, answers: bool = True) -> None:
        for _ in range(max(1, ms // 100)):
            self.now = Now(self.now.mono_ms + min(ms, 100), self.now.wall_ms + min(ms, 100))
            front.tick(self.now)
            while answers and self.sent:
                self.answer()

    @property
    def values(self) -> list[str]:
        return self.values_of(FrontTarget.TOPIC)

    @property
    def target(self) -> list[Record]:
        return self.targets[FrontTarget.TOPIC]

    def values_of(self, target: FrontTarget) -> list[str]:
        return [(r.value or b"").decode() for r in self.targets[target]]
