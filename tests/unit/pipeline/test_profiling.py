"""Proposals from the values of a topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.profiling import CODECS, Profile, ProfileProposalKind, compressed_size, proposals

EVEN = Profile("t", {0: 50, 1: 50}, 10_000, 100, 0, [("a", 5)], 1_000, {"zstd": 900})


def proposal_kinds(p: Profile) -> list[ProfileProposalKind]:
    return [x.kind for x in proposals(p)]


def test_an_even_topic_and_an_empty_one_have_no_proposal() -> None:
    assert proposal_kinds(EVEN) == []
    assert proposal_kinds(replace(EVEN, records_by_partition={0: 0, 1: 0})) == []


def test_each_proposal_has_its_cause() -> None:
    assert proposal_kinds(replace(EVEN, top_keys=[("a", 20)])) == [ProfileProposalKind.HOT_KEY]
    assert proposal_kinds(replace(EVEN, records_by_partition={0: 90, 1: 5, 2: 5})) == [
        ProfileProposalKind.HOT_PARTITION
    ]
    assert proposal_kinds(replace(EVEN, compressed_bytes={"gzip": 800, "zstd": 700})) == [ProfileProposalKind.COMPRESS]
    assert proposal_kinds(replace(EVEN, largest_bytes=2_000_000)) == [ProfileProposalKind.LARGE_RECORDS]
    assert proposal_kinds(replace(EVEN, without_key=100)) == [ProfileProposalKind.NO_KEYS]


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_compresses(codec: str) -> None:
    assert 0 < compressed_size(codec, b"x" * 10_000) < 1_000
