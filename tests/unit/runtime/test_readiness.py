"""Readiness of a broker: registered, in sync, and not about to stop."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.runtime.readiness import Readiness, ReadinessState, partitions_out_of_sync, readiness

IN_SYNC = PartitionState((1, 2, 3), tuple(ReplicaIncarnation(b, 10 + b) for b in (1, 2, 3)))
WITHOUT_2 = replace(IN_SYNC, isr=IN_SYNC.isr[:1])


def image(*states: PartitionState, alive: bool = True) -> Image:
    topics = {i: SimpleNamespace(partitions={0: s}) for i, s in enumerate(states)}
    return cast(Image, SimpleNamespace(topics=topics, alive=lambda b: alive))


@pytest.mark.parametrize(
    ("state", "behind"),
    [
        (IN_SYNC, 0),
        (WITHOUT_2, 1),
        (replace(WITHOUT_2, replicas=(1, 3)), 0),
        (replace(WITHOUT_2, adding=(2,)), 0),
        (replace(WITHOUT_2, adding=(3,)), 1),
    ],
)
def test_a_replica_out_of_sync_is_counted_unless_a_move_adds_it(state: PartitionState, behind: int) -> None:
    assert partitions_out_of_sync(image(IN_SYNC, state), 2) == behind


@pytest.mark.parametrize(
    ("change", "state", "found"),
    [
        ({}, IN_SYNC, Readiness(ReadinessState.READY)),
        ({}, WITHOUT_2, Readiness(ReadinessState.OUT_OF_SYNC, 1)),
        ({"registered": False}, IN_SYNC, Readiness(ReadinessState.STARTING)),
        ({"alive": False}, IN_SYNC, Readiness(ReadinessState.STARTING)),
        ({"current": False}, IN_SYNC, Readiness(ReadinessState.METADATA_STALE)),
        ({"stopping": True}, IN_SYNC, Readiness(ReadinessState.STOPPING)),
    ],
)
def test_a_broker_is_ready_when_it_is_registered_in_sync_and_stays(
    change: dict[str, bool], state: PartitionState, found: Readiness
) -> None:
    now = {"registered": True, "alive": True, "current": True, "stopping": False} | change
    seen: Any = image(state, alive=now["alive"])
    functions: dict[str, Any] = {n: lambda n=n: now[n] for n in ("registered", "current", "stopping")}
    assert readiness(2, lambda: seen, **functions) == found
