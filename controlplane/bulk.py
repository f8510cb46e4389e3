"""Many rows at once, as one prepared statement: the ORM's bulk_update builds a CASE of all of them and is twenty times slower, its bulk_create is
five times slower. Law: in the caller's transaction; values are converted as the model's fields convert them. Called where rows come by the ten
thousand (`samples`, `services.planning`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection


def update_many(
    model: Any, columns: Sequence[str], values: Sequence[tuple[Any, ...]], where: Sequence[str] = ("id",)
) -> None:
    """Each of `values` holds the new values of `columns` and then those of `where`."""
    if not values:
        return
    sets = ", ".join(f"{_column(model, c)} = %s" for c in columns)
    conditions = " AND ".join(f"{_column(model, w)} = %s" for w in where)
    statement = f"UPDATE {_table(model)} SET {sets} WHERE {conditions}"
    with connection.cursor() as cursor:
        cursor.executemany(statement, list(_prepared(model, [*columns, *where], values)))


def insert_many(model: Any, columns: Sequence[str], values: Iterable[tuple[Any, ...]]) -> None:
    """New rows; what `columns` leave out has its field's default."""
    given = set(columns)
    left = [f for f in model._meta.concrete_fields if f.attname not in given and not f.primary_key]
    defaults = tuple(f.get_db_prep_save(f.get_default(), connection) for f in left)
    names = [*columns, *(f.attname for f in left)]
    places = ", ".join(["%s"] * len(names))
    statement = f"INSERT INTO {_table(model)} ({', '.join(_column(model, n) for n in names)}) VALUES ({places})"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [(*row, *defaults) for row in _prepared(model, columns, values)])


def _table(model: Any) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _column(model: Any, name: str) -> str:
    return connection.ops.quote_name(model._meta.get_field(name).column)


def _prepared(model: Any, names: Sequence[str], values: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    fields = {f.attname: f for f in model._meta.concrete_fields}
    converters = [fields[n].get_db_prep_save for n in names]
    return (tuple(c(v, connection) for c, v in zip(converters, row, strict=True)) for row in values)
