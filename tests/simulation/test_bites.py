"""The checkers bite: each safety rule taken out of the product is missed within a few seeds. A checker that lets these pass shows nothing."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd import partitions as partitions_module
from brokerd.apis.fetch import FetchApi
from brokerd.cluster.model import PartitionState
from brokerd.identity import Identity
from brokerd.partition import Changed, Partition
from brokerd.partitions import Partitions, Replica
from tests.simulation.run import run

SEEDS_MAX = 30


def no_truncation_by_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchApi, "_diverging", lambda *_: None)


def a_shrunk_isr_is_believed_before_it_is_accepted(patch: pytest.MonkeyPatch) -> None:
    def isr(self: Partition) -> frozenset[Any]:
        assert self.state is not None
        return frozenset(self.proposal.isr if self.proposal is not None else self.state.isr)

    patch.setattr(Partition, "maximal_isr", isr)


def the_high_watermark_is_the_leaders_end(patch: pytest.MonkeyPatch) -> None:
    def raise_to_end(self: Partition) -> list[Any]:
        self.high_watermark = self.log_end
        return [partitions_module.core.RaiseHighWatermark(self.log_end)]

    patch.setattr(Partition, "_raise_high_watermark", raise_to_end)


def an_earlier_life_leads_on(patch: pytest.MonkeyPatch) -> None:
    def changed(self: Partitions, replica: Replica, state: PartitionState) -> Changed:
        leads = state.leader == self.broker_id
        log = replica.log
        return Changed(
            state,
            leads,
            replica.config.min_insync_replicas,
            log.end_offset,
            log.start_offset,
            leader_alive=state.leader >= 0,
        )

    patch.setattr(Partitions, "_changed", changed)


def every_tail_counts_as_intact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Identity, "tail_intact", property(lambda self: True, lambda self, value: None), raising=False)


def a_loss_is_forgotten_at_the_next_start(patch: pytest.MonkeyPatch) -> None:
    write = Identity._write_meta

    def forgetful(self: Identity) -> None:
        intact, self.tail_intact = self.tail_intact, True
        write(self)
        self.tail_intact = intact

    patch.setattr(Identity, "_write_meta", forgetful)


@pytest.mark.parametrize(
    ("mutation", "first"),
    [
        (no_truncation_by_epoch, 1),
        (a_shrunk_isr_is_believed_before_it_is_accepted, 26),
        (the_high_watermark_is_the_leaders_end, 1),
        (an_earlier_life_leads_on, 1),
        (every_tail_counts_as_intact, 1),
        (a_loss_is_forgotten_at_the_next_start, 51),
    ],
    ids=lambda m: m.__name__ if callable(m) else "",
)
def test_a_rule_taken_out_is_missed(mutation: Any, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(first, first + SEEDS_MAX):
        found = run(seed).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds found nothing wrong")
