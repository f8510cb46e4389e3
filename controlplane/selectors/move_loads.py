"""What a move does to brokers and to their producers, out of the kinds of its partitions. Law: costs the kinds of placement that a move has, not its
partitions one by one; a page reads them once (`move_kinds`) and gives them to each of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.models import Broker, Move
from controlplane.services.sums import Kind, kinds_of

ARRIVED = ("done", "put_back")
"""Of parts that are where they shall be: one that was refused has ended, too, and is not."""


@dataclass(frozen=True, slots=True)
class MoveBrokerRow:
    """What comes to a broker and what it is rid of, in the direction in which each partition goes now. Bytes are shared evenly among a partition's new
    copies; `bytes_in` None = the size of one is not known. `bytes_per_s` is what it receives now."""

    broker_id: int
    parts_in: int
    parts_in_ended: int
    bytes_in: int | None
    bytes_in_done: int
    bytes_per_s: float
    parts_out: int
    parts_out_ended: int
    bytes_out: int | None
    free_bytes: int | None


def move_kinds(move_id: int) -> list[Kind]:
    return kinds_of(move_id)


def move_brokers(kinds: Sequence[Kind]) -> list[MoveBrokerRow]:
    """By number; only brokers to or from which something goes."""
    came: dict[int, dict[str, float]] = {}
    blind: set[tuple[int, str]] = set()

    def add(broker: int, **values: float) -> None:
        row = came.setdefault(broker, {})
        for name, value in values.items():
            row[name] = row.get(name, 0) + value

    for k in kinds:
        if k.state == "untouched":
            continue
        old, new = k.replicas_from, k.replicas_to
        ended, total = k.parts if k.state in ARRIVED else 0, k.bytes_total or 0
        if k.wanted == old:
            old, new = new, old
        comes, goes = [b for b in new if b not in old], [b for b in old if b not in new]
        each = 1 / len(comes) if comes else 0.0
        for b in comes:
            add(b, parts_in=k.parts, ended_in=ended, bytes_in=total * each, done=(k.bytes_done or 0) * each,
                speed=(k.bytes_per_s or 0.0) * each)  # fmt: skip
        for b in goes:
            add(b, parts_out=k.parts, ended_out=ended, bytes_out=total * each)
        unknown = k.known < k.parts
        blind |= {(b, "in") for b in comes if unknown}
        # Where nothing is copied, nothing says how large it is.
        blind |= {(b, "out") for b in goes if unknown or not comes}
    free = dict(Broker.objects.filter(broker_id__in=came).values_list("broker_id", "free_bytes"))
    return [
        MoveBrokerRow(
            b, int(r.get("parts_in", 0)), int(r.get("ended_in", 0)),
            None if (b, "in") in blind else round(r.get("bytes_in", 0)), round(r.get("done", 0)), r.get("speed", 0.0),
            int(r.get("parts_out", 0)), int(r.get("ended_out", 0)),
            None if (b, "out") in blind else round(r.get("bytes_out", 0)), free.get(b),
        )
        for b, r in sorted(came.items())
    ]  # fmt: skip


def move_causes(kinds: Sequence[Kind]) -> list[tuple[str, int]]:
    """(cause, partitions) of those that do not come to an end by themselves, the most first; refused ones are `stuck`."""
    counts: Counter[str] = Counter()
    for k in kinds:
        if cause := k.cause or ("stuck" if k.state == "stuck" else ""):
            counts[cause] += k.parts
    return sorted(counts.items(), key=lambda c: (-c[1], c[0]))


def part_counts(kinds: Sequence[Kind]) -> dict[str, int]:
    """How many of a move's partitions are in each state."""
    counts: Counter[str] = Counter()
    for k in kinds:
        counts[k.state] += k.parts
    return dict(counts)


@dataclass(frozen=True, slots=True)
class WaitRow:
    """`at` in Unix seconds; `p99_ms` None = nobody produced, or not all brokers told."""

    at: float
    p99_ms: float | None


def move_waits(move_id: int) -> list[WaitRow]:
    """Of the produce requests at the worst of the brokers that it burdens."""
    rows = (Move.objects.filter(pk=move_id).values_list("waits", flat=True).first() or {}).get("rows", [])
    return [WaitRow(float(at), p99) for at, p99 in rows]
