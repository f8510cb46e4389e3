"""Copies of a partition are compared before the old ones of a move go: each broker is asked for the same range, and the bytes must be equal.

How: by Kafka's own Fetch, which followers answer too (KIP-392): of a move that copied everything one range of at most RANGE_BYTES at the end of what
is acknowledged; of a move without old data all that its new copies hold, from where they begin to what was acknowledged when it was first
asked, LOOK_BYTES per look. No API of our own, nothing that a broker has to read besides, and the same answer whatever program serves the copy; an
API that answers with a checksum would save these bytes and ask every broker to know it. Laws: no transaction is open while a broker is asked; no
answer is no verdict; rows change by compare-and-set. Called by the worker. Must not come in: when an old copy may go (`controlplane.moves`), what
equal means (`controlplane.copies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db.models import F

from brokerd.wire.records import batches
from controlplane import kafka
from controlplane.copies import Comparison, Copy, compared
from controlplane.models import Broker, MovePartition, Partition
from controlplane.moves import COMPARING

RANGE_BYTES = 1024 * 1024
"""Asked of each copy at a time: some milliseconds of one connection, however large the log."""

LOOK_BYTES = 8 * 1024 * 1024
"""Compared of each copy per look, where all of it is: the worker looks once a second, and what is read competes with consumers' reads."""

AT_A_TIME = 8
"""Partitions compared per look of the worker: each asks every copy once."""

READS_MAX = 8
"""Segments that the range may lie in on one copy; more would be a setting of segments smaller than anybody's."""

RECORD_BYTES_LEAST = 64
"""Where no size is known, as many records as would fill the range if they were this small are left out of sight."""

Addresses = Mapping[int, tuple[str, int]]


def due() -> list[int]:
    """Parts whose copies want to be compared."""
    rows = MovePartition.objects.filter(
        state="verifying", active=True, note__startswith=COMPARING, move__state__in=("running", "paused", "verifying")
    )  # fmt: skip
    return list(rows.order_by("id").values_list("pk", flat=True)[:AT_A_TIME])


def compare_part(part_id: int) -> str | None:
    """Ask every copy in the ISR and write down what was found; the sentence, None where there is nothing to compare (any more)."""
    part = MovePartition.objects.filter(pk=part_id, state="verifying").select_related("move").first()
    if part is None or (part.compared and part.compared["equal"] is not None):
        return None
    row = Partition.objects.filter(topic_id=part.topic_id, index=part.partition).select_related("topic").first()
    if row is None or row.leader is None or not set(part.replicas_to) <= set(row.isr):
        return None
    found = _found(row, part.compared, whole=part.move.mode == "tail")
    values: dict[str, Any] = {"note": found.text if found.equal is not None else f"{COMPARING} {found.text}"}
    if found.equal is not None or found.after:
        values["compared"] = {
            "equal": found.equal, "text": found.text, "first": found.first, "after": found.after, "upto": found.upto,
            "bytes": found.size, "crc": f"{found.crc:08x}",
        }  # fmt: skip
    rows = MovePartition.objects.filter(pk=part.pk, version=part.version).exclude(note=values["note"])
    rows.update(**values, version=F("version") + 1)
    return found.text


def _found(row: Partition, so_far: Mapping[str, Any] | None, *, whole: bool) -> Comparison:
    """`so_far` as the part's row has it; `whole`: all of the copies, not their end alone."""
    addresses = {b.broker_id: (b.host, b.port) for b in Broker.objects.filter(broker_id__in=row.isr)}
    assert row.leader is not None
    leader = row.leader
    if away := sorted({leader, *row.isr} - set(addresses)):
        return Comparison(None, f"The address of broker {away[0]} is not known.")
    try:
        first, end = kafka.bounds(*addresses[leader], row.topic.name, row.index)
    except (kafka.NoAnswer, kafka.Declined) as e:
        return Comparison(None, _why_not(leader, e))
    if "compact" in row.topic.configs.get("cleanup.policy", ""):
        return _ends(row, addresses, end)
    # Where old records lie apart, what all copies have begins there.
    first = max(first, row.archive_start or 0)
    if whole:
        return _whole(row, addresses, so_far, first, end)
    return _range(row, addresses, max(first, end - _records(row, end - first)), end)


def _whole(row: Partition, addresses: Addresses, so_far: Mapping[str, Any] | None, first: int, end: int) -> Comparison:
    """One look's share of [first, end), as both were when it began."""
    begun = Comparison(None, "", first, first, upto=end)
    if so_far:
        begun = Comparison(
            None, "", so_far["first"], max(so_far["after"], first), so_far["bytes"], int(so_far["crc"], 16), so_far["upto"]
        )  # fmt: skip
    now = begun
    while True:
        found = _range(row, addresses, now.after, now.upto, now.crc)
        if not found.equal:
            return replace(now, equal=found.equal, text=found.text)
        now = replace(now, after=found.after, size=now.size + found.size, crc=found.crc)
        if now.after >= now.upto:
            return replace(
                now, equal=True, text=f"Offsets {now.first} to {now.after} are equal on {len(addresses)} copies."
            )
        if now.size - begun.size >= LOOK_BYTES:
            return replace(
                now,
                text=f"Offsets {now.first} to {now.after} of {now.upto} are equal on {len(addresses)} copies so far.",
            )


def _range(row: Partition, addresses: Addresses, offset: int, end: int, crc: int = 0) -> Comparison:
    """What lies from `offset` on, about RANGE_BYTES of it. (Where retention has passed it meanwhile a broker refuses, and the next look begins higher.)"""
    assert row.leader is not None
    copies = _copies(row, addresses, offset)
    if isinstance(copies, str):
        return Comparison(None, copies)
    return compared(offset, end, row.leader, copies, crc)


def _ends(row: Partition, addresses: Addresses, end: int) -> Comparison:
    """Compaction rewrites each copy by itself: of those only what lies at the very end is the same everywhere."""
    copies = _copies(row, addresses, end)
    if isinstance(copies, str):
        return Comparison(None, copies)
    if behind := [b for b, c in copies.items() if c.high_watermark < end]:
        return Comparison(None, f"Broker {behind[0]} does not know of all that is acknowledged yet.")
    return Comparison(
        True, f"Compacted: the ends of {len(copies)} copies are equal, their bytes need not be.", end, end
    )


def _copies(row: Partition, addresses: Addresses, offset: int) -> dict[int, Copy] | str:
    """What each broker's copy holds from `offset` on, the others as much as the leader; or why that is not known."""
    assert row.leader is not None
    copies: dict[int, Copy] = {}
    for broker_id in (row.leader, *(b for b in addresses if b != row.leader)):
        size = len(copies[row.leader].data) if copies else 0
        try:
            copies[broker_id] = _read(addresses[broker_id], row.topic.name, row.index, offset, size)
        except (kafka.NoAnswer, kafka.Declined) as e:
            return _why_not(broker_id, e)
    return copies


def _why_not(broker_id: int, error: Exception) -> str:
    return f"Broker {broker_id} {'does not answer' if isinstance(error, kafka.NoAnswer) else 'refuses'}: {error}"


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
