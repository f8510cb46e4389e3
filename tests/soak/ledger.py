"""What was acknowledged, read and copied, and what that comes to. Pure: values are `producer:number`, logs are lists of them.

Laws: what a group must have read is what was acknowledged; a value may be read twice (a commit that failed), but lie twice in a log never; of one producer
a partition holds rising numbers. Called by `__main__`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Found:
    """Of one log, read with read_committed."""

    lost: int
    doubled: int
    disordered: int

    @property
    def well(self) -> bool:
        return not (self.lost or self.doubled or self.disordered)


@dataclass(slots=True)
class Ledger:
    acked: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Value -> why its producer gave it up."""
    seen: dict[str, Counter[str]] = field(default_factory=dict)
    """Group -> how often it read each value."""

    def read(self, group: str, values: Iterable[str]) -> None:
        self.seen.setdefault(group, Counter()).update(values)

    def missing(self, group: str, wanted: Iterable[str] | None = None) -> set[str]:
        """What was acknowledged (of `wanted`) and not read yet."""
        return set(self.acked if wanted is None else wanted) - self.seen.get(group, Counter()).keys()

    def again(self, group: str) -> int:
        """Readings of what had been read: at least once is what a group promises."""
        return sum(n - 1 for n in self.seen.get(group, Counter()).values())

    def judged(self, partitions: Mapping[int, Sequence[str]], ordered: bool = True) -> Found:
        """A log against what was acknowledged. `ordered`: producers wrote it themselves, each its numbers in their order."""
        every = [value for values in partitions.values() for value in values]
        disordered = 0
        for values in partitions.values() if ordered else ():
            by: dict[str, list[int]] = {}
            for value in values:
                name, _, number = value.rpartition(":")
                by.setdefault(name, []).append(int(number))
            disordered += sum(a >= b for numbers in by.values() for a, b in pairwise(numbers))
        return Found(len(self.acked - set(every)), len(every) - len(set(every)), disordered)
