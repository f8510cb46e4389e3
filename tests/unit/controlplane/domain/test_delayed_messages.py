"""The histogram of pending delayed messages, and the pages of several partitions as one list."""

from __future__ import annotations

import random

import pytest

from brokerd.delivery.delay_schedule import BUCKET_MS
from controlplane.domain import delayed_messages as d
from controlplane.domain.errors import Rejected

NOW = 1_790_000_000_123


def test_bounds_ascend_and_are_whole_steps() -> None:
    bounds = d.histogram_bounds(NOW)
    assert bounds == sorted(set(bounds)) and len(bounds) == len(d.SPANS) + 1
    assert bounds[0] == 1_790_000_000_000 and bounds[1] == bounds[0] + 60_000
    assert all(b % BUCKET_MS == 0 for b in bounds[2:]) and bounds[2] >= NOW + 600_000


def test_counts_of_partitions_are_added() -> None:
    bounds = [10, 20, 30, 40, 50, 60, 70, 80]
    bars = d.histogram(bounds, [[1, 0, 0, 0, 0, 0, 0, 0, 1000], [2, 1, 0, 0, 0, 0, 0, 0, 0]])
    assert [b.records for b in bars] == [3, 1, 0, 0, 0, 0, 0, 0, 1000]
    assert [b.percent for b in bars] == [1, 1, 0, 0, 0, 0, 0, 0, 100]
    assert (bars[0].label, bars[0].from_ms, bars[0].to_ms) == (d.OVERDUE, None, 10)
    assert (bars[-1].label, bars[-1].from_ms, bars[-1].to_ms, bars[-1].until) == (d.LATER, 80, None, None)
    assert [b.records for b in d.histogram(bounds, [])] == [0] * 9


@pytest.mark.parametrize("seed", range(30))
def test_pages_have_every_row_once_and_in_order(seed: int) -> None:
    """Leaders answer with at most `limit` rows, or stop earlier because their time is over."""
    rng = random.Random(seed)
    rows = sorted((rng.randrange(20), p, o) for p in range(3) for o in range(rng.randrange(25)))
    limit, token, found = rng.randrange(1, 8), "", []
    for _ in range(500):
        place = d.place_of(token)
        records, following = [], {}
        for p in range(3):
            after = d.continue_after(place, p)
            own = [(at, o) for at, of, o in rows if of == p and (at, o) > after][: rng.randrange(1, limit + 1)]
            records += [(at, p, o) for at, o in own]
            if own:
                following[p] = own[-1]
        shown, following_place = d.page(records, following, limit)
        assert len(shown) <= limit
        found += shown
        token = d.token_of(following_place)
        if not token:
            break
    assert found == rows


@pytest.mark.parametrize("token", ["1", "1.2", "1.2.x", "1.2.3.4", "-1.2.3", "1.2." + "9" * 20, "9" * 19 + ".0.0"])
def test_a_foreign_token_is_rejected(token: str) -> None:
    with pytest.raises(Rejected, match="token"):
        d.place_of(token)
