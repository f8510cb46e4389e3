"""A fixed sample of worlds of a share group that keeps the order of each key. Also: such worlds fail when a rule of that order is removed from the product.
`make simulate WORLD=share-order` runs as many as you like."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from brokerd.sharing.hash_slots import HashSlots
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.records import batches
from tests.simulation.detection import expect_detection
from tests.simulation.run import Outcome, run
from tests.simulation.shares import live_with_key_order

SEEDS = (1, 2)
SEEDS_MAX = 6


@cache
def run_seed(seed: int) -> Outcome:
    return run(seed, life=live_with_key_order)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_share_group_keeps_the_order_of_each_key(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
    assert outcome.acks > 100, "too few acknowledgements: the run shows nothing"


def test_the_sample_reaches_waiting_keys_and_changes_of_the_leader() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += run_seed(seed).reached
    for state in (
        "delivery while records of other keys wait",
        "confirmed: release",
        "lock ended by its time-out",
        "lock ended with the session",
        "record archived after its last delivery",
        "share partition loaded with records in flight",
    ):
        assert reached[state] >= len(SEEDS), f"{state}: {reached}"


def a_member_may_acquire_any_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HashSlots, "may_acquire", lambda self, first, last, member: (True, last))


def the_first_acknowledgement_frees_a_key(patch: pytest.MonkeyPatch) -> None:
    def end(self: HashSlots, first: int, last: int) -> None:
        self.changes += 1
        for offset in range(first, last + 1):
            self._held.pop(self._slots.get(offset, -1), None)

    patch.setattr(HashSlots, "end", end)


def a_batch_has_the_slot_of_its_first_record(patch: pytest.MonkeyPatch) -> None:
    learn = HashSlots.learn

    def first_only(self: HashSlots, data: bytes, start: int, end: int) -> None:
        learn(self, data, start, end)
        for _, header in batches(data):
            if header.base_offset in self._slots:
                for offset in range(header.base_offset, min(header.last_offset + 1, end)):
                    self._slots[offset] = self._slots[header.base_offset]

    patch.setattr(HashSlots, "learn", first_only)


def a_check_of_the_locks_frees_all_keys(patch: pytest.MonkeyPatch) -> None:
    expire = SharePartition.expire

    def mutated_expire(self: SharePartition, now_ms: int) -> bool:
        if self.slots is not None:
            self.slots._held.clear()
            self.slots.changes += 1
        return expire(self, now_ms)

    patch.setattr(SharePartition, "expire", mutated_expire)


@pytest.mark.parametrize(
    "mutation",
    [
        a_member_may_acquire_any_record,
        the_first_acknowledgement_frees_a_key,
        a_batch_has_the_slot_of_its_first_record,
        a_check_of_the_locks_frees_all_keys,
    ],
    ids=lambda m: m.__name__,
)
def test_a_removed_rule_is_detected(mutation: Any) -> None:
    expect_detection(mutation, run_seed, 1, SEEDS_MAX)
