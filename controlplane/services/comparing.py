"""Copies of a partition are compared before the old ones of a move go: each broker is asked for the same range, and the bytes must be equal.

How: by Kafka's own Fetch, which followers answer too (KIP-392), one range of at most RANGE_BYTES at the end of what is acknowledged. No API of our
own, nothing that a broker has to read besides, and the same answer whatever program serves the copy; an API that answers with a checksum would
save these bytes and ask every broker to know it. Laws: no transaction is open while a broker is asked; no answer is no verdict; rows change by
compare-and-set. Called by the worker. Must not come in: when an old copy may go (`controlplane.moves`), what equal means (`controlplane.copies`).
"""

from __future__ import annotations

from typing import Any

from django.db.models import F

from brokerd.wire.records import batches
from controlplane import kafka
from controlplane.copies import Comparison, Copy, compared
from controlplane.models import Broker, MovePartition, Partition
from controlplane.moves import COMPARING

RANGE_BYTES = 1024 * 1024
"""Compared of each copy, at the end of what is acknowledged: some milliseconds of one connection, however large the log."""

AT_A_TIME = 8
"""Partitions compared per look of the worker: each asks every copy once."""

READS_MAX = 8
"""Segments that the range may lie in on one copy; more would be a setting of segments smaller than anybody's."""

RECORD_BYTES_LEAST = 64
"""Where no size is known, as many records as would fill the range if they were this small are left out of sight."""


def due() -> list[int]:
    """Parts whose copies want to be compared."""
    rows = MovePartition.objects.filter(
        state="verifying", active=True, compared__isnull=True, note__startswith=COMPARING, move__state__in=("running", "paused", "verifying")
    )  # fmt: skip
    return list(rows.order_by("id").values_list("pk", flat=True)[:AT_A_TIME])


def compare_part(part_id: int) -> str | None:
    """Ask every copy and write down what was found; the sentence, None where there is nothing to compare (any more)."""
    part = MovePartition.objects.filter(pk=part_id, state="verifying", compared__isnull=True).first()
    if part is None:
        return None
    row = Partition.objects.filter(topic_id=part.topic_id, index=part.partition).select_related("topic").first()
    if row is None or row.leader is None or set(row.isr) != set(part.wanted):
        return None
    found = _found(row)
    rows = MovePartition.objects.filter(pk=part.pk, version=part.version, compared__isnull=True)
    if found.equal is None:
        rows.exclude(note=f"{COMPARING} {found.text}").update(note=f"{COMPARING} {found.text}")
        return found.text
    told: dict[str, Any] = {
        "equal": found.equal, "text": found.text, "first": found.first, "after": found.after, "bytes": found.size,
        "crc": f"{found.crc:08x}",
    }  # fmt: skip
    rows.update(compared=told, version=F("version") + 1)
    return found.text


def _found(row: Partition) -> Comparison:
    addresses = {b.broker_id: (b.host, b.port) for b in Broker.objects.filter(broker_id__in=row.isr)}
    assert row.leader is not None
    topic, leader = row.topic.name, row.leader
    if away := sorted(set(row.isr) - set(addresses)):
        return Comparison(None, f"The address of broker {away[0]} is not known.")
    asked = leader
    try:
        first, end = kafka.bounds(*addresses[leader], topic, row.index)
        compacted = "compact" in row.topic.configs.get("cleanup.policy", "")
        # Compaction rewrites each copy by itself: of those only what lies at the very end is the same everywhere.
        offset = end if compacted else max(first, end - _records(row, end - first))
        copies = {leader: kafka.read_copy(*addresses[leader], topic, row.index, offset, RANGE_BYTES)}
        for asked in [b for b in row.isr if b != leader]:
            copies[asked] = _read(addresses[asked], topic, row.index, offset, len(copies[leader].data))
    except kafka.NoAnswer as e:
        return Comparison(None, f"Broker {asked} does not answer: {e}")
    except kafka.Declined as e:
        return Comparison(None, f"Broker {asked} refuses: {e}")
    if compacted and (behind := [b for b, c in copies.items() if c.high_watermark < end]):
        return Comparison(None, f"Broker {behind[0]} does not know of all that is acknowledged yet.")
    if compacted:
        return Comparison(
            True, f"Compacted: the ends of {len(copies)} copies are equal, their bytes need not be.", end, end
        )
    return compared(offset, end, leader, copies)


def _read(address: tuple[str, int], topic: str, index: int, offset: int, size: int) -> Copy:
    """`size` bytes from `offset` on: a broker answers out of one segment at a time, and each copy's segments begin where they will."""
    copy = kafka.read_copy(*address, topic, index, offset, RANGE_BYTES)
    for _ in range(READS_MAX):
        after = max((h.next_offset for _, h in batches(copy.data)), default=offset)
        if len(copy.data) >= size or after == offset:
            break
        more = kafka.read_copy(*address, topic, index, after, RANGE_BYTES)
        if not more.data:
            break
        copy = Copy(more.start, more.high_watermark, copy.data + more.data)
    return copy


def _records(row: Partition, count: int) -> int:
    """About as many records as fill the range."""
    if not row.size_bytes or count <= 0:
        return RANGE_BYTES // RECORD_BYTES_LEAST
    return max(1, count * RANGE_BYTES // (2 * row.size_bytes))
