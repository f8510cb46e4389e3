"""One setting of a broker: its name (Kafka's), how it is read, its default and its reason. Called by the tables in `config` and `access/settings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """`per_listener`: may be given as `listener.name.<listener>.<name>` as well, for that listener alone. `secret`: never shown, never logged."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    low: int | None = None
    per_listener: bool = False
    secret: bool = False


def parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """A word out of these, in any case; an empty text where "" is among them."""

    def parse(text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise ValueError(f"expected one of {', '.join(w or '(nothing)' for w in words)}")

    return parse


def words(text: str) -> tuple[str, ...]:
    """A list by commas."""
    return tuple(w for w in (part.strip() for part in text.split(",")) if w)
