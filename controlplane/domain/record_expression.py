"""Filter expressions in the Common Expression Language (CEL): their variables, their results, and their errors as texts. Pure.

Invariant: an invalid expression is rejected, with the position of the error, before a record is read. A record whose evaluation fails does not match
and is counted with the reason. Does not contain: the process that evaluates (`clients.record_expressions`), the other filters (`record_filter`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerd.wire.records import Record
from controlplane.domain.errors import Rejected
from controlplane.domain.masking import RecordRenderer
from weir_common.json_values import Json, JsonObject
from weir_common.phrases import sentence

BATCH_RECORDS, BATCH_BYTES = 200, 1024 * 1024
"""Maximum number of records, and of bytes of keys and values, that are sent to the evaluation together."""

RECORD_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes of the key and value of one record. A larger one is not evaluated: its decoded form needs several times as much memory."""

REASONS_MAX = 20
"""Maximum number of different reasons with their own count. A reason can contain a key of the data."""

REASON_CHARS_MAX = 200
"""Maximum length of a reason or of one error: a line of the page. The library repeats parts of the data."""

OTHER_REASONS = "other reasons"

TOO_LARGE = f"larger than {RECORD_BYTES_MAX // 1024:,} KiB"
NOT_BOOLEAN = "the result is neither true nor false"

VARIABLES = ("key", "value", "headers", "partition", "offset", "timestamp")

HINTS: Mapping[str, str] = {
    "NOT_FOUND": "no such field {0}",
    "INVALID_ARGUMENT": "invalid argument: {0}",
}
"""Texts by the status code of the evaluation. {0} is the message of the library, shortened."""

PLAINER: Mapping[str, str] = {"Applying SELECT to non-message type": "a field of a value that is not an object"}
"""Replacements for complete messages of the library."""

_NOISE = re.compile(r" expecting \{.*| \(in container '.*?'\)| \[[A-Z_]+\]$", re.DOTALL)
"""Parts of the library's messages that do not help a reader of the page: lists of tokens, containers, status codes."""

_STATUS = re.compile(r"^([A-Z_]+): (.*)$", re.DOTALL)
_PLACE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"\s*$')


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """Records that were scanned and could not be evaluated. `reason` completes the sentence "N records could not be evaluated: ..."."""

    reason: str
    records: int


class ExpressionFilter(Protocol):
    def evaluate(self, partition: int, records: Sequence[Record]) -> list[bool | str]:
        """Return the results of the first records, at least one: whether the record matches, or why it could not be evaluated. If a time limit was reached,
        there are fewer results than records. Raises Rejected for an expression that needs too much time or memory."""
        ...


class EvaluationErrors:
    """Counts records that could not be evaluated, by reason, REASONS_MAX of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        known = reason in self._counts or len(self._counts) < REASONS_MAX
        self._counts[reason if known else OTHER_REASONS] += 1

    @property
    def total(self) -> int:
        return self._counts.total()

    def rows(self) -> list[EvaluationError]:
        """The most frequent first."""
        return [EvaluationError(reason, count) for reason, count in self._counts.most_common()]


def batch_of(records: Iterable[Record]) -> list[Record]:
    """The first of the records, at least one, up to the limits of a batch."""
    batch: list[Record] = []
    size = 0
    for record in records:
        size += size_of(record)
        if batch and (size > BATCH_BYTES or len(batch) >= BATCH_RECORDS):
            break
        batch.append(record)
    return batch


def size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def variables_of(partition: int, record: Record, renderer: RecordRenderer) -> tuple[Json, ...]:
    """The values of VARIABLES, as the reader of the renderer may see them. `timestamp` is in ms since 1970. A header that is there several times has
    its last value."""
    headers: JsonObject = {name: renderer.header(name, data).text for name, data in record.headers}
    key, value = renderer.structured_key(record.key), renderer.structured_value(record.value)
    return key, value, headers, partition, record.offset, record.timestamp


def rejection(text: str, expression: str) -> Rejected:
    """The error of a compilation as a rejection with the line and column."""
    places = [(int(line), int(column), what) for line, column, what in _PLACE.findall(text)]
    if not places:
        return Rejected(
            sentence("The expression is not understood: {value}. {example}", value=_short(text), example=EXAMPLE),
            "expression",
        )
    sentences = []
    for line, column, what in places[:3]:
        where = (
            "" if line < 1 else f"Column {column}: " if "\n" not in expression else f"Line {line}, column {column}: "
        )
        sentences.append(f"{where}{_short(what)}.{_hint(expression, line, column)}")
    return Rejected(" ".join([*sentences, EXAMPLE]), "expression")


EXAMPLE = 'For example: value.amount > 100 && headers["region"] == "eu".'


def _hint(expression: str, line: int, column: int) -> str:
    """A hint for the user, from the expression itself: the message of the library is not interpreted."""
    lines = expression.split("\n")
    rest = lines[line - 1][column - 1 :] if 0 < line <= len(lines) and column > 0 else ""
    word = re.match(r"[A-Za-z_]\w*", rest)
    if word and word[0] in ("and", "or", "not"):
        return f" Write {({'and': '&&', 'or': '||', 'not': '!'})[word[0]]} for {word[0]}."
    if word and word[0] not in VARIABLES:
        return f" The variables are {', '.join(VARIABLES)}."
    if rest.startswith("=") and not rest.startswith("=="):
        return " Write == to compare."
    if not rest:
        return " The expression ends too early."
    return ""


def reason_of(text: str) -> str:
    """Return the reason why a record could not be evaluated, from the error value of the library: a status code and a text."""
    status = _STATUS.match(text)
    if status is None:
        return _short(text)
    code, what = status.groups()
    if what in PLAINER:
        return PLAINER[what]
    field = _FIELD.search(what)
    if code == "NOT_FOUND" and field is not None:
        what = field[1]
    return _short(HINTS.get(code, "{0}").format(what))


def _short(text: str) -> str:
    one = " ".join(_NOISE.sub("", text).split()).rstrip(". ")
    return one if len(one) <= REASON_CHARS_MAX else f"{one[:REASON_CHARS_MAX]}…"
