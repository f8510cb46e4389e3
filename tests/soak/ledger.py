"""The acknowledged, read and copied values, and their comparison. Pure: values are `producer:number`, logs are lists of them.

Invariants: a group must read every acknowledged value; a value may be read twice (after a failed commit) but is never in a log twice; the numbers of
one producer rise within a partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class LogResult:
    """The result for one log, read with read_committed."""

    lost: int
    doubled: int
    disordered: int

    @property
    def is_correct(self) -> bool:
        return not (self.lost or self.doubled or self.disordered)


@dataclass(slots=True)
class Ledger:
    acked: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """{value: why its producer gave it up}."""
    seen: dict[str, Counter[str]] = field(default_factory=dict)
    """{group: {value: number of reads}}."""

    def read(self, group: str, values: Iterable[str]) -> None:
        self.seen.setdefault(group, Counter()).update(values)

    def missing_values(self, group: str, wanted: Iterable[str] | None = None) -> set[str]:
        """Acknowledged values (of `wanted`) that were not read yet."""
        return set(self.acked if wanted is None else wanted) - self.seen.get(group, Counter()).keys()

    def repeated_count(self, group: str) -> int:
        """Number of repeated reads: a group guarantees at-least-once."""
        return sum(n - 1 for n in self.seen.get(group, Counter()).values())

    def check_log(self, partitions: Mapping[int, Sequence[str]], ordered: bool = True) -> LogResult:
        """Compares a log with the acknowledgements. `ordered`: producers wrote it directly, each its numbers in order."""
        every = [value for values in partitions.values() for value in values]
        disordered = 0
        for values in partitions.values() if ordered else ():
            by: dict[str, list[int]] = {}
            for value in values:
                name, _, number = value.rpartition(":")
                by.setdefault(name, []).append(int(number))
            disordered += sum(a >= b for numbers in by.values() for a, b in pairwise(numbers))
        return LogResult(len(self.acked - set(every)), len(every) - len(set(every)), disordered)
