"""Arithmetic on offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.offsets import Lost, Offsets, Range, each, limit_end, offset_of, parse, ranges, read_end, split

some_offsets = st.dictionaries(
    st.sampled_from(["flights", "orders"]),
    st.dictionaries(st.sampled_from(["0", "1", "10"]), st.integers(0, 10_000), min_size=1),
)


@given(start=some_offsets, grown=some_offsets, records_max=st.integers(1, 5000))
def test_a_limited_end_lies_between_start_and_end_and_always_moves(
    start: Offsets, grown: Offsets, records_max: int
) -> None:
    end: Offsets = {t: dict(ps) for t, ps in start.items()}
    for topic, partition, more in each(grown):
        end.setdefault(topic, {})[str(partition)] = (offset_of(start, topic, partition) or 0) + more
    drawn = limit_end(start, end, {}, records_max)
    for topic, partition, offset in each(end):
        assert (offset_of(start, topic, partition) or 0) <= (offset_of(drawn, topic, partition) or 0) <= offset
    waiting = sum(r.next - r.first for r in ranges(start, end, {}))
    taken = sum(r.next - r.first for r in ranges(start, drawn, {}))
    partitions = len(list(each(end)))
    assert taken <= records_max + partitions
    assert taken > 0 or waiting == 0


def test_a_partition_that_was_added_is_read_from_its_first_record() -> None:
    found = ranges({"flights": {"0": 5}}, {"flights": {"0": 7, "1": 9}}, {"flights": {"1": 3}})
    assert [tuple(r) for r in found] == [("flights", 0, 5, 7), ("flights", 1, 3, 9)]


def test_a_shorter_topic_is_a_data_loss_and_is_not_read_from_its_start() -> None:
    start, latest = {"flights": {"0": 100}}, {"flights": {"0": 40}}
    with pytest.raises(Lost, match="flights-0 ends at 40 and was read up to 100"):
        read_end(start, latest, fail_on_loss=True)
    assert read_end(start, latest, fail_on_loss=False) == start


def test_a_deleted_topic_is_a_data_loss() -> None:
    with pytest.raises(Lost, match="no longer exists"):
        read_end({"flights": {"0": 1}}, {}, fail_on_loss=True)


@pytest.mark.parametrize("text", ["soonest", "{", '{"flights": 3}', '{"flights": {"zero": 1}}'])
def test_malformed_offsets_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match='"earliest", "latest" or JSON like'):
        parse(text)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.integers(0, 40))
def test_split_ranges_have_the_same_offsets(lengths: list[int], least: int) -> None:
    planned = [Range("t", p, 7, 7 + length) for p, length in enumerate(lengths)]
    found = split(planned, least)
    assert [(r.partition, o) for r in found for o in range(r.first, r.next)] == [
        (r.partition, o) for r in planned for o in range(r.first, r.next)
    ]
    assert all(r.first < r.next for r in found)
    if len(planned) >= least:
        assert found == planned
    else:
        assert len(found) <= least + len(planned)


def test_a_long_range_gets_most_parts() -> None:
    assert split([Range("t", 0, 0, 90), Range("t", 1, 0, 10)], 10) == [
        *[Range("t", 0, n, n + 10) for n in range(0, 90, 10)],
        Range("t", 1, 0, 10),
    ]
