"""Parts of stored plans, read chunk by chunk, and the current placements to compare them with."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.db.bulk import read_many
from controlplane.models import ObservedPartition, PlanChunk

CHUNK = 500
"""Parts per row: a page of a hundred reads one or two; 100,000 partitions are 200 rows."""

Part = tuple[str, str, int, list[int], list[int], int, int | None]
"""topic id, topic, partition, replicas from, replicas to, assignment generation, bytes to copy"""


def parts_of(plan_id: int, first: int = 0, count: int | None = None) -> Iterator[Part]:
    """Parts in order of topic and partition, read chunk by chunk."""
    chunks = PlanChunk.objects.filter(plan_id=plan_id, number__gte=first // CHUNK)
    if count is not None:
        chunks = chunks.filter(number__lte=(first + max(count, 1) - 1) // CHUNK)
    skip, left = first % CHUNK, count
    for parts in chunks.values_list("parts", flat=True).iterator(chunk_size=8):
        for part in parts[skip:]:
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield tuple(part)
        skip = 0


def placements_now() -> dict[tuple[str, int], tuple[list[int], int]]:
    """Return replicas and assignment generation by (topic id, partition)."""
    columns = ("topic_id", "index", "replicas", "assignment_generation")
    return {(str(t), i): (list(r), g) for t, i, r, g in read_many(ObservedPartition.objects.order_by(), columns)}
