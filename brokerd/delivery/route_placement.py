"""The partition count of each target of a route, by source offset. Pure.

The partition of a routed record depends on its key and on the number of partitions of the target. If two leaders of the source partition used
different numbers for one record, it would be in the target twice. So a number applies from a source offset on that no leader has read, and is
committed with the position of the route before this offset is read. Invariants:
  - The number for an offset that was read never changes, unless the topic was created again with fewer partitions.
  - The numbers of a target grow with the offset.
Does not contain: which partition a key belongs to, requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any
from zlib import crc32

from brokerd.cluster.routes import BINDINGS_MAX

PARTITIONS_MAX = 1 << 31
LATER_MAX = 32
"""Maximum number of numbers that apply above the position, which are stored. A target that gets partitions while this many wait keeps its number until topics change again."""
COUNTS_LENGTH_MAX = 1_200
"""Characters of the stored numbers, so that position, problems and numbers stay below Kafka's offset.metadata.max.bytes. Longer ones are not stored."""


class PartitionCounts:
    def __init__(self) -> None:
        self._counts: dict[str, list[tuple[int, int]]] = {}
        """{target: [(first source offset, number of partitions)]}, ascending. The first number also applies below."""
        self.version = 0
        """Version of the partition counts. It increases with each change that must be committed."""

    def count(self, topic: str, offset: int) -> int:
        """The number of partitions for the record at this source offset."""
        counts = self._counts[topic]
        return next((n for first, n in reversed(counts) if first <= offset), counts[0][1])

    def adopt(self, topic: str, count: int, unread: int) -> None:
        """The target has `count` partitions. `unread`: the first source offset that no leader has read."""
        counts = self._counts.get(topic)
        if counts is None or count < counts[-1][1]:
            self._counts[topic] = [(0, count)]
        elif count > counts[-1][1]:
            read = [c for c in counts if c[0] < unread]
            if read and sum(len(c) - 1 for c in self._counts.values()) >= LATER_MAX:
                return
            self._counts[topic] = [*read, (unread, count)] if read else [(0, count)]
        else:
            return
        self.version += 1

    def retain(self, topics: Collection[str], position: int) -> None:
        """Remove other targets, and partition counts that apply only below `position`."""
        self._counts = {t: _counts_from(c, position) for t, c in self._counts.items() if t in topics}

    # -- stored form ------------------------------------------------------------------------------------------------------
    def to_json(self, topics: Sequence[str]) -> dict[str, object]:
        """JSON for the metadata of the committed position. `topics`: the targets of the route."""
        known = [self._counts.get(t) or [(0, 0)] for t in topics]
        runs = [(n, len(list(group))) for n, group in groupby(c[0][1] for c in known)]
        counts = ",".join(f"{n}*{times}" if times > 1 else str(n) for n, times in runs)
        later = [[i, first, n] for i, c in enumerate(known) for first, n in c[1:]]
        return {
            "targets": _checksum(topics),
            "counts": counts if len(counts) <= COUNTS_LENGTH_MAX else "",
            "later": later,
        }

    @classmethod
    def from_json(cls, stored: Any, topics: Sequence[str]) -> PartitionCounts | None:
        """Return None if nothing is known about these targets, for example because the definition has others now."""
        placement = cls()
        try:
            if stored["targets"] != _checksum(topics):
                return None
            counts = list(_expand_runs(stored["counts"].split(",")))
            if len(counts) != len(topics) or not all(0 <= n < PARTITIONS_MAX for n in counts):
                return None
            placement._counts = {t: [(0, n)] for t, n in zip(topics, counts, strict=True) if n}
            for index, first, n in stored["later"]:
                placement._counts[topics[index]].append((int(first), int(n)))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return None
        return placement


def _counts_from(counts: list[tuple[int, int]], position: int) -> list[tuple[int, int]]:
    used = sum(first <= position for first, _ in counts)
    return counts[max(0, used - 1) :]


def _checksum(topics: Sequence[str]) -> int:
    return crc32("/".join(topics).encode())


def _expand_runs(runs: Iterable[str]) -> Iterable[int]:
    for run in runs:
        number, _, times = run.partition("*")
        yield from [int(number)] * min(int(times or 1), BINDINGS_MAX)
