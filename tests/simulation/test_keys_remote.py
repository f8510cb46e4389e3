"""A fixed sample of worlds of look-ups by key with tiered storage. Also: such worlds fail when a rule of the search in the remote store is removed.
`make simulate WORLD=keys-remote` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.apis import key_lookups
from brokerd.apis.key_lookups import KeyLookupServer
from brokerd.remote.key_lookups import RemoteKeySearch, RemoteSegmentSearch
from brokerd.storage.key_search import SegmentSearch
from brokerd.wire.messages.key_lookups import LookupStop
from tests.simulation.detection import expect_detection
from tests.simulation.keys_remote import live
from tests.simulation.run import Outcome, run
from tests.simulation.test_keys import the_last_entry_is_left_out

SEEDS = (2, 4)
SEEDS_MAX = 10


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live)


@pytest.mark.parametrize("seed", SEEDS)
def test_lookups_by_key_find_what_only_the_remote_store_has(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_finds_records_in_the_remote_store() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in ("look-up with matches in the remote store", "remote keys: NONE", "remote copy: NONE"):
        assert reached[state] >= len(SEEDS), f"{state}: {reached[state]}"


def only_the_local_log_is_searched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyLookupServer, "_is_remote_below", staticmethod(lambda replica, lookup: False))


def a_missing_response_counts_as_no_match(patch: pytest.MonkeyPatch) -> None:
    add = key_lookups._add_remote
    patch.setattr(key_lookups, "_add_remote", lambda lookup, a: LookupStop.LOG_START if a is None else add(lookup, a))


def an_index_of_another_header_is_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteKeySearch, "_usable_seed", lambda self, s: s.key_index_seed if s.key_index_bytes else None)


def a_segment_is_searched_once(patch: pytest.MonkeyPatch) -> None:
    """The rest of a segment is skipped when a limit was reached in it."""
    run_ = RemoteSegmentSearch.run

    def mutated_run(self: RemoteSegmentSearch) -> None:
        run_(self)
        self.below = self.view.base_offset

    patch.setattr(RemoteSegmentSearch, "run", mutated_run)


def the_search_begins_at_the_end_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RemoteSegmentSearch, "_limit", lambda self, segment: self.view.size)
    batch = SegmentSearch._batch

    def mutated_batch(self: SegmentSearch, data: bytes, pos: int, header: Any) -> None:
        below, self.below = self.below, self.view.end_offset
        batch(self, data, pos, header)
        self.below = below

    patch.setattr(RemoteSegmentSearch, "_batch", mutated_batch)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (only_the_local_log_is_searched, 1),
        (a_missing_response_counts_as_no_match, 11),
        (an_index_of_another_header_is_used, 2),
        (a_segment_is_searched_once, 3),
        (the_search_begins_at_the_end_of_a_segment, 1),
        (the_last_entry_is_left_out, 1),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_removed_rule_is_detected(mutation: Any, first: int) -> None:
    expect_detection(mutation, run_seed, first, SEEDS_MAX)
