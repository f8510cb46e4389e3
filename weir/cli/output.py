"""Output of responses for a terminal: a table of rows, or names and values. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GAP = "  "
COLUMN_MAX = 60
"""Maximum number of characters of a value in a table; more are cut off with an ellipsis."""
NONE = "-"
STATES = {"state", "status", "severity", "problem", "lag_records"}
"""Names of the columns that say what is wrong. They are shown before other columns."""
PAGING = {"rows", "total", "limit", "next_cursor", "sort", "query"}
"""Names of a page of rows that are not shown: the last line of a table says what is needed of them."""


def rows_of(data: object) -> list[Mapping[str, Any]] | None:
    """The rows of a list, with or without pages; None for an object."""
    rows = data.get("rows") if isinstance(data, dict) else data
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    return None


def lines(data: object, width: int) -> Iterator[str]:
    """A response as text, at most `width` columns wide where it is a table."""
    rows = rows_of(data)
    if rows is not None:
        yield from table(rows, width)
        if isinstance(data, dict):
            yield from _object({name: value for name, value in data.items() if name not in PAGING}, width)
        if isinstance(data, dict) and data.get("next_cursor"):
            yield f"{len(rows)} of {data['total']}; the next page: --cursor {data['next_cursor']}"
    elif isinstance(data, dict):
        yield from _object(data, width)
    elif isinstance(data, str):
        yield from data.rstrip("\n").split("\n")
    else:
        yield json.dumps(data, ensure_ascii=False)


def table(rows: Sequence[Mapping[str, object]], width: int) -> Iterator[str]:
    """Columns in the order of the response. If not all fit: the first one, those in STATES, then as many others as fit; the last line names the rest.
    Columns with nested values, or without any value, are omitted."""
    if not rows:
        yield "none"
        return
    names = [
        name
        for name in rows[0]
        if not any(isinstance(row.get(name), dict | list) for row in rows)
        and any(row.get(name) not in (None, "") for row in rows)
    ]
    columns = {name: _column(name, rows) for name in names}
    shown = _that_fit({name: len(column[0]) for name, column in columns.items()}, width)
    for line in zip(*(columns[name] for name in names if name in shown), strict=True):
        yield GAP.join(line).rstrip()
    if hidden := [name for name in names if name not in shown]:
        yield from textwrap.wrap(
            f"Columns that do not fit: {', '.join(hidden)}. `weir -o json` prints all.", max(width, COLUMN_MAX)
        )


def _column(name: str, rows: Sequence[Mapping[str, object]]) -> list[str]:
    texts = [_truncate(_text(row.get(name)), COLUMN_MAX) for row in rows]
    size = max(len(name), *map(len, texts))
    number = all(isinstance(row.get(name), int | float | None) and not isinstance(row.get(name), bool) for row in rows)
    return [_align(text, size, number) for text in (name.upper(), *texts)]


def _that_fit(sizes: Mapping[str, int], width: int) -> set[str]:
    """`sizes`: the number of characters of each column."""
    first, *others = sizes
    shown, used = {first}, sizes[first]
    for name in [*(n for n in others if n in STATES), *(n for n in others if n not in STATES)]:
        if used + len(GAP) + sizes[name] > width:
            break
        shown.add(name)
        used += len(GAP) + sizes[name]
    return shown


def _object(data: Mapping[str, object], width: int) -> Iterator[str]:
    """Names and values; below its name a list of objects as a table, an object as names and values, a list that is too long as lines."""
    size = max(map(len, data), default=0)
    for name, value in data.items():
        inner = _nested_lines(value, width - len(GAP)) or _list_lines(value, width - size - len(GAP))
        if inner:
            yield f"{name}:"
            yield from (f"{GAP}{line}" for line in inner)
        else:
            yield f"{name:<{size}}{GAP}{_text(value)}"


def _nested_lines(value: object, width: int) -> list[str]:
    """The lines of an object or of a list of objects; none for another value."""
    if isinstance(value, dict):
        return list(_object(value, width))
    rows = rows_of(value) if isinstance(value, list) and value else None
    return list(table(rows, width)) if rows else []


def _list_lines(value: object, width: int) -> list[str]:
    """The lines of a list that is wider than `width`; none for another value."""
    if not isinstance(value, list) or len(_text(value)) <= width:
        return []
    return [_text(item) for item in value]


def _text(value: object) -> str:
    match value:
        case None | "":
            return NONE
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case float():
            return f"{value:.3f}".rstrip("0").rstrip(".")
    return json.dumps(value, ensure_ascii=False)


def _truncate(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def _align(text: str, size: int, right: bool) -> str:
    return text.rjust(size) if right else text.ljust(size)
