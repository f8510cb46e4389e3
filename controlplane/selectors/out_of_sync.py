"""Why a copy is not in the ISR, in the order in which a person would ask: its broker, its directory, its leader, and what the leader counts.

Law: what is not known is said to be not known. The leader's word on how far a copy is counts above the copy's own, which knows only what it was told last.
Called by `partitions`, for the copies of a page that are out of sync and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.models import Broker, Partition, ReplicaFinding
from controlplane.words import some

UNTOLD = -1
"""In place of an offset (`Partition.lagging`)."""


@dataclass(frozen=True, slots=True)
class Known:
    """Of a page's partitions. `disks`: what brokers tell of copies that their directories do not give out, by (topic, partition, broker)."""

    brokers: Mapping[int, Broker]
    disks: Mapping[tuple[str, int, int], str]


def known(found: Sequence[Partition]) -> Known:
    """Two queries, none where everything is in sync and no records lie apart."""
    if all(len(p.isr) >= len(p.replicas) and not p.holders for p in found):
        return Known({}, {})
    findings = ReplicaFinding.objects.filter(
        ended_at__isnull=True, kind="disk", topic_id__in={p.topic_id for p in found if len(p.isr) < len(p.replicas)}
    )
    return Known(
        {b.broker_id: b for b in Broker.objects.all()},
        {(f.topic_name, f.partition, f.broker_id): f.detail for f in findings},
    )


def why(p: Partition, broker_id: int, size_bytes: int | None, known: Known) -> str:
    broker = known.brokers.get(broker_id)
    if broker is None:
        return "Its broker is not known to the cluster."
    if not broker.alive:
        return "Its broker is down."
    if (detail := known.disks.get((p.topic.name, p.index, broker_id))) is not None:
        return f"Its directory has failed: {detail}."
    if p.leader is None:
        return "The partition has no leader that it could follow."
    lacks = _lacks(p, broker_id)
    if broker_id in p.adding:
        return f"It is being copied there by a move. {lacks}"
    if lacks and broker.answered and size_bytes is None:
        return f"Its broker tells of no copy of this partition. {lacks}"
    return lacks or "Its leader has not told yet how far it is."


def _lacks(p: Partition, broker_id: int) -> str:
    """By what the leader counts; "" where it has not told."""
    told = p.lagging.get(str(broker_id))
    if told is None:
        return ""
    end, start = told
    if end == UNTOLD:
        return f"It has asked nothing of broker {p.leader} since that leads: see its log, and the way between the two."
    behind = max(0, (p.end_offset or 0) - end)
    if behind:
        return f"It lacks {some(behind, 'record')}: see whether that falls. If not, its disk, its network or a throttle is too slow, or it does not fetch at all."
    if start != UNTOLD:
        return (
            f"It lacks nothing new, but its log starts at {start:,}, above its leader's at {p.start_offset or 0:,}. It comes in once retention has passed there; "
            "else its leader has it begin anew, some minutes after it saw that."
        )
    return "It lacks nothing: it comes in with its next fetches. If it does not, it has stopped fetching; see its log."
