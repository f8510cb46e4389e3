"""Values of access entries (ACLs, credentials, quotas, configs of groups and brokers, routes) as the metadata log stores them, and typed readers of their fields.

Invariants: a reader returns a value of its type, or raises InvalidAccessValue with the field and what is expected. A credential is never in the message.
Does not contain: the meaning of the fields, which belongs to the reader of each kind (`authz/acls`, `security/scram`, `cluster/routes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

AccessValue = Mapping[str, object]
"""{field: JSON value}; the fields depend on the kind of the entry."""
SHOWN_MAX = 50
"""Maximum number of characters of an invalid value in a message."""


class InvalidAccessValue(ValueError):
    """`field`: the invalid field of the value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def text_of(value: AccessValue, field: str, *, is_secret: bool = False) -> str:
    """A field that is a string. Raises InvalidAccessValue."""
    given = value.get(field)
    if not isinstance(given, str):
        raise invalid(field, given, "a string", is_secret=is_secret)
    return given


def number_of(value: AccessValue, field: str) -> float:
    """A field that is a number. Raises InvalidAccessValue."""
    given = value.get(field)
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise invalid(field, given, "a number")
    return given


def invalid(field: str, value: object, expected: str, *, is_secret: bool = False) -> InvalidAccessValue:
    shown = type(value).__name__ if is_secret else ascii(value)[:SHOWN_MAX]
    return InvalidAccessValue(field, f"invalid value {shown}, expected {expected}")


def configs_of(value: AccessValue | None) -> dict[str, str]:
    """The configs of a group or broker. Configs are strings; another JSON value is converted to its text."""
    return {name: given if isinstance(given, str) else json.dumps(given) for name, given in (value or {}).items()}


def limits_of(value: AccessValue) -> dict[str, float]:
    """The limits of a quota entity, by the name of the quota. Raises InvalidAccessValue."""
    return {name: number_of(value, name) for name in value}
