"""Pages of a list: where a page begins, its rows, and where the next one begins.

Invariants: a page contains the total number of rows, so no limit hides rows silently. The order of a list ends with a unique value, so a page that
begins after a row does not depend on rows that were added or removed before it. A page of rows has only those that the user may see.
Does not contain: the text of a cursor (`controlplane.api.pagination`), filters (`common`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NotRequired, TypeAlias, TypedDict, TypeVar

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import OrderBy

from controlplane.selectors.visibility import visible

PER_PAGE_MAX = 500
"""Maximum number of rows of one page; for more there is an export."""

T = TypeVar("T")
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The position after the row with these values of the list's order. Without values it is the position before the first row."""

    values: tuple[Any, ...] = ()


PageStart = int | PageCursor
"""Start of a page: the number of the page, from 1, or a place in the list."""
Order = Sequence[tuple[str, bool]]
"""(column, descending) of each column of an order. The last column is unique."""


@dataclass(frozen=True, slots=True)
class PageWindow:
    """Rows of one page of a list. `page`: its number from 1; 0 for a page after a row, whose number is unknown. `after`: the row after which the next page
    begins; None for the last page."""

    page: int
    pages: int
    per_page: int
    after: PageCursor | None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of one page. `sort` is the column, with a leading '-' for descending."""

    rows: list[T]
    total: int
    window: PageWindow
    sort: str
    query: str

    @property
    def page(self) -> int:
        return self.window.page

    @property
    def pages(self) -> int:
        return self.window.pages

    @property
    def per_page(self) -> int:
        return self.window.per_page

    @property
    def first(self) -> int:
        return (self.page - 1) * self.per_page + 1 if self.total else 0

    @property
    def last(self) -> int:
        return min(self.page * self.per_page, self.total)


class PageOptions(TypedDict):
    """Request for a page of a list: its place and its order. These are the keywords of `paginate` that the caller of a list chooses."""

    sort: str
    page: PageStart
    per_page: int
    query: NotRequired[str]


def within(total: int, page: PageStart, per_page: int) -> PageWindow:
    """The requested page, limited to the existing rows. `after` is not known yet."""
    per_page = max(1, min(per_page, PER_PAGE_MAX))
    pages = max(1, -(-total // per_page))
    if isinstance(page, PageCursor):
        return PageWindow(0 if page.values else 1, pages, per_page, None)
    return PageWindow(max(1, min(page, pages)), pages, per_page, None)


def numbered_page(total: int, page: PageStart, per_page: int) -> tuple[int, PageWindow]:
    """(index of the first row, page) of a list that never changes: the number of a row is its place."""
    found = within(total, page, per_page)
    start = (found.page - 1) * found.per_page if found.page else 0
    if isinstance(page, PageCursor) and page.values:
        start = min(page.values[0], total)
    end = start + found.per_page
    after = PageCursor((end,)) if end < total else None
    return start, PageWindow(found.page, found.pages, found.per_page, after)


SortTerms: TypeAlias = Sequence[tuple[Callable[[T], Any], bool]]
"""(value of a row, descending) of each column of an order."""


def ordered_page(
    rows: Iterable[T], order: SortTerms[T], *, page: PageStart, per_page: int
) -> tuple[list[T], int, PageWindow]:
    """(rows of the page, number of all rows, page) of a computed list. The columns of `order` are unique together, and
    no value is None."""
    found = list(rows)
    for value, descending in reversed(order):
        found.sort(key=value, reverse=descending)
    window = within(len(found), page, per_page)
    start = (window.page - 1) * window.per_page if window.page else 0
    if isinstance(page, PageCursor) and page.values:
        start = next((i for i, row in enumerate(found) if _is_behind(row, order, page.values)), len(found))
    end = start + window.per_page
    shown = found[start:end]
    after = PageCursor(tuple(value(shown[-1]) for value, _ in order)) if end < len(found) else None
    return shown, len(found), PageWindow(window.page, window.pages, window.per_page, after)


@dataclass(frozen=True, slots=True)
class ListOrder:
    """The orders of a computed list: by a field of its rows with plain values. `unique`: the fields that identify a row, in the default order."""

    unique: tuple[str, ...]
    others: tuple[str, ...] = ()
    default: str = ""
    """Column of the order without `sort`, with '-' in front for descending; empty: that of `unique`."""


def computed_page(
    rows: Sequence[T], order: ListOrder, *, page: PageStart, per_page: int, sort: str = "", query: str = ""
) -> Page[T]:
    """One page of a computed list in the order of `sort`, then of the fields that identify a row. An unknown column falls back to the default order.
    Unknown values sort last."""
    if sort.lstrip("-") not in (*order.unique, *order.others):
        sort = order.default or order.unique[0]
    terms = [*_column(rows, sort.lstrip("-"), sort.startswith("-"))]
    for name in order.unique:
        terms += _column(rows, name, False)
    shown, total, window = ordered_page(rows, terms, page=page, per_page=per_page)
    return Page(shown, total, window, sort, query)


def _column(rows: Sequence[T], name: str, descending: bool) -> list[tuple[Callable[[T], object], bool]]:
    """(value of a row, descending): first whether the value is unknown, then the value."""
    known = next((v for row in rows if (v := getattr(row, name)) is not None), 0)
    blank: object = "" if isinstance(known, str) else type(known)()

    def value(row: T) -> object:
        found = getattr(row, name)
        return blank if found is None else found

    return [(lambda row: getattr(row, name) is None, False), (value, descending)]


def _is_behind(row: T, order: SortTerms[T], values: Sequence[Any]) -> bool:
    for (value, descending), limit in zip(order, values, strict=True):
        own = value(row)
        if own != limit:
            return bool(own < limit if descending else own > limit)
    return False


def rows_after(order: Order, values: Sequence[object]) -> Q:
    """The rows that follow the row with these values. Unknown values are last in both directions."""
    following, same = Q(), Q()
    for (column, descending), value in zip(order, values, strict=True):
        if value is None:
            same &= Q(**{f"{column}__isnull": True})
            continue
        further = Q(**{f"{column}__{'lt' if descending else 'gt'}": value})
        following |= same & (further | Q(**{f"{column}__isnull": True}))
        same &= Q(**{column: value})
    return following


def keys_of(
    rows: QuerySet[Model], order: Order, *, page: PageStart, per_page: int
) -> tuple[list[tuple[Any, ...]], int, PageWindow]:
    """(values of the order's columns in each row of the page, number of all rows, page)."""
    per_page = within(0, page, per_page).per_page
    follows = isinstance(page, PageCursor) and bool(page.values)
    # Where a page begins without the number of rows, a first page that is not full has all rows: the database need not count them.
    total = None if isinstance(page, PageCursor) or page <= 1 else rows.count()
    start = 0 if total is None else (within(total, page, per_page).page - 1) * per_page
    (column, descending), *ties = order
    first = F(column).desc(nulls_last=True) if descending else F(column).asc(nulls_last=True)
    terms: list[OrderBy | str] = [first, *(f"-{name}" if down else name for name, down in ties)]
    following = rows.filter(rows_after(order, page.values)) if isinstance(page, PageCursor) and page.values else rows
    # One row more than the page has tells whether there is a next page.
    found = list(following.order_by(*terms).values_list(*(name for name, _ in order))[start : start + per_page + 1])
    keys = found[:per_page]
    if total is None:
        total = rows.count() if follows or len(found) > per_page else len(found)
    window = within(total, page, per_page)
    after = PageCursor(tuple(keys[-1])) if len(found) > len(keys) else None
    return keys, total, PageWindow(window.page, window.pages, window.per_page, after)


def paginate(
    rows: QuerySet[M],
    shape: Callable[[Sequence[M]], list[T]],
    *,
    page: PageStart,
    per_page: int,
    sort: str,
    columns: dict[str, str],
    query: str = "",
    tie: str | tuple[str, ...] = "pk",
    whole: QuerySet[M] | None = None,
) -> Page[T]:
    """One page of `rows` in the order of `sort` (a key of `columns`; an unknown one falls back to the first), then of `tie` and the primary key. Unknown
    values sort last. `whole`: `rows` without their conditions. It lets the database read a page's rows by key where the conditions would cause a
    scan of all matching rows."""
    rows = visible(rows)
    name = sort.lstrip("-")
    if name not in columns:
        sort = name = next(iter(columns))
    ties = [(column.lstrip("-"), column.startswith("-")) for column in ((tie,) if isinstance(tie, str) else tie)]
    order = _order(rows, (columns[name], sort.startswith("-")), *ties)
    # Sort the keys first: a sort of tens of thousands of joined rows would copy all their columns.
    found_keys, total, window = keys_of(rows, order, page=page, per_page=per_page)
    keys = [key[-1] for key in found_keys]
    found = {row.pk: row for row in (rows if whole is None else whole).filter(pk__in=keys)}
    return Page(shape([found[k] for k in keys if k in found]), total, window, sort, query)


def _order(rows: QuerySet[Model], *terms: tuple[str, bool]) -> Order:
    """The order of these columns, each once, that ends with the primary key."""
    key = rows.model._meta.pk.name
    order: dict[str, bool] = {}
    for column, descending in (*terms, ("pk", False)):
        order.setdefault("pk" if column == key else column, descending)
        if column in ("pk", key):
            break
    return list(order.items())
