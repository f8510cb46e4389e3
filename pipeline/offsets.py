"""Arithmetic on offsets by topic and partition. Pure: no client, no Spark.

`Offsets` is the JSON that Spark stores in a checkpoint: {"flights": {"0": 17}}. Spark's own `kafka` source writes the same, so a checkpoint
can be used with either source. Invariant: an offset never goes backwards.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Offsets = dict[str, dict[str, int]]

EARLIEST, LATEST = -2, -1
"""Kafka's special values, allowed in startingOffsets and endingOffsets."""


class Range(NamedTuple):
    """Offsets [first, next) of one partition."""

    topic: str
    partition: int
    first: int
    next: int


class Lost(RuntimeError):
    """Requested records no longer exist."""


def each(offsets: Offsets) -> Iterator[tuple[str, int, int]]:
    for topic in sorted(offsets):
        for partition in sorted(offsets[topic], key=int):
            yield topic, int(partition), offsets[topic][partition]


def put(offsets: Offsets, topic: str, partition: int, offset: int) -> None:
    offsets.setdefault(topic, {})[str(partition)] = offset


def offset_of(offsets: Offsets, topic: str, partition: int) -> int | None:
    return offsets.get(topic, {}).get(str(partition))


def parse(text: str) -> Offsets:
    """Parse the JSON of an offsets option, for example {"topic": {"0": 23, "1": -2}}. Raises ValueError with the reason."""
    try:
        found = json.loads(text)
        return {str(t): {str(int(p)): int(o) for p, o in ps.items()} for t, ps in found.items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise ValueError(
            f'offsets must be "earliest", "latest" or JSON like {{"topic": {{"0": 23}}}}, not {text!r} ({e})'
        ) from e


def read_end(start: Offsets, latest: Offsets, *, fail_on_loss: bool) -> Offsets:
    """The end of a read from `start`: `latest`, never below `start`. Raises Lost if a partition was deleted or is shorter."""
    out: Offsets = {}
    for topic, partition, offset in each(latest):
        first = offset_of(start, topic, partition)
        if first is not None and offset < first:
            if fail_on_loss:
                raise Lost(
                    f"{topic}-{partition} ends at {offset} and was read up to {first}: the topic was created again or truncated"
                )
            offset = first
        put(out, topic, partition, offset)
    for topic, partition, offset in each(start):
        if offset_of(out, topic, partition) is None:
            if fail_on_loss:
                raise Lost(f"{topic}-{partition} was read up to {offset} and no longer exists")
            put(out, topic, partition, offset)
    return out


def limit_end(start: Offsets, end: Offsets, earliest: Offsets, records_max: int) -> Offsets:
    """`end` reduced to about `records_max` offsets after the start, each partition in proportion to its backlog (at least one)."""
    waiting = {(t, p): o - _first_offset(start, earliest, t, p) for t, p, o in each(end)}
    total = sum(waiting.values())
    if total <= records_max:
        return end
    out: Offsets = {}
    for topic, partition, offset in each(end):
        mine = waiting[topic, partition]
        share = max(1, mine * records_max // total) if mine > 0 else 0
        put(out, topic, partition, min(offset, _first_offset(start, earliest, topic, partition) + share))
    return out


def _first_offset(start: Offsets, earliest: Offsets, topic: str, partition: int) -> int:
    first = offset_of(start, topic, partition)
    # A partition that appeared after the start is read from its first record.
    return first if first is not None else (offset_of(earliest, topic, partition) or 0)


def ranges(start: Offsets, end: Offsets, earliest: Offsets) -> list[Range]:
    """The non-empty ranges between start and end."""
    out = []
    for topic, partition, offset in each(end):
        first = _first_offset(start, earliest, topic, partition)
        if offset > first:
            out.append(Range(topic, partition, first, offset))
    return out


def split(planned: Sequence[Range], least: int) -> list[Range]:
    """The ranges in about `least` parts, as Spark's `minPartitions`: each range in proportion to its length. Unchanged if there are enough."""
    total = sum(r.next - r.first for r in planned)
    if len(planned) >= least:
        return list(planned)
    out = []
    for r in planned:
        length = r.next - r.first
        parts = min(length, max(1, round(least * length / total)))
        cuts = [r.first + length * n // parts for n in range(parts + 1)]
        out += [Range(r.topic, r.partition, first, until) for first, until in itertools.pairwise(cuts)]
    return out
