"""The comparison of topics and of group positions that `make mirror` relies on."""

from __future__ import annotations

import json

from tests.mirror.copies import (
    Continuation,
    Copy,
    compacted_difference,
    config_differences,
    continuation,
    difference,
    seeds,
    without_timestamps,
)


def copies(*ids: str, first: int = 0, step: int = 1) -> list[Copy]:
    return [Copy(first + n * step, i, (i, b"value"), i.encode()) for n, i in enumerate(ids)]


def test_offsets_may_differ_and_nothing_else() -> None:
    source = copies("a", "b", "c", first=10, step=2)
    assert difference(source, copies("a", "b", "c")) == ""
    assert difference(source, copies("a", "b")) == "1 of 3 records are missing, the first is c"
    assert difference(source, copies("a", "b", "c", "b")) == "1 duplicates, the first is b"
    assert difference(source, copies("a", "b", "c", "d")) == "1 records are not in the source, the first is d"
    assert difference(source, copies("a", "c", "b")) == "the order differs: c instead of b"
    changed = [*copies("a", "b"), Copy(2, "c", ("c", b"other"), b"c")]
    assert difference(source, changed).startswith("the content of c differs")


def test_a_compacted_topic_keeps_the_last_record_of_each_key() -> None:
    source = [Copy(0, "1", (b"k", b"old"), b"k"), Copy(1, "2", (b"k", b"new"), b"k")]
    assert compacted_difference(source, source[1:]) == ""
    assert compacted_difference(source, source[:1]).startswith("the last record of b'k' differs")
    assert compacted_difference(source, []) != ""


def test_a_deleted_tombstone_is_no_difference() -> None:
    tombstone = Copy(1, "2", (b"k", None), b"k")
    assert compacted_difference([Copy(0, "1", (b"k", b"old"), b"k"), tombstone], []) == ""
    assert compacted_difference([], [tombstone]) == ""
    assert compacted_difference([tombstone], [Copy(0, "1", (b"k", b"old"), b"k")]) != ""


def test_timestamps_are_left_out_of_a_comparison() -> None:
    one, other = [Copy(0, "a", (b"k", b"v", (), 5), b"k")], [Copy(0, "a", (b"k", b"v", (), 6), b"k")]
    assert difference(one, other) != ""
    assert difference(without_timestamps(one), without_timestamps(other)) == ""


def test_a_group_loses_records_after_its_position_and_repeats_those_before() -> None:
    source = copies("a", "b", "c", "d", first=100)
    target = copies("a", "b", "c", "d")
    assert continuation(source, 102, target, 2) == Continuation(0, 0)
    assert continuation(source, 102, target, 1) == Continuation(0, 1)
    assert continuation(source, 102, target, 3) == Continuation(1, 0)
    assert continuation(source, 104, target, 4) == Continuation(0, 0)


def test_seeds_are_the_keys_of_the_offsets_topic_and_skip_empty_partitions() -> None:
    found = seeds({("orders", 1): 7, ("orders", 0): 1, ("clicks", 0): 0}, "weir")
    assert found == [
        ('["MirrorSourceConnector",{"cluster":"weir","partition":0,"topic":"orders"}]', '{"offset":0}'),
        ('["MirrorSourceConnector",{"cluster":"weir","partition":1,"topic":"orders"}]', '{"offset":6}'),
    ]
    assert json.loads(found[1][0])[1]["partition"] == 1


def test_configs_that_a_mirror_does_not_copy_are_not_compared() -> None:
    source = {"retention.ms": "1", "message.timestamp.type": "LogAppendTime"}
    assert config_differences(source, {"retention.ms": "1", "min.insync.replicas": "2"}) == {}
    assert config_differences(source, {"segment.ms": "9"}) == {"retention.ms": ("1", None), "segment.ms": (None, "9")}
