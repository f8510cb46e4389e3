"""The definition of a setting (name, parser, default, documentation) and parsers that the tables of settings share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """`per_listener`: also accepted as `listener.name.<listener>.<name>`, for one listener. `secret`: never shown and never logged.
    `live`: a dynamic setting, can be changed without a restart. `low`: minimum value."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    low: int | None = None
    per_listener: bool = False
    secret: bool = False
    live: bool = False

    def read(self, text: str) -> Any:
        """Parse a text. Raises ValueError."""
        value = self.parse(text)
        if self.low is not None and value < self.low:
            raise ValueError(f"below the minimum {self.low}")
        return value

    def show(self, value: object) -> str | None:
        """A value as text that `read` accepts. None if the value is secret or not set."""
        if value is None or self.secret:
            return None
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, dict):
            return ",".join(f"{k}:{v}" for k, v in value.items())
        if isinstance(value, tuple):
            return ",".join(_item(v) for v in value)
        return str(value)

    @property
    def kafka_type(self) -> int:
        """Kafka's config type on the wire, as in `cluster/configs`. 9 is PASSWORD."""
        if self.secret:
            return PASSWORD
        if self.parse is parse_bool:
            return BOOLEAN
        if self.parse is int:
            return LONG if isinstance(self.default, int) and self.default > INT_MAX else INT
        return LIST if isinstance(self.default, tuple) else STRING


BOOLEAN, STRING, INT, LONG, LIST, PASSWORD = 1, 2, 3, 5, 7, 9
INT_MAX = 2**31 - 1


def _item(value: object) -> str:
    return "{}://{}:{}".format(*value) if isinstance(value, tuple) and len(value) == 3 else str(value)


def parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """A parser that accepts one of `words`, in upper or lower case."""

    def parse(text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise ValueError(f"expected one of {', '.join(w or '(empty)' for w in words)}")

    return parse


def split_items(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list."""
    return tuple(w for w in (part.strip() for part in text.split(",")) if w)


def properties(path: Path) -> dict[str, str]:
    """The lines `name=value` of a file. Raises ValueError with file and line. The message contains no value, which may be a secret."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise ValueError(f"cannot read the settings file {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ValueError(f"cannot read the settings file {path}: not UTF-8 text") from e
    given: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{path}:{number}: expected name=value")
        given[name.strip()] = value.strip()
    return given
