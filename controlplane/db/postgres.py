"""Texts for PostgreSQL, which rejects the character NUL in texts and in JSON: it is stored as U+FFFD.

Keys of records, and names that Kafka clients choose (groups, members, client ids), may contain NUL. Without this, one such name would end each write of
the cluster monitor. Does not contain: rows, other databases.
"""

from __future__ import annotations

import re
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

NUL, REPLACED = "\0", "\N{REPLACEMENT CHARACTER}"
NUL_IN_JSON = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""The escape, not a backslash that is followed by the letters u0000."""


def install() -> None:
    connection_created.connect(_replace_nul, dispatch_uid="controlplane.db.postgres")


def without_nul(json: bytes) -> bytes:
    """A JSON text with U+FFFD in place of each NUL."""
    return NUL_IN_JSON.sub(rb"\1\\ufffd", json) if b"u0000" in json else json


def _replace_nul(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    if connection.vendor != "postgresql":
        return
    from psycopg.types.json import Jsonb, JsonbDumper
    from psycopg.types.string import StrDumperUnknown

    class TextDumper(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace(NUL, REPLACED) if NUL in obj else obj)

    class JsonDumper(JsonbDumper):
        def dump(self, obj: object) -> bytes | None:
            found = super().dump(obj)
            return None if found is None else without_nul(bytes(found))

    connection.connection.adapters.register_dumper(str, TextDumper)
    connection.connection.adapters.register_dumper(Jsonb, JsonDumper)
