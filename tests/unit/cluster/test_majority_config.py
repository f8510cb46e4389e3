"""The config of majority acknowledgements: only at creation, with enough replicas, without tiered storage."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import contradiction, transition_problem
from brokerd.cluster.majority_config import MAJORITY_ACKS, has_majority_acks, replication_problem

ON = {MAJORITY_ACKS: "true"}


def test_the_config_is_a_boolean_in_any_case() -> None:
    assert has_majority_acks({MAJORITY_ACKS: "TRUE"}) and not has_majority_acks({MAJORITY_ACKS: "false"})
    assert not has_majority_acks({})


@pytest.mark.parametrize(("before", "after"), [({}, ON), (ON, {}), (ON, {MAJORITY_ACKS: "false"})])
def test_acknowledgement_mode_of_an_existing_topic_cannot_change(before: dict[str, str], after: dict[str, str]) -> None:
    assert "only when the topic is created" in str(transition_problem(before, after))


def test_other_configs_of_such_a_topic_can_change() -> None:
    assert transition_problem(ON, {**ON, "retention.ms": "5"}) is None
    assert transition_problem({}, {MAJORITY_ACKS: "false"}) is None


def test_it_needs_three_replicas() -> None:
    assert "3 or more, not 2" in str(replication_problem(ON, 2))
    assert replication_problem(ON, 3) is None and replication_problem({}, 1) is None


def test_it_contradicts_tiered_storage() -> None:
    assert "cannot be combined" in str(contradiction({**ON, "remote.storage.enable": "true"}))
    assert contradiction(ON) is None
