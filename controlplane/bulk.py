"""Many rows at once. Written as one prepared statement: the ORM's bulk_update builds a CASE of all of them and is twenty times slower, its
bulk_create is five times slower. Read with each JSON text and id decoded once: a hundred thousand partitions have some ten placements and a
tenth of that many topics. Laws: in the caller's transaction; values are converted as the model's fields convert them; decoded lists are
tuples, for rows share them. Called where rows come by the ten thousand (`samples`, `services.planning`, `services.moves`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import JSONField, QuerySet, TextField, UUIDField
from django.db.models.functions import Cast


def read_many(rows: QuerySet[Any], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """`values_list(*columns)` of the model's own columns, JSON lists as tuples."""
    fields = {f.attname: f for f in rows.model._meta.concrete_fields}
    decoders: dict[int, Callable[[Any], Any]] = {}
    texts: dict[str, Any] = {}
    names = []
    for place, name in enumerate(columns):
        field = getattr(fields[name], "target_field", fields[name])  # of a foreign key: what it points at
        if isinstance(field, JSONField | UUIDField):
            decoders[place] = _once(UUID if isinstance(field, UUIDField) else _decoded)
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


def _decoded(text: str) -> Any:
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else value


def _once(decode: Callable[[str], Any]) -> Callable[[str | None], Any]:
    """Each text decoded once; null stays None."""
    known: dict[str | None, Any] = {None: None}

    def of(text: str | None) -> Any:
        if text not in known:
            assert text is not None
            known[text] = decode(text)
        return known[text]

    return of


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
    own = connections[DEFAULT_DB_ALIAS]  # `connection` looks for the thread's own at every attribute
    converters = [_converter(fields[n], own) for n in names]
    return (tuple(c(v) for c, v in zip(converters, row, strict=True)) for row in values)


def _converter(field: Any, own: Any) -> Callable[[Any], Any]:
    """As the field converts it for `own`; each list of numbers, given as a tuple, is encoded once."""
    known: dict[tuple[int, ...], Any] = {}

    def of(value: Any) -> Any:
        if type(value) is not tuple or not all(type(v) is int for v in value):  # (1, 0) == (True, False)
            return field.get_db_prep_save(value, own)
        if value not in known:
            known[value] = field.get_db_prep_save(value, own)
        return known[value]

    return of if isinstance(field, JSONField) else lambda value: field.get_db_prep_save(value, own)
