"""Verdicts of an election of a preferred leader."""

from __future__ import annotations

import pytest

from controlplane.domain.leader_election import (
    BLOCKED,
    VERDICT_TEXTS,
    ElectablePartition,
    ElectionVerdict,
    election_verdict,
    verdict_text,
)

LED_BY_2 = ElectablePartition(2, (1, 2, 3), (1, 2, 3))


@pytest.mark.parametrize(
    ("partition", "live", "demoted", "verdict"),
    [
        (LED_BY_2, {1, 2, 3}, (), ElectionVerdict.ELECTABLE),
        (ElectablePartition(1, (1, 2), (1, 2)), {1, 2}, (), ElectionVerdict.PREFERRED_LEADS),
        (ElectablePartition(None, (1, 2), (1,)), {2}, (), ElectionVerdict.NO_LEADER),
        (LED_BY_2, {2, 3}, (), ElectionVerdict.BROKER_OFFLINE),
        (LED_BY_2, {1, 2, 3}, {1}, ElectionVerdict.LEADERSHIP_DISABLED),
        (ElectablePartition(2, (1, 2), (2,)), {1, 2}, (), ElectionVerdict.NOT_IN_ISR),
        (ElectablePartition(2, (1, 2), (1, 2), handing_over=True), {1, 2}, (), ElectionVerdict.HANDING_OVER),
        (ElectablePartition(2, (1, 2), (2,)), {2}, {1}, ElectionVerdict.BROKER_OFFLINE),
    ],
)
def test_the_first_obstacle_is_the_verdict(
    partition: ElectablePartition, live: set[int], demoted: set[int], verdict: ElectionVerdict
) -> None:
    assert election_verdict(partition, live, demoted) is verdict


def test_every_verdict_has_a_sentence() -> None:
    assert set(VERDICT_TEXTS) == set(ElectionVerdict) and len(BLOCKED) == len(ElectionVerdict) - 2
    assert verdict_text(ElectionVerdict.BROKER_OFFLINE, 7) == "Broker 7 is down."
