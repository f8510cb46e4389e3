"""One setting of a broker: its name (Kafka's), how it is read, its default and its reason. Called by the tables in `config` and `access/settings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """`per_listener`: may be given as `listener.name.<listener>.<name>` as well, for that listener alone. `secret`: never shown, never logged.
    `live`: may be changed while the broker runs."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    low: int | None = None
    per_listener: bool = False
    secret: bool = False
    live: bool = False

    def read(self, text: str) -> Any:
        """The value of a text. Raises ValueError with a sentence."""
        value = self.parse(text)
        if self.low is not None and value < self.low:
            raise ValueError(f"it is below its least value {self.low}")
        return value

    def show(self, value: Any) -> str | None:
        """A value as a text that reads back; None for what is secret or not set."""
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
        """On the wire, as `cluster/configs` has them; 9 is a password."""
        if self.secret:
            return PASSWORD
        if self.parse is parse_bool:
            return BOOLEAN
        if self.parse is int:
            return LONG if isinstance(self.default, int) and self.default > INT_MAX else INT
        return LIST if isinstance(self.default, tuple) else STRING


BOOLEAN, STRING, INT, LONG, LIST, PASSWORD = 1, 2, 3, 5, 7, 9
INT_MAX = 2**31 - 1


def _item(value: Any) -> str:
    return "{}://{}:{}".format(*value) if isinstance(value, tuple) and len(value) == 3 else str(value)


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


def properties(path: Path) -> dict[str, str]:
    """The lines `name=value` of a file. Raises ValueError naming file, line and remedy, and nothing that may be a secret."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise ValueError(f"cannot read the settings file {path}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ValueError(f"cannot read the settings file {path}: it is no text") from e
    given: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{path}:{number}: expected name=value")
        given[name.strip()] = value.strip()
    return given
