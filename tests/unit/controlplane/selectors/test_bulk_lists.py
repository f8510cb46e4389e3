"""The keys of all rows of a filter: over several pages, and rejected above the limit."""

from __future__ import annotations

import pytest

from controlplane.selectors import bulk_lists
from controlplane.selectors.bulk_lists import BulkList, TooManyRows, keys_of_filter
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_all_pages_of_a_filter_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"orders-{n}" for n in range(5)]
    for name in (*names, "other"):
        world.topic(name, (1, 2))
    monkeypatch.setattr(bulk_lists, "PER_PAGE_MAX", 2)
    assert keys_of_filter(BulkList.TOPICS, {"query": "orders"}, 5) == names
    assert keys_of_filter(BulkList.TOPICS, {}, 6) == [*names, "other"]
    with pytest.raises(TooManyRows) as rejection:
        keys_of_filter(BulkList.TOPICS, {}, 5)
    assert (rejection.value.total, rejection.value.most, rejection.value.field) == (6, 5, "filter")


@pytest.mark.parametrize("kind", list(BulkList))
def test_each_list_can_be_read_without_a_filter(db: None, kind: BulkList) -> None:
    assert keys_of_filter(kind, {}, 10) == []
