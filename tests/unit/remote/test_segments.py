"""Values of the remote log metadata and their bytes."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.remote.segments import (
    Forgotten,
    LeaderClaim,
    LogStart,
    MalformedMetadata,
    MetadataChange,
    SegmentState,
    decode,
    key_of,
    metadata_partition,
    value_of,
)
from tests.unit.remote.test_remote_log import TP, segment

S = SegmentState


@pytest.mark.parametrize(
    "change",
    [
        segment(S.COPY_FINISHED),
        replace(segment(S.COPY_FINISHED), key_index_bytes=900, key_index_seed=7),
        LeaderClaim(TP, 4, 2),
        LogStart(TP, 4, 99),
        Forgotten(TP, "segment:a"),
    ],
)
def test_a_change_is_the_same_after_it_was_stored(change: MetadataChange) -> None:
    assert decode(key_of(change), value_of(change)) == change


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b"{}"), (b"x:0:start", b"{}"), (f"{UUID(int=7)}:0:start".encode(), b"[]"), (b"\xff", None)],
)
def test_a_malformed_record_is_reported(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMetadata):
        decode(key, value)


def test_a_partition_has_always_the_same_metadata_partition() -> None:
    assert metadata_partition(TP, 8) == metadata_partition(TopicPartition(UUID(int=7), 3), 8)
    assert {metadata_partition(TopicPartition(UUID(int=7), p), 8) for p in range(8)} == set(range(8))
