"""Rows of consumer groups: filtered by name and topic; unknown lags stay unknown and last."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.selectors import groups
from tests.unit.console.seed import group

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def three_groups() -> None:
    group("billing", {("orders", 0): (10, 15), ("orders", 1): (3, 4)}, "healthy")
    group("audit", {("orders", 0): (None, 15), ("payments", 0): (1, 9)}, "falling_behind")
    group("nightly", {("payments", 0): (None, 9)}, "stopped", members=0)


def names(**options: Any) -> list[str]:
    return [g.group_id for g in groups.group_list(**options).rows]


def test_groups_are_found_by_name_and_by_topic_once() -> None:
    assert names() == ["audit", "billing", "nightly"]
    assert names(query="BILL") == ["billing"]
    assert names(topic="orders") == ["audit", "billing"]
    assert groups.group_list(topic="payments").total == 2


def test_an_unknown_lag_is_last_in_both_orders() -> None:
    assert names(sort="lag_records") == ["billing", "audit", "nightly"]
    assert names(sort="-lag_records") == ["audit", "billing", "nightly"]
    row = groups.group_list(query="nightly").rows[0]
    assert (row.lag_records, row.partitions_unknown, row.member_count) == (None, 1, 0)


def test_the_details_of_a_group_have_its_partitions_in_order() -> None:
    found = groups.group_detail("audit")
    assert found is not None and found.row.age_s is not None and len(found.members) == 2
    assert [(p.topic, p.index, p.committed, p.lag_records) for p in found.partitions] == [
        ("orders", 0, None, None),
        ("payments", 0, 1, 8),
    ]
    assert groups.group_detail("none") is None
