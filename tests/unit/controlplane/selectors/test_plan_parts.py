"""A page of the partitions of a plan reads only the chunks that it shows."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.selectors import plan_parts
from controlplane.selectors import plans as selectors
from controlplane.services import plans
from tests.unit.controlplane.services.test_plans import save
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_page_of_parts_reads_its_own_chunks(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(plans, "CHUNK", 10)
    monkeypatch.setattr(plan_parts, "CHUNK", 10)
    world.topic("flights", *[(1, 2)] * 95)
    plan = save()
    assert plan.chunks.count() == 10
    for page in (1, 3, 4):
        with django_assert_max_num_queries(2) as queries:
            found = selectors.plan_parts(plan.pk, page=page, per_page=30)
        assert [r.partition for r in found.rows] == list(range(30 * (page - 1), min(95, 30 * page)))
        first, last = (page - 1) * 3, page * 3 - 1
        assert f'"number" >= {first}' in queries[-1]["sql"] and f'"number" <= {last}' in queries[-1]["sql"]
    assert (found.total, found.pages, selectors.plan_parts(plan.pk, page=99, per_page=30).page) == (95, 4, 4)
