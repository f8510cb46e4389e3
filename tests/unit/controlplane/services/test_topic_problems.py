"""Every problem of a requested topic at once."""

from __future__ import annotations

import pytest

from controlplane.services.topic_problems import config_problems, creation_problems
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_each_field_has_its_problem(world: World) -> None:
    found = creation_problems("bad name", 0, 9, {"retention.ms": "soon", "no.such": "1", "flush.ms": "5"})
    assert [field for field, _ in found] == ["name", "partitions", "replication_factor", "configs", "configs"]
    assert creation_problems("good", 3, 3, {"retention.ms": "1000"}) == []


def test_an_unknown_value_is_not_checked(world: World) -> None:
    assert creation_problems(None, None, None, None) == []


def test_config_problems_are_by_name() -> None:
    assert set(config_problems({"retention.ms": "soon", "flush.ms": "5"})) == {"retention.ms"}
