"""Pages of rows: limits, order, unknown values, and pages that begin after a row while rows are added and removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.models import ConsumerGroup
from controlplane.selectors import paging
from controlplane.selectors.paging import (
    ListOrder,
    Page,
    PageCursor,
    PageStart,
    PageWindow,
    computed_page,
    numbered_page,
    ordered_page,
    paginate,
    within,
)

COLUMNS = {"name": "group_id", "lag": "lag_records"}


@pytest.mark.parametrize(
    ("asked", "given"),
    [((10, 1, 3), (1, 4, 3)), ((10, 9, 3), (4, 4, 3)), ((0, 5, 3), (1, 1, 3)), ((9, -1, 0), (1, 9, 1))],
)
def test_a_page_is_limited_to_the_existing_rows(asked: tuple[int, int, int], given: tuple[int, int, int]) -> None:
    assert within(*asked) == PageWindow(*given, None)
    assert within(10_000, 1, 10_000).per_page == paging.PER_PAGE_MAX


def test_the_numbers_of_the_first_and_the_last_row_of_a_page() -> None:
    def numbers(total: int, page: int) -> tuple[int, int]:
        found: Page[int] = Page([], total, PageWindow(page, 3, 10, None), "id", "")
        return found.first, found.last

    assert (numbers(25, 1), numbers(25, 3), numbers(0, 1)) == ((1, 10), (21, 25), (0, 0))


def group(name: str, lag: int | None = None) -> None:
    ConsumerGroup.objects.create(group_id=name, state="Stable", lag_records=lag, observed_at=timezone.now())


def groups(sort: str, page: PageStart = 1, per_page: int = 10) -> Page[str]:
    return paginate(
        ConsumerGroup.objects.all(),
        lambda found: [g.pk for g in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=COLUMNS,
    )


def walk(read: Callable[[PageStart], tuple[list[Any], PageCursor | None]], between: Callable[[], None]) -> list[Any]:
    """The rows of all pages; `between` runs after the first one."""
    rows, after = read(PageCursor())
    between()
    while after is not None:
        more, after = read(after)
        rows = [*rows, *more]
    return rows


@pytest.mark.django_db
def test_rows_of_a_page_are_in_order_with_unknown_values_last() -> None:
    for name, lag in (("a", 5), ("b", None), ("c", 5), ("d", 1)):
        group(name, lag)
    assert groups("lag").rows == ["d", "a", "c", "b"] and groups("-lag").rows == ["a", "c", "d", "b"]
    assert groups("lag", 2, 3).rows == ["b"] and groups("unknown").rows == ["a", "b", "c", "d"]


@pytest.mark.django_db
@pytest.mark.parametrize("sort", ["name", "-name", "lag", "-lag"])
@pytest.mark.parametrize("per_page", [1, 2, 3, 7])
def test_pages_after_a_row_have_each_row_one_time(sort: str, per_page: int) -> None:
    for name, lag in (("a", 5), ("b", None), ("c", 5), ("d", 1), ("e", None), ("f", 5)):
        group(name, lag)

    def read(page: PageStart) -> tuple[list[str], PageCursor | None]:
        found = groups(sort, page, per_page)
        assert (found.total, found.pages) == (6, -(-6 // per_page))
        return found.rows, found.window.after

    assert walk(read, lambda: None) == groups(sort).rows


@pytest.mark.django_db
@pytest.mark.parametrize("sort", ["name", "-name", "lag", "-lag"])
def test_rows_added_or_removed_between_two_pages_do_not_shift_other_rows(sort: str) -> None:
    before = {name: lag for lag, name in enumerate("bdfhjl")}
    for name, lag in before.items():
        group(name, None if name == "h" else lag // 2)
    expected = groups(sort).rows

    def change() -> None:
        for name in "acegikm":
            group(name, None if name == "g" else 1)
        ConsumerGroup.objects.filter(pk=expected[1]).delete()

    def read(page: PageStart) -> tuple[list[str], PageCursor | None]:
        found = groups(sort, page, 2)
        return found.rows, found.window.after

    rows = walk(read, change)
    assert [r for r in rows if r in before] == expected and len(set(rows)) == len(rows)


Rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), unique=True, max_size=12)


@settings(max_examples=60, deadline=None)
@given(first=Rows, added=Rows, descending=st.booleans(), per_page=st.integers(1, 4))
def test_pages_of_a_computed_list_have_the_rows_that_stay_one_time(
    first: list[tuple[int, int]], added: list[tuple[int, int]], descending: bool, per_page: int
) -> None:
    order: list[tuple[Callable[[Any], Any], bool]] = [(itemgetter(0), descending), (itemgetter(1), False)]
    now = list(first)

    def read(page: PageStart) -> tuple[list[Any], PageCursor | None]:
        rows, total, window = ordered_page(now, order, page=page, per_page=per_page)
        assert total == len(now)
        return rows, window.after

    rows = walk(read, lambda: now.extend(set(added) - set(first)))
    expected = ordered_page(first, order, page=1, per_page=500)[0]
    assert [r for r in rows if r in first] == expected and len(set(rows)) == len(rows)


@dataclass(frozen=True)
class Row:
    name: str
    size: int | None
    rack: str | None = None


@pytest.mark.parametrize("sort", ["name", "-name", "size", "-size", "rack", "-rack", "nothing"])
@pytest.mark.parametrize("per_page", [1, 2, 7])
def test_pages_of_a_computed_list_have_each_row_one_time_with_unknown_values_last(sort: str, per_page: int) -> None:
    rows = [Row("d", 4), Row("a", None, "x"), Row("c", 4), Row("b", 0), Row("e", None)]
    order = ListOrder(unique=("name",), others=("size", "rack"), default="-size")
    place, seen = PageCursor(), list[Row]()
    while True:
        page = computed_page(rows, order, sort=sort, page=place, per_page=per_page)
        seen += page.rows
        if page.window.after is None:
            break
        place = page.window.after
    assert sorted(seen, key=lambda r: r.name) == sorted(rows, key=lambda r: r.name) and page.total == 5
    names = "".join(r.name for r in seen)
    expected = {"name": "abcde", "-name": "edcba", "size": "bcdae", "-size": "cdbae", "rack": "abcde", "-rack": "abcde"}
    assert names == expected.get(sort, expected["-size"])
    assert computed_page([], order, page=PageCursor(), per_page=2).rows == []


def test_the_number_of_a_row_is_its_place_in_a_list_that_never_changes() -> None:
    assert numbered_page(7, 1, 3) == (0, PageWindow(1, 3, 3, PageCursor((3,))))
    assert numbered_page(7, PageCursor((3,)), 3) == (3, PageWindow(0, 3, 3, PageCursor((6,))))
    assert numbered_page(7, PageCursor((6,)), 3) == (6, PageWindow(0, 3, 3, None))
    assert numbered_page(7, 9, 3) == (6, PageWindow(3, 3, 3, None))
