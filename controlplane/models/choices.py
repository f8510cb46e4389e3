"""Conversion of enums of `controlplane.domain` to the `choices` of a field."""

from __future__ import annotations

from enum import StrEnum


def choices(words: type[StrEnum]) -> list[tuple[str, str]]:
    """(value, label) of each member, as a Django field takes them."""
    return [(w.value, w.value.replace("_", " ") or "none") for w in words]
