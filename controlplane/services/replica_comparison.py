"""Comparison of the replicas of a partition before a move removes the old ones: each broker gets the
same Fetch request, and the bytes must be equal.

Uses Kafka's Fetch, which followers also answer (KIP-392). For a move that copied everything, the range is at most RANGE_BYTES below the high
watermark. For a move without old data, the range is everything in the new replicas, from their log start offset to the high watermark at the first
request, POLL_BYTES_MAX per poll. This needs no private API and no extra read path in the broker, and works with any program that serves the replica. An
API that returns a checksum would save these bytes, but every broker would have to support it.

Invariants: no transaction is open during a request to a broker. A missing response gives no result. Rows change by compare-and-set. Does not contain:
the condition to remove an old replica (`controlplane.domain.move_part`), the comparison of bytes (`controlplane.domain.compare`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.db.models import F

from brokerd.wire.records import batches
from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain import move_phrases as texts
from controlplane.domain.compare import ComparedReplica, Comparison, StoredComparison, compare_responses, equal_text
from controlplane.domain.move_states import MoveMode
from controlplane.models import Broker, MovePartition, ObservedPartition
from controlplane.models.move import MoveState, PartState
from weir_common.phrases import counted, phrase_to_json, sentence

RANGE_BYTES = 1024 * 1024
"""Bytes that are read from each replica at a time: some milliseconds of one connection, however large the log is."""

POLL_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of bytes that are compared per replica and poll, if the whole replica is compared. The worker polls once a second, and these reads compete
with consumers."""

PARTITIONS_PER_POLL = 8
"""Partitions compared per poll of the worker: each sends one request to every replica."""

READS_MAX = 8
"""Maximum number of segments of one replica that the range may span. More would need a segment size below any sensible setting."""

RECORD_BYTES_LEAST = 64
"""Assumed size of a record where no size is known: determines how many records fill the range. The earlier ones are not compared."""

Addresses = Mapping[int, tuple[str, int]]


def due_partitions() -> list[int]:
    """Partitions that need a comparison of their replicas."""
    rows = MovePartition.objects.filter(
        state=PartState.COMPARING,
        active=True,
        move__state__in=(MoveState.RUNNING, MoveState.PAUSED, MoveState.VERIFYING),
    )
    return list(rows.order_by("id").values_list("pk", flat=True)[:PARTITIONS_PER_POLL])


def compare_part(part_id: int) -> str | None:
    """Read from every replica in the ISR and store the result. Returns the sentence, None if there is nothing to compare."""
    part = MovePartition.objects.filter(pk=part_id, state=PartState.COMPARING).select_related("move").first()
    if part is None or (part.compared is not None and part.compared.equal is not None):
        return None
    row = ObservedPartition.objects.filter(topic_id=part.topic_id, index=part.partition).select_related("topic").first()
    if row is None or row.leader is None or not set(part.replicas_to) <= set(row.isr):
        return None
    found = _compare_step(row, part.compared, whole=part.move.mode == MoveMode.TAIL)
    values: dict[str, object] = {"note": found.text, "note_phrase": phrase_to_json(found.text)}
    if found.equal is not None or found.after:
        values["compared"] = found.to_stored()
    rows = MovePartition.objects.filter(pk=part.pk, version=part.version).exclude(note=values["note"])
    rows.update(**values, version=F("version") + 1)
    return found.text


def _compare_step(row: ObservedPartition, so_far: StoredComparison | None, *, whole: bool) -> Comparison:
    """`so_far` as stored in the row of the partition; `whole`: the whole replicas, not only their ends."""
    addresses = {b.broker_id: (b.host, b.port) for b in Broker.objects.filter(broker_id__in=row.isr)}
    assert row.leader is not None
    leader = row.leader
    if away := sorted({leader, *row.isr} - set(addresses)):
        return Comparison(None, sentence(texts.UNKNOWN_ADDRESS, broker=away[0]))
    try:
        first, end = kafka.bounds(*addresses[leader], row.topic.name, row.index)
    except (NoResponse, Declined) as e:
        return Comparison(None, _failure(leader, e))
    if "compact" in row.topic.configs.get("cleanup.policy", ""):
        return _ends(row, addresses, end)
    # Old records may be on other replicas. The data that all replicas have starts at this offset.
    first = max(first, row.archive_start or 0)
    if whole:
        return _compare_whole(row, addresses, so_far, first, end)
    return _range(row, addresses, max(first, end - _records(row, end - first)), end)


