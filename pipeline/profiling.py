"""Profile of a topic from a sample of its records: skew of partitions and keys, sizes, gain of compression, and proposals. Pure, but for the compression
itself.

A proposal is a value with the metric that leads to it. Thresholds are constants here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import cramjam

HOT_PARTITION = 2.0
"""A partition with this many times the average of records is hot."""

HOT_KEY = 0.2
"""Part of all records with a key."""

GAIN = 0.25
"""Part of the bytes that a codec must save."""

LARGE_RECORD_BYTES = 1_000_000

CODECS = ("gzip", "lz4", "snappy", "zstd")


class ProfileProposalKind(StrEnum):
    HOT_KEY = "hot_key"
    HOT_PARTITION = "hot_partition"
    COMPRESS = "compress"
    LARGE_RECORDS = "large_records"
    NO_KEYS = "no_keys"


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of one topic. `records_by_partition`, `compressed_bytes` by codec (of `sampled_bytes`), `top_keys`: (key, records)."""

    topic: str
    records_by_partition: Mapping[int, int]
    bytes_total: int
    largest_bytes: int
    without_key: int
    top_keys: Sequence[tuple[str, int]]
    sampled_bytes: int
    compressed_bytes: Mapping[str, int]

    @property
    def records(self) -> int:
        return sum(self.records_by_partition.values())


@dataclass(frozen=True, slots=True)
class ProfileProposal:
    kind: ProfileProposalKind
    text: str


def proposals(profile: Profile) -> list[ProfileProposal]:
    """Proposed changes, the most important first. Empty for a topic without records."""
    out: list[ProfileProposal] = []
    if not profile.records:
        return out
    if (
        profile.top_keys
        and profile.top_keys[0][1] >= HOT_KEY * profile.records
        and len(profile.records_by_partition) > 1
    ):
        key, count = profile.top_keys[0]
        out.append(
            ProfileProposal(
                ProfileProposalKind.HOT_KEY,
                f"Key {key!r} has {count / profile.records:.0%} of the records, all in one partition. Add a suffix to this key, or use a key with more values.",
            )
        )
    average = profile.records / len(profile.records_by_partition)
    partition, most = max(profile.records_by_partition.items(), key=lambda item: item[1])
    if most >= HOT_PARTITION * average and len(profile.records_by_partition) > 1:
        out.append(
            ProfileProposal(
                ProfileProposalKind.HOT_PARTITION,
                f"Partition {partition} has {most / average:.1f} times the average of records. One consumer cannot share its work.",
            )
        )
    if profile.sampled_bytes and profile.compressed_bytes:
        codec, size = min(profile.compressed_bytes.items(), key=lambda item: item[1])
        if size <= (1 - GAIN) * profile.sampled_bytes:
            out.append(
                ProfileProposal(
                    ProfileProposalKind.COMPRESS,
                    f"{codec} reduces batches to {size / profile.sampled_bytes:.0%} of their bytes. "
                    f"Set compression.type={codec} in producers, if they do not compress.",
                )
            )
    if profile.largest_bytes >= LARGE_RECORD_BYTES:
        out.append(
            ProfileProposal(
                ProfileProposalKind.LARGE_RECORDS,
                f"The largest record has {profile.largest_bytes:,} bytes. Store large values elsewhere and send a reference.",
            )
        )
    if profile.without_key == profile.records and len(profile.records_by_partition) > 1:
        out.append(
            ProfileProposal(
                ProfileProposalKind.NO_KEYS,
                "No record has a key. The order of related records is not kept across partitions.",
            )
        )
    return out


def compressed_size(codec: str, data: bytes) -> int:
    """Bytes of `data` after this codec of Kafka."""
    functions: dict[str, Any] = {
        "gzip": cramjam.gzip.compress,
        "lz4": cramjam.lz4.compress,
        "snappy": cramjam.snappy.compress_raw,
        "zstd": cramjam.zstd.compress,
    }
    return len(functions[codec](data))
