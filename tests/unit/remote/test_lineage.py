"""Which remote segments continue a leader's log."""

from __future__ import annotations

from brokerd.remote.lineage import chain_of
from brokerd.remote.segments import RemoteSegment, SegmentState
from brokerd.storage.epochs import EpochCache
from tests.unit.remote.test_remote_log import TP


def finished_segment(start: int, end: int, *epochs: tuple[int, int], own_id: str = "") -> RemoteSegment:
    state = SegmentState.COPY_FINISHED
    return RemoteSegment(TP, own_id or f"{start}", state, 1, start, end, end - start, 0, 0, epochs or ((1, start),))


def local(log_end: int, *epochs: tuple[int, int]) -> EpochCache:
    cache = EpochCache()
    cache.entries, cache.log_end = list(epochs), log_end
    return cache


def test_neighbours_and_overlaps_are_one_chain() -> None:
    cache = local(40, (1, 15))
    chain = chain_of(
        [finished_segment(10, 20), finished_segment(0, 10), finished_segment(15, 30)], cache.end_offset_for
    )
    assert [s.start_offset for s in chain.segments] == [0, 10, 15] and (chain.start, chain.end) == (0, 30)
    assert [s.start_offset for s in chain.from_offset(12)] == [10, 15]
    assert chain.from_offset(30) == () and chain.size_bytes == 35


def test_a_gap_begins_the_chain_again() -> None:
    chain = chain_of([finished_segment(0, 10), finished_segment(20, 30)], local(40, (1, 25)).end_offset_for)
    assert (chain.start, chain.end) == (20, 30)


def test_a_segment_inside_another_is_not_in_the_chain() -> None:
    chain = chain_of([finished_segment(0, 30), finished_segment(10, 20)], local(40, (1, 0)).end_offset_for)
    assert len(chain.segments) == 1


def test_records_that_the_leader_never_had_are_not_in_the_chain() -> None:
    """An unclean leader election: the new leader's epoch 3 starts at 15, the remote segment of epoch 2 reaches 30."""
    segments = [finished_segment(0, 10, (1, 0)), finished_segment(10, 30, (1, 10), (2, 12))]
    assert chain_of(segments, local(40, (1, 5), (2, 12)).end_offset_for).end == 30
    assert chain_of(segments, local(40, (1, 5), (2, 12), (3, 15)).end_offset_for).end == 10
    assert chain_of(segments, local(40, (1, 5), (3, 15)).end_offset_for).end == 10
    assert chain_of(segments, local(15, (1, 5), (2, 12)).end_offset_for).end == 10


def test_segments_below_the_local_log_belong_to_it() -> None:
    """The local log knows only the epochs from its start on."""
    segments = [finished_segment(0, 10, (1, 0)), finished_segment(10, 20, (2, 10))]
    assert chain_of(segments, local(40, (2, 20), (4, 30)).end_offset_for).end == 20
    assert chain_of(segments, local(20).end_offset_for).end == 20  # an empty local log contradicts nothing


def test_unfinished_segments_are_not_in_the_chain() -> None:
    started = finished_segment(0, 10).with_state(SegmentState.COPY_STARTED, 1)
    assert chain_of([started], local(40, (1, 0)).end_offset_for).segments == ()


def test_epochs_of_both_tiers() -> None:
    chain = chain_of(
        [finished_segment(0, 10, (1, 0)), finished_segment(10, 20, (1, 10), (2, 12))], local(40, (2, 20)).end_offset_for
    )
    assert chain.epochs([(2, 20), (5, 30)]) == [(1, 0), (2, 12), (5, 30)]