def _compare_whole(
    row: ObservedPartition, addresses: Addresses, so_far: StoredComparison | None, start_offset: int, end: int
) -> Comparison:
    """One poll's part of [first, end), with the bounds that were fixed at the start of the comparison."""
    begun = Comparison(None, "", start_offset, start_offset, upto=end)
    if so_far:
        begun = so_far.to_comparison()
        begun = replace(begun, after=max(begun.after, start_offset))
    now = begun
    while True:
        found = _range(row, addresses, now.after, now.upto, now.crc)
        if not found.equal:
            return replace(now, equal=found.equal, text=found.text)
        now = replace(now, after=found.after, size=now.size + found.size, crc=found.crc)
        if now.after >= now.upto:
            return replace(now, equal=True, text=equal_text(now.first, now.after, len(addresses)))
        if now.size - begun.size >= POLL_BYTES_MAX:
            return replace(
                now,
                text=counted(len(addresses), *texts.EQUAL_SO_FAR, first=now.first, after=now.after, end=now.upto),
            )


def _range(row: ObservedPartition, addresses: Addresses, offset: int, end: int, crc: int = 0) -> Comparison:
    """The range from `offset`, about RANGE_BYTES. (If retention has deleted it since, a broker rejects, and the next poll starts higher.)"""
    assert row.leader is not None
    responses = _responses(row, addresses, offset)
    if isinstance(responses, str):
        return Comparison(None, responses)
    return compare_responses(offset, end, row.leader, responses, crc)


def _ends(row: ObservedPartition, addresses: Addresses, end: int) -> Comparison:
    """Compaction rewrites each replica independently, so only the records at the very end are the same in all of them."""
    responses = _responses(row, addresses, end)
    if isinstance(responses, str):
        return Comparison(None, responses)
    if behind := [b for b, c in responses.items() if c.high_watermark < end]:
        return Comparison(None, sentence(texts.LOW_HIGH_WATERMARK, broker=behind[0]))
    return Comparison(True, counted(len(responses), *texts.COMPACTED_EQUAL), end, end)


def _responses(row: ObservedPartition, addresses: Addresses, offset: int) -> dict[int, ComparedReplica] | str:
    """The records of each broker's replica from `offset`, of the same size as the leader's; or why they are not known."""
    assert row.leader is not None
    responses: dict[int, ComparedReplica] = {}
    for broker_id in (row.leader, *(b for b in addresses if b != row.leader)):
        size = len(responses[row.leader].data) if responses else 0
        try:
            responses[broker_id] = _read_replica(addresses[broker_id], row.topic.name, row.index, offset, size)
        except (NoResponse, Declined) as e:
            return _failure(broker_id, e)
    return responses


def _failure(broker_id: int, error: Exception) -> str:
    text = texts.NO_RESPONSE if isinstance(error, NoResponse) else texts.REJECTS
    return sentence(text, broker=broker_id, error=error)


def _read_replica(address: tuple[str, int], topic: str, index: int, offset: int, size: int) -> ComparedReplica:
    """`size` bytes from `offset`. A broker answers from one segment at a time, and the segment boundaries differ between replicas."""
    copy = kafka.read_replica(*address, topic, index, offset, RANGE_BYTES)
    for _ in range(READS_MAX):
        after = max((h.next_offset for _, h in batches(copy.data)), default=offset)
        if len(copy.data) >= size or after == offset:
            break
        more = kafka.read_replica(*address, topic, index, after, RANGE_BYTES)
        if not more.data:
            break
        copy = ComparedReplica(more.start, more.high_watermark, copy.data + more.data)
    return copy


def _records(row: ObservedPartition, count: int) -> int:
    """About as many records as fill the range."""
    if not row.size_bytes or count <= 0:
        return RANGE_BYTES // RECORD_BYTES_LEAST
    return max(1, count * RANGE_BYTES // (2 * row.size_bytes))
