"""Brokers as input of the planner."""

from __future__ import annotations

import pytest

from controlplane.domain.planner_types import PlannerBroker


@pytest.mark.parametrize(
    ("alive", "cordoned", "accepts"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_broker_accepts_replicas_if_it_is_alive_and_not_cordoned(alive: bool, cordoned: bool, accepts: bool) -> None:
    assert PlannerBroker(1, alive, None, None, cordoned=cordoned).open is accepts
