"""The operations of the REST API as commands of a command line: names, arguments and options, and the command that makes a given request.

The table `rest_operations.json` is generated from the OpenAPI schema (`weir.cli.generate`), so that each operation has a command. Invariant: the command
of a request makes exactly this request (`command_of` is the inverse of `weir.cli`). Pure, except for the one read of the table. Does not contain: HTTP,
output (`weir.cli`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

TABLE = Path(__file__).with_name("rest_operations.json")
PROGRAM = "weir"
PREFIX = "/api/v1"
BODY_OPTION = "--body"
"""The option with the fields of a body that have no option of their own, or whose value an option cannot express (null, an empty list), as JSON."""


class RestParameterType(StrEnum):
    """Conversion of a text of the command line to a value. LISTS: an option that is repeated. MAP: a repeated option with KEY=VALUE."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    STRINGS = "strings"
    INTEGERS = "integers"
    MAP = "map"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class RestParameter:
    """`choices`: the allowed values, or empty. `doc`: one line."""

    name: str
    type: RestParameterType
    choices: tuple[str, ...] = ()
    doc: str = ""

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class RestOperation:
    """The command `weir NOUN VERB ARGUMENTS --options`. `path`: below PREFIX, with {argument}. `query`: options of a GET. `fields`: options of a body."""

    noun: str
    verb: str
    method: str
    path: str
    doc: str
    arguments: tuple[str, ...]
    query: tuple[RestParameter, ...]
    fields: tuple[RestParameter, ...]
    has_body: bool

    @property
    def options(self) -> tuple[RestParameter, ...]:
        return self.query + self.fields

    def url_path(self, arguments: Mapping[str, str]) -> str:
        """The path below PREFIX with its arguments, percent-encoded."""
        return self.path.format_map({name: quote(value, safe="") for name, value in arguments.items()})

    def arguments_of(self, path: str) -> tuple[str, ...] | None:
        """The arguments in this path below PREFIX, or None if it belongs to another operation."""
        pattern = re.sub(r"\\{\w+\\}", "([^/]+)", re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return tuple(unquote(text) for text in found.groups()) if found else None


@cache
def operations() -> tuple[RestOperation, ...]:
    """All operations, in the order of their commands."""
    return tuple(_operation(row) for row in json.loads(TABLE.read_text()))


def _operation(row: Mapping[str, Any]) -> RestOperation:
    def parameters(rows: list[dict[str, Any]]) -> tuple[RestParameter, ...]:
        return tuple(
            RestParameter(r["name"], RestParameterType(r["type"]), tuple(r.get("choices", ())), r.get("doc", ""))
            for r in rows
        )

    return RestOperation(
        row["noun"],
        row["verb"],
        row["method"],
        row["path"],
        row["doc"],
        tuple(row["arguments"]),
        parameters(row["query"]),
        parameters(row["fields"]),
        row["has_body"],
    )


def find(method: str, path: str) -> tuple[RestOperation, tuple[str, ...]] | None:
    """The operation of this request and its arguments. `path`: below PREFIX, without a query. A literal path is preferred to one with arguments."""
    found = [
        (operation, arguments)
        for operation in operations()
        if operation.method == method and (arguments := operation.arguments_of(path)) is not None
    ]
    return min(found, key=lambda pair: len(pair[1]), default=None)


def command_of(method: str, path: str, body: Mapping[str, object] | None = None) -> list[str]:
    """The words of the command that makes this request. `path`: below PREFIX, perhaps with a query. A request that is not in the table, for example with
    an unknown query parameter, becomes `weir api METHOD PATH`."""
    bare, _, query_text = path.partition("?")
    bare = "/" + bare.strip("/")
    raw = [PROGRAM, "api", method, "/" + path.lstrip("/"), *([BODY_OPTION, _json(body)] if body is not None else [])]
    found = find(method, bare)
    if found is None or (body is not None and not found[0].has_body):
        return raw
    operation, arguments = found
    words = [PROGRAM, operation.noun, operation.verb]
    by_name = {p.name: p for p in operation.query}
    for name, text in parse_qsl(query_text, keep_blank_values=True):
        if name not in by_name:
            return raw
        words += _query_words(by_name[name], text)
    fields = {p.name: p for p in operation.fields}
    rest = {}
    for name, value in (body or {}).items():
        option = _field_words(fields[name], value) if name in fields else None
        if option is None:
            rest[name] = value
        else:
            words += option
    if rest or (body is not None and not body):
        words += [BODY_OPTION, _json(rest)]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return [*words, *arguments]


def shell_text(words: list[str]) -> str:
    """The command as text for a shell."""
    return shlex.join(words)


def _query_words(parameter: RestParameter, text: str) -> list[str]:
    if parameter.type is RestParameterType.BOOLEAN:
        return [parameter.option if text.lower() in ("true", "1", "on") else "--no-" + parameter.option[2:]]
    return [parameter.option, text]


def _field_words(parameter: RestParameter, value: Any) -> list[str] | None:
    """The option and its text, or None if the option cannot express the value."""
    option = parameter.option
    if value is None or (parameter.choices and value not in parameter.choices):
        return None
    match parameter.type, value:
        case RestParameterType.STRING, str():
            return [option, value]
        case RestParameterType.BOOLEAN, bool():
            return [option if value else "--no-" + option[2:]]
        case RestParameterType.INTEGER, int() if not isinstance(value, bool):
            return [option, str(value)]
        case RestParameterType.NUMBER, int() | float() if not isinstance(value, bool):
            return [option, json.dumps(value)]
        case RestParameterType.STRINGS, [_, *_] if all(isinstance(v, str) for v in value):
            return [word for v in value for word in (option, v)]
        case RestParameterType.INTEGERS, [_, *_] if all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            return [word for v in value for word in (option, str(v))]
        case RestParameterType.MAP, dict() if value and all(
            isinstance(v, str) and k and "=" not in k for k, v in value.items()
        ):
            return [word for k, v in value.items() for word in (option, f"{k}={v}")]
        case RestParameterType.JSON, _:
            return [option, _json(value)]
    return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
