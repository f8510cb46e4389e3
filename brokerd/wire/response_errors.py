"""The error codes of a response, wherever its schema has a field `error_code`, for the metrics of requests.

The functions are generated once per response class, as the codecs in `schema`: a walk without reflection costs one call per response. Does not contain:
counters.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, Protocol

from brokerd.wire.schema import ArrayOf, FieldSpec

FIELD = "error_code"


class ErrorSink(Protocol):
    def count_error(self, code: int) -> None: ...


CountErrors = Callable[[object, ErrorSink], None]
"""`count(response, sink)` calls `sink` with each error code other than 0. A response without errors calls nothing."""


def error_counter(response: type) -> CountErrors:
    """The function that counts the errors in responses of this class."""
    lines = _lines(response, "o", 1, [0])
    source = "def count(o, sink):\n" + "\n".join(lines or ["    pass"])
    names: dict[str, Any] = {}
    exec(compile(source, f"<errors of {response.__qualname__}>", "exec"), names)
    found: CountErrors = names["count"]
    return found


def _lines(cls: type, name: str, depth: int, serial: list[int]) -> list[str]:
    """Statements that count the errors of the value `name`. `serial`: the number of names so far."""
    pad = "    " * depth
    lines = []
    for field_ in dataclasses.fields(cls):
        spec: FieldSpec = field_.metadata["spec"]
        if field_.name == FIELD:
            code = f"{name}.{FIELD}"
            lines += [f"{pad}if {code}:", f"{pad}    sink.count_error({code})"]
        elif isinstance(spec.kind, ArrayOf) and spec.kind.element[0].isupper():
            serial[0] += 1
            element = f"e{serial[0]}"
            inner = _lines(_nested_class(cls, spec.kind.element), element, depth + 1, serial)
            lines += [f"{pad}for {element} in {name}.{field_.name} or ():", *inner] if inner else []
    return lines


def _nested_class(cls: type, name: str) -> type:
    message = getattr(sys.modules[cls.__module__], cls.__qualname__.partition(".")[0])
    found: type = getattr(message, name)
    return found
