"""Bulk reads and writes for ten thousands of rows.

A write is one prepared statement: the ORM's bulk_update builds a CASE of all rows and is twenty times slower, its bulk_create is five
times slower. A read decodes each distinct JSON text and id once: a hundred thousand partitions have about ten assignments and ten
thousand topics. Invariants: all statements run in the caller's transaction. Values are converted by the model's fields. Decoded lists are
tuples, because rows share them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, JSONField, Model, QuerySet, TextField, UUIDField
from django.db.models.functions import Cast


def read_many(rows: QuerySet[Model], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Read rows like `values_list(*columns)`, for columns of the model itself. JSON lists become tuples."""
    fields = {f.attname: f for f in rows.model._meta.concrete_fields}
    decoders: dict[int, Callable[[str | None], object]] = {}
    texts: dict[str, Cast] = {}
    names = []
    for place, name in enumerate(columns):
        field = getattr(fields[name], "target_field", fields[name])  # a foreign key's target
        if isinstance(field, JSONField | UUIDField):
            decoders[place] = _memoize(UUID if isinstance(field, UUIDField) else _decode)
            texts[f"text_of_{name}"] = Cast(name, TextField())
            name = f"text_of_{name}"
        names.append(name)
    found = rows.annotate(**texts).values_list(*names)
    if not decoders:
        yield from found
        return
    for row in found:
        values = list(row)
        for place, decode in decoders.items():
            values[place] = decode(values[place])
        yield tuple(values)


def _decode(text: str) -> object:
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else value


def _memoize(decode: Callable[[str], object]) -> Callable[[str | None], object]:
    """Return a converter that decodes each distinct text once. It returns None for null."""
    known: dict[str | None, object] = {None: None}

    def convert(text: str | None) -> object:
        if text not in known:
            assert text is not None
            known[text] = decode(text)
        return known[text]

    return convert


def update_many(
    model: type[Model], columns: Sequence[str], values: Sequence[tuple[object, ...]], where: Sequence[str] = ("id",)
) -> None:
    """Update rows in bulk. Each tuple of `values` has the new values of `columns`, followed by the values of `where` that select the row."""
    if not values:
        return
    sets = ", ".join(f"{_column(model, c)} = %s" for c in columns)
    conditions = " AND ".join(f"{_column(model, w)} = %s" for w in where)
    statement = f"UPDATE {_table_name(model)} SET {sets} WHERE {conditions}"
    with connection.cursor() as cursor:
        cursor.executemany(statement, list(_prepare(model, [*columns, *where], values)))


def insert_many(model: type[Model], columns: Sequence[str], values: Iterable[tuple[object, ...]]) -> None:
    """Insert rows. Columns that are not in `columns` get the field's default."""
    given = set(columns)
    left = [f for f in model._meta.concrete_fields if f.attname not in given and not f.primary_key]
    defaults = tuple(f.get_db_prep_save(f.get_default(), connection) for f in left)
    names = [*columns, *(f.attname for f in left)]
    places = ", ".join(["%s"] * len(names))
    statement = f"INSERT INTO {_table_name(model)} ({', '.join(_column(model, n) for n in names)}) VALUES ({places})"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [(*row, *defaults) for row in _prepare(model, columns, values)])


def _table_name(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _column(model: Any, name: str) -> str:
    return connection.ops.quote_name(model._meta.get_field(name).column)


def _prepare(
    model: type[Model], names: Sequence[str], values: Iterable[tuple[object, ...]]
) -> Iterable[tuple[Any, ...]]:
    fields = {f.attname: f for f in model._meta.concrete_fields}
    own = connections[DEFAULT_DB_ALIAS]  # `connection` resolves the thread's connection at every attribute access
    converters = [_converter(fields[n], own) for n in names]
    return (tuple(c(v) for c, v in zip(converters, row, strict=True)) for row in values)


def _converter(field: Field[Any, Any], database: BaseDatabaseWrapper) -> Callable[[object], Any]:
    """The field's conversion for `database`. Each list of numbers (given as a tuple) and each hashable dataclass is encoded once."""
    known: dict[Hashable, object] = {}

    def convert(value: object) -> object:
        numbers = type(value) is tuple and all(type(v) is int for v in value)  # (1, 0) == (True, False)
        if not numbers and not (is_dataclass(value) and isinstance(value, Hashable)):
            return field.get_db_prep_save(value, database)
        if value not in known:
            known[value] = field.get_db_prep_save(value, database)
        return known[value]

    return convert if isinstance(field, JSONField) else lambda value: field.get_db_prep_save(value, database)
