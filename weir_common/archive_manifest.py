"""A line of an archive job's manifest.jsonl. The pipeline writes it and the control plane reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One batch contains the offsets [first_offset, next_offset) of one partition as `rows` rows. There are fewer rows than offsets if the range
    contains compacted records, transaction markers or aborted records."""

    batch: int
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    rows: int
