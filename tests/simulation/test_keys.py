"""A fixed sample of worlds of look-ups by key. Also: such worlds fail when a rule of the index is removed from the product.
`make simulate WORLD=keys` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.apis import key_lookups
from brokerd.apis.key_lookups import KeyLookupServer
from brokerd.maintenance.key_indexing import KeyIndexing
from brokerd.replication.partition import Partition
from brokerd.storage import key_index
from brokerd.storage.appended_keys import AppendedKeys, CollectedRange
from brokerd.storage.key_hashes import HashedKeys, PlainBatches
from brokerd.storage.key_index import ENTRY_BYTES, InvalidKeyIndex, KeyIndexBuilder, KeyIndexPart
from brokerd.storage.key_search import KeyCriteria, SegmentSearch
from brokerd.storage.segment import Segment
from tests.simulation.detection import expect_detection
from tests.simulation.keys import live
from tests.simulation.run import Outcome, run

SEEDS = (5, 14, 17, 20)
SEEDS_MAX = 20
INDEX_ERROR_SEED = 101
"""The write of an index file fails with an I/O error."""


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", [*SEEDS, INDEX_ERROR_SEED])
def test_lookups_by_key_find_what_a_scan_finds(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_searches_with_indexes_and_removes_them() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "look-up with an index and matches",
        "look-up that scanned closed segments",
        "look-up to be continued",
        "look-up with a part of an index and matches",
        "look-up in runs of a part",
        "part of a key index removed",
        "entries collected by appends",
        "key index removed",
        "truncation by epoch",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached[state]}"


def the_last_entry_is_left_out(patch: pytest.MonkeyPatch) -> None:
    run_ = KeyIndexBuilder.run

    def mutated_run(self: KeyIndexBuilder, log_end: int) -> tuple[bytes, int]:
        del self._entries[-1:]
        return run_(self, log_end)

    patch.setattr(KeyIndexBuilder, "run", mutated_run)


def _every_index_belongs_to_its_segment(patch: pytest.MonkeyPatch) -> None:
    """Two rules protect from an index of an earlier content: its removal, and the identity of the segment in its header. Either alone suffices in
    these worlds, so a mutation removes both."""

    def of_any_segment(read: Any, size: int, log: Any, seed: int) -> Any:
        _, built_with, runs = key_index.parse(read, size)
        if built_with != seed:
            raise InvalidKeyIndex("of another header")
        return runs

    patch.setattr(key_index, "_runs", of_any_segment)


def an_index_of_another_header_is_used(patch: pytest.MonkeyPatch) -> None:
    runs = key_index._runs
    patch.setattr(
        key_index, "_runs", lambda read, size, log, seed: runs(read, size, log, key_index.parse(read, size)[1])
    )


def a_truncated_segment_keeps_its_index(patch: pytest.MonkeyPatch) -> None:
    _every_index_belongs_to_its_segment(patch)
    truncate = Segment.truncate

    def without_removal(self: Segment, offset: int) -> None:
        with pytest.MonkeyPatch.context() as during:
            during.setattr(Segment, "remove_key_index", lambda segment: None)
            truncate(self, offset)

    patch.setattr(Segment, "truncate", without_removal)


def the_last_entry_of_a_part_is_left_out(patch: pytest.MonkeyPatch) -> None:
    part = KeyIndexBuilder.part

    def mutated_part(self: KeyIndexBuilder, seed: int, log_end: int, end_offset: int) -> KeyIndexPart:
        built = part(self, seed, log_end, end_offset)
        last = [entries[:-ENTRY_BYTES] for entries in built.tail[-1:]]
        return KeyIndexPart(seed, built.runs, (*built.tail[:-1], *last), log_end, end_offset)

    patch.setattr(KeyIndexBuilder, "part", mutated_part)


def a_truncated_segment_keeps_the_part_of_its_index(patch: pytest.MonkeyPatch) -> None:
    """The build, too, compares the number of truncations, and discards the part some time later. So a mutation removes both rules."""
    truncate = Segment.truncate

    def with_part(self: Segment, offset: int) -> None:
        part = self.key_index_part
        truncate(self, offset)
        self.key_index_part = part

    patch.setattr(Segment, "truncate", with_part)
    patch.setattr(KeyIndexing, "_is_current", lambda self, c: c.segment in c.replica.log.segments)


def the_last_collected_entry_is_left_out(patch: pytest.MonkeyPatch) -> None:
    take = AppendedKeys.take

    def mutated_take(self: AppendedKeys, position: int) -> CollectedRange | None:
        taken = take(self, position)
        return taken and taken._replace(entries=taken.entries[:-1])

    patch.setattr(AppendedKeys, "take", mutated_take)


def a_truncated_segment_keeps_the_entries_of_its_appends(patch: pytest.MonkeyPatch) -> None:
    """The build, too, compares the number of truncations, and discards the entries some time later. So a mutation removes both rules."""
    truncate, discard = Segment.truncate, KeyIndexing._discard

    def with_entries(self: Segment, offset: int) -> None:
        appended = self.appended_keys
        truncate(self, offset)
        self.appended_keys = appended

    def mutated_discard(self: KeyIndexing, c: Any) -> None:
        appended = c.segment.appended_keys
        discard(self, c)
        c.segment.appended_keys = appended

    patch.setattr(Segment, "truncate", with_entries)
    patch.setattr(KeyIndexing, "_discard", mutated_discard)


def a_batch_after_a_gap_is_collected(patch: pytest.MonkeyPatch) -> None:
    appended = AppendedKeys.on_appended

    def at_any_position(self: AppendedKeys, data: Any, position: int) -> None:
        self._end = position
        appended(self, data, position)

    patch.setattr(AppendedKeys, "on_appended", at_any_position)


def a_hash_counts_as_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyCriteria, "matches", lambda self, record, header: record.offset >= self.start_offset)


def the_search_continues_above_what_it_found(patch: pytest.MonkeyPatch) -> None:
    search = SegmentSearch._full

    def mutated_full(self: SegmentSearch) -> bool:
        done = search(self)
        if done and self.matches:
            self.below = self.matches[-1].offset - 1
        return done

    patch.setattr(SegmentSearch, "_full", mutated_full)


def deleted_records_stay_in_the_response(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_lookups.KeyLookupProgress, "remove_deleted", lambda self, offset: None)


def only_the_first_key_of_a_batch_is_indexed(patch: pytest.MonkeyPatch) -> None:
    hashes = HashedKeys.of_batch
    patch.setattr(HashedKeys, "of_batch", lambda self, *batch: set(sorted(hashes(self, *batch))[:1]))
    patch.setattr(PlainBatches, "collect", lambda self, data, at, position: at)


def uncommitted_records_are_found(patch: pytest.MonkeyPatch) -> None:
    begin = KeyLookupServer._begin

    def mutated_begin(self: KeyLookupServer, replica: Any, q: Any, *, committed: bool) -> Any:
        lookup = begin(self, replica, q, committed=committed)
        lookup.below = replica.log.end_offset
        return lookup

    patch.setattr(KeyLookupServer, "_begin", mutated_begin)


def a_new_leader_answers_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "serves_latest", True)


def an_io_error_of_an_index_file_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyIndexing, "_report_io_error", lambda self, segment, error: None)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (the_last_entry_is_left_out, 1),
        (an_index_of_another_header_is_used, 29),
        (a_truncated_segment_keeps_its_index, 108),
        (the_last_entry_of_a_part_is_left_out, 1),
        (a_truncated_segment_keeps_the_part_of_its_index, 63),
        (the_last_collected_entry_is_left_out, 1),
        (a_truncated_segment_keeps_the_entries_of_its_appends, 18),
        (a_batch_after_a_gap_is_collected, 1),
        (a_hash_counts_as_the_key, 1),
        (the_search_continues_above_what_it_found, 1),
        (deleted_records_stay_in_the_response, 10),
        (only_the_first_key_of_a_batch_is_indexed, 1),
        (uncommitted_records_are_found, 1),
        (a_new_leader_answers_at_once, 1),
        (an_io_error_of_an_index_file_is_ignored, INDEX_ERROR_SEED),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
