"""The merge of updates into the stored state of a share partition, against a model with one entry per record."""

from __future__ import annotations

import itertools
import random

import pytest

from brokerd.coordinator.share_state.state import (
    NO_START,
    ShareState,
    StateBatch,
    StateUpdate,
    apply_update,
    merge_batches,
)


def test_the_last_write_decides_and_neighbours_are_joined() -> None:
    old = (StateBatch(0, 9, 0, 1), StateBatch(20, 29, 2, 1))
    assert merge_batches(old, [StateBatch(5, 24, 0, 1)], 0) == (StateBatch(0, 24, 0, 1), StateBatch(25, 29, 2, 1))
    assert merge_batches(old, [StateBatch(3, 4, 4, 5)], 2) == (
        StateBatch(2, 2, 0, 1),
        StateBatch(3, 4, 4, 5),
        StateBatch(5, 9, 0, 1),
        StateBatch(20, 29, 2, 1),
    )
    assert merge_batches(old, [], 30) == ()


def test_a_late_write_does_not_move_the_start_offset_back() -> None:
    state = apply_update(ShareState(3, 1, 50), StateUpdate(2, 40, (StateBatch(40, 60, 0, 1),), 7), 99)
    assert (state.start, state.leader_epoch, state.batches, state.complete_count) == (
        50,
        2,
        (StateBatch(50, 60, 0, 1),),
        7,
    )
    assert apply_update(state, StateUpdate(2, NO_START, ()), 100).start == 50
    assert apply_update(ShareState(), StateUpdate(0, 10, ()), 1).start == 10


@pytest.mark.parametrize("seed", range(30))
def test_merges_agree_with_a_model(seed: int) -> None:
    r = random.Random(seed)
    known: dict[int, tuple[int, int]] = {}
    batches: tuple[StateBatch, ...] = ()
    start = 0
    for _ in range(60):
        first = r.randrange(start, start + 50)
        new = StateBatch(first, first + r.randrange(10), r.choice((0, 2, 4)), r.randrange(1, 4))
        start += r.choice((0, 0, 3))
        batches = merge_batches(batches, [new], start)
        known.update(dict.fromkeys(range(new.first, new.last + 1), (new.state, new.deliveries)))
        known = {o: x for o, x in known.items() if o >= start}
        assert {o: (b.state, b.deliveries) for b in batches for o in range(b.first, b.last + 1)} == known
        assert all(a.last < b.first for a, b in itertools.pairwise(batches))
