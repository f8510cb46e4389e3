"""Order in the log without idempotence: the broker's guarantee for one connection, and the effect of a client's retry."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from brokerd.apis.produce import ProduceApi
from tests.simulation.plain_order import live
from tests.simulation.run import run

SEEDS, FAULTS_S = (2, 4, 6), 12
"""In each seed a broker loses its ZooKeeper session and batches are retried."""
SEEDS_MAX = 10


def test_only_retried_batches_are_out_of_order() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = run(seed, faults_s=FAULTS_S, life=live)
        assert outcome.violation is None, "\n".join([*outcome.story[-40:], f"seed {seed}: {outcome.violation}"])
        reached += outcome.reached
    assert reached["retried batch after its successor"], "no late retry: the sample shows nothing"
    assert reached["session lost"], "no broker lost its ZooKeeper session"


def a_request_waits_and_the_next_one_does_not(patch: pytest.MonkeyPatch) -> None:
    handle, requested = ProduceApi.handle, Counter[int]()

    def mutated_handle(self: ProduceApi, request: Any) -> None:
        requested[0] += 1
        if requested[0] % 500 == 0:
            request.body.topic_data[0].partition_data[0].records = memoryview(
                bytearray(request.body.topic_data[0].partition_data[0].records)
            )
            self._loop.call_later(30, lambda now: handle(self, request))
        else:
            handle(self, request)

    patch.setattr(ProduceApi, "handle", mutated_handle)


def test_a_broker_that_reorders_requests_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    a_request_waits_and_the_next_one_does_not(monkeypatch)
    for seed in range(1, 1 + SEEDS_MAX):
        found = run(seed, faults_s=5, life=live).violation
        if found is not None:
            assert "each was sent once" in found, found
            return
    raise AssertionError(f"{SEEDS_MAX} seeds did not detect the mutation")
