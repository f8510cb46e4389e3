"""A JSON column with a type: Python sees the typed value only, and both directions verify it. Invariant: SQL, indexes and migrations are those of
a JSONField, so a change of a type needs no migration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Expression
from django.db.models.fields.json import KeyTransform

from controlplane.db import codec


class TypedJSONField(models.JSONField):
    """`kind`: the type of the column, for `controlplane.db.codec`; or `load` and `dump`, where the stored form has its own rules.

    Saving a value of another type raises TypeError or ValueError. So does loading a row that does not fit the type. Lookups into the value
    (`scope__kind`) compare with plain JSON values.
    """

    def __init__(
        self,
        kind: object = None,
        *,
        load: Callable[[Any], object] | None = None,
        dump: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.load = load or (lambda value: codec.decode(kind, value))
        self.dump = dump or codec.encode

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        name, _, args, options = super().deconstruct()
        options.pop("default", None)
        return name, "django.db.models.JSONField", args, options

    def from_db_value(self, value: str | None, expression: Expression, connection: BaseDatabaseWrapper) -> object:
        found = super().from_db_value(value, expression, connection)
        return found if found is None or isinstance(expression, KeyTransform) else self.load(found)

    def get_db_prep_save(self, value: object, connection: BaseDatabaseWrapper) -> object:
        """`load` of the stored form verifies the value: a dictionary or a wrong type never reaches the table."""
        if value is None or hasattr(value, "resolve_expression"):
            return super().get_db_prep_save(value, connection)
        stored = self.dump(value)
        self.load(stored)
        return super().get_db_prep_save(stored, connection)

    def value_to_string(self, obj: models.Model) -> Any:
        value = self.value_from_object(obj)
        return None if value is None else self.dump(value)

    def to_python(self, value: object) -> object:
        """Convert the stored form, which deserialized fixtures have, to a typed value."""
        return self.load(value) if isinstance(value, dict | list) else value
