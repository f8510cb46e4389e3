"""The load of a move on brokers and their producers, computed from the kinds of its partitions. Invariant: the cost depends on the number of
different placements of a move, not on the number of its partitions. A page reads the kinds once (`move_kinds`) and passes them to the other
functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.models import Broker, Move, MovePartition
from controlplane.models.move import PartState
from controlplane.selectors.move_totals import TotalsKind, kinds_of
from weir_common.phrases import with_phrase

ARRIVED = (PartState.DONE, PartState.REVERTED)
"""States of partitions that are at their target. A rejected partition has ended, too, but is not at its target."""


@dataclass(frozen=True, slots=True)
class MoveBrokerRow:
    """Bytes and replicas that a broker receives and sends, in the current direction of each partition. Bytes are divided evenly among a
    partition's new replicas; `bytes_in` None = the size of one is not known. `bytes_per_s` is the current receive rate."""

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


def move_kinds(move_id: int) -> list[TotalsKind]:
    return kinds_of(move_id)


def move_brokers(kinds: Sequence[TotalsKind]) -> list[MoveBrokerRow]:
    """Return the loads by broker id, only for brokers that receive or send replicas."""
    loads: dict[int, dict[str, float]] = {}
    unknown_bytes: set[tuple[int, str]] = set()

    def add(broker: int, **values: float) -> None:
        row = loads.setdefault(broker, {})
        for name, value in values.items():
            row[name] = row.get(name, 0) + value

    for kind in kinds:
        if kind.state == PartState.SKIPPED:
            continue
        old, new = kind.replicas_from, kind.replicas_to
        ended, total = kind.parts if kind.state in ARRIVED else 0, kind.bytes_total or 0
        if kind.desired_replicas == old:
            old, new = new, old
        receivers, senders = [b for b in new if b not in old], [b for b in old if b not in new]
        share = 1 / len(receivers) if receivers else 0.0
        for broker_id in receivers:
            add(
                broker_id,
                parts_in=kind.parts,
                ended_in=ended,
                bytes_in=total * share,
                done=(kind.bytes_done or 0) * share,
                speed=(kind.bytes_per_s or 0.0) * share,
            )
        for broker_id in senders:
            add(broker_id, parts_out=kind.parts, ended_out=ended, bytes_out=total * share)
        unknown = kind.known < kind.parts
        unknown_bytes |= {(b, "in") for b in receivers if unknown}
        # Without a copy there is no information about the size.
        unknown_bytes |= {(b, "out") for b in senders if unknown or not receivers}
    free = dict(Broker.objects.filter(broker_id__in=loads).values_list("broker_id", "free_bytes"))
    return [
        MoveBrokerRow(
            b,
            int(r.get("parts_in", 0)),
            int(r.get("ended_in", 0)),
            None if (b, "in") in unknown_bytes else round(r.get("bytes_in", 0)),
            round(r.get("done", 0)),
            r.get("speed", 0.0),
            int(r.get("parts_out", 0)),
            int(r.get("ended_out", 0)),
            None if (b, "out") in unknown_bytes else round(r.get("bytes_out", 0)),
            free.get(b),
        )
        for b, r in sorted(loads.items())
    ]


def move_causes(kinds: Sequence[TotalsKind]) -> list[tuple[str, int]]:
    """(cause, partitions) of those that do not finish automatically, the largest count first; rejected ones are `rejected`."""
    counts: Counter[str] = Counter()
    for k in kinds:
        if cause := k.cause or (PartState.REJECTED if k.state == PartState.REJECTED else ""):
            counts[cause] += k.parts
    return sorted(counts.items(), key=lambda c: (-c[1], c[0]))


@dataclass(frozen=True, slots=True)
class BlockedParts:
    """Partitions of a move that do not finish automatically for one cause. `note`: of the first of them, with the next step; "" without one."""

    cause: str
    parts: int
    topic: str
    partition: int
    note: str


def blocked_parts(move_id: int, kinds: Sequence[TotalsKind]) -> list[BlockedParts]:
    """The blocked partitions by cause, the largest count first. One query per cause."""
    blocked = []
    for cause, parts in move_causes(kinds):
        wanted = {"cause": "", "state": PartState.REJECTED} if cause == PartState.REJECTED else {"cause": cause}
        first = MovePartition.objects.filter(move_id=move_id, **wanted).order_by("topic_name", "partition").first()
        if first is None:  # it has ended since the kinds were read
            continue
        note = with_phrase(first.note, first.note_phrase)
        blocked.append(BlockedParts(cause, parts, first.topic_name, first.partition, note))
    return blocked


def part_counts(kinds: Sequence[TotalsKind]) -> dict[str, int]:
    """The number of partitions of a move in each state."""
    counts: Counter[str] = Counter()
    for k in kinds:
        counts[k.state] += k.parts
    return dict(counts)


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """`at` in Unix seconds; `p99_ms` None = no produce requests, or not all brokers answered."""

    at: float
    p99_ms: float | None


def producer_latency(move_id: int) -> list[LatencyRow]:
    """Latency of the produce requests at the slowest of the brokers that the move loads."""
    known = Move.objects.filter(pk=move_id).values_list("producer_latency", flat=True).first()
    return [LatencyRow(float(at), p99) for at, p99 in (known.rows if known is not None else ())]
