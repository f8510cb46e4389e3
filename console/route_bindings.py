"""Bindings of a route as rows of a form, and the rows as bindings.

Invariants: rows are used only if they have the same meaning as the bindings. Other bindings are edited as JSON. The reason of a rejected binding is in its row,
next to its input. Does not contain: the rules of bindings (`brokerd.cluster.routes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.texts import gettext_lazy
from controlplane.domain.route_bindings import BindingProblem, MatchKind, SampleBy, binding_problem, have_equal_meaning

ROWS_MAX = 50
"""Maximum number of rows of a form. A form has at most 1,000 inputs (Django's limit). A route with more bindings is edited as JSON."""
KINDS = (
    (MatchKind.KEY, gettext_lazy("Key is equal")),
    (MatchKind.PATTERN, gettext_lazy("Key matches pattern")),
    (MatchKind.HEADERS_ALL, gettext_lazy("All headers match")),
    (MatchKind.HEADERS_ANY, gettext_lazy("Any header matches")),
    (MatchKind.ALL, gettext_lazy("Every record")),
)
HEADER_KINDS = (MatchKind.HEADERS_ALL, MatchKind.HEADERS_ANY)
SAMPLES = ((SampleBy.KEY, gettext_lazy("by key")), (SampleBy.OFFSET, gettext_lazy("by offset")))

TRANSFORMATIONS = (
    ("set_headers", gettext_lazy("Set headers")),
    ("remove_headers", gettext_lazy("Remove headers")),
    ("key_from_header", gettext_lazy("Key from header")),
)

Row = dict[str, str]
"""The texts of the inputs of one binding, by the names in ROW."""
ROW: Row = {
    "target": "",
    "kind": MatchKind.KEY.value,
    "match": "",
    "sample_percent": "",
    "sample_by": SampleBy.KEY.value,
    "set_headers": "",
    "remove_headers": "",
    "key_from_header": "",
    "drop_key": "",
}
"""A new row. `match`: a key, a pattern, or one header per line. `drop_key`: "on" or empty."""
OPTIONS = ("sample_percent", "set_headers", "remove_headers", "key_from_header", "drop_key")
INPUT_OF = {"value": "match", "headers": "match", "kind": "kind"}
"""Input of each field of a match."""


def rows_of(bindings: Sequence[Mapping[str, object]]) -> list[Row] | None:
    """The rows of valid bindings; None if rows cannot have them."""
    if len(bindings) > ROWS_MAX:
        return None
    rows = [_row(b) for b in bindings]
    found, problems = bindings_of(rows)
    # A browser sends each line break as CR LF, so a CR would be lost.
    lossless = not any("\r" in text for row in rows for text in row.values())
    return rows if lossless and not problems and have_equal_meaning(found, bindings) else None


@dataclass(frozen=True, slots=True)
class BindingText:
    """A human-readable binding. `conditions`: a key, a pattern, or the lines of headers. `options`: (label, value), without those that are not set.
    `definition`: the binding as JSON if rows cannot have it; the other texts are empty then."""

    target: str
    match: str = ""
    conditions: Sequence[str] = ()
    options: Sequence[tuple[str, str]] = ()
    definition: str = ""


def text_of(binding: Mapping[str, object]) -> BindingText:
    rows = rows_of([binding])
    if rows is None:
        return BindingText(str(binding.get("target", "")), definition=json.dumps(binding, ensure_ascii=False))
    row = rows[0]
    options: list[tuple[str, str]] = []
    if percent := row["sample_percent"]:
        options.append((_("Sample"), f"{percent} % {dict(SAMPLES)[SampleBy(row['sample_by'])]}"))
    for name, label in TRANSFORMATIONS:
        if row[name]:
            options.append((label, row[name]))
    if row["drop_key"]:
        options.append((_("Without key"), ""))
    return BindingText(row["target"], dict(KINDS)[MatchKind(row["kind"])], row["match"].split("\n"), options)


def bindings_of(rows: Sequence[Row]) -> tuple[list[dict[str, object]], dict[int, dict[str, str]]]:
    """(bindings, {row: {input: reason}} of those that are rejected)."""
    bindings: list[dict[str, object]] = []
    problems: dict[int, dict[str, str]] = {}
    for i, row in enumerate(rows):
        binding = _binding(row)
        problem = _row_problem(row) or binding_problem(binding)
        if problem is not None:
            problems[i] = {input_of(problem.path): _sentence(problem.reason)}
        bindings.append(binding)
    return bindings, problems


def input_of(path: Sequence[str]) -> str:
    """The input of a field of a binding, for example of ("match", "headers", "1", "name")."""
    if path[:1] == ("match",):
        return INPUT_OF.get(path[1] if len(path) > 1 else "", "match")
    return path[0] if path and path[0] in ROW else "target"


def _sentence(reason: str) -> str:
    return _("Required: {reason}.").format(reason=reason)


def _row_problem(row: Row) -> BindingProblem | None:
    """A text that no binding can have."""
    if row["kind"] == MatchKind.ALL and row["match"].strip():
        return BindingProblem(("match", "value"), _("an empty field, because every record matches"))
    if row["sample_percent"].strip() and _number(row["sample_percent"]) is None:
        return BindingProblem(("sample_percent",), _("a number of more than 0 and at most 100"))
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _binding(row: Row) -> dict[str, object]:
    kind, text = row["kind"], row["match"]
    match: dict[str, object] = {"kind": kind}
    if kind in HEADER_KINDS:
        match["headers"] = [_rule(line) for line in _lines(text)]
    elif kind != MatchKind.ALL:
        match["value"] = text
    found: dict[str, object] = {"target": row["target"].strip(), "match": match}
    if row["sample_percent"].strip():
        found["sample_percent"] = _number(row["sample_percent"])
        found["sample_by"] = row["sample_by"]
    if lines := _lines(row["set_headers"]):
        found["set_headers"] = [_rule(line) for line in lines]
    if lines := _lines(row["remove_headers"]):
        found["remove_headers"] = lines
    if row["key_from_header"]:
        found["key_from_header"] = row["key_from_header"]
    if row["drop_key"]:
        found["drop_key"] = True
    return found


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _rule(line: str) -> dict[str, str]:
    """`name=value`, or a name alone: the header with any value."""
    name, equals, value = line.partition("=")
    return {"name": name, "value": value} if equals else {"name": name}


def _row(binding: Mapping[str, Any]) -> Row:
    match = binding.get("match") or {}
    kind = str(match.get("kind", ""))
    text = _rules(match.get("headers")) if kind in HEADER_KINDS else str(match.get("value") or "")
    percent = binding.get("sample_percent")
    return {
        "target": str(binding.get("target", "")),
        "kind": kind,
        "match": text,
        "sample_percent": "" if percent in (None, 100) else f"{percent:g}",
        "sample_by": str(binding.get("sample_by") or SampleBy.KEY.value),
        "set_headers": _rules(binding.get("set_headers")),
        "remove_headers": "\n".join(binding.get("remove_headers") or ()),
        "key_from_header": str(binding.get("key_from_header") or ""),
        "drop_key": "on" if binding.get("drop_key") else "",
    }


def _rules(rules: Sequence[Mapping[str, Any]] | None) -> str:
    return "\n".join(r["name"] if r.get("value") is None else f"{r['name']}={r['value']}" for r in rules or ())


class BindingRowsWidget(forms.Widget):
    """A table with a row per binding. Its buttons `bindings-edit` send the form: `add`, or the number of the row to remove. `problems`: {row: {input:
    reason}}. `focus`: the row whose first input gets the focus."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[int, dict[str, str]] = {}
        self.focus: int | None = None

    def value_from_datadict(self, data: Mapping[str, str], files: object, name: str) -> list[Row]:
        try:
            count = min(int(data.get(f"{name}-rows", "")), ROWS_MAX)
        except ValueError:
            count = 0
        blank = {**ROW, "kind": "", "sample_by": ""}
        return [
            {key: str(data.get(f"{name}-{i}-{key}", old)).replace("\r\n", "\n") for key, old in blank.items()}
            for i in range(count)
        ]

    def value_omitted_from_data(self, data: Mapping[str, str], files: object, name: str) -> bool:
        return f"{name}-rows" not in data

    def render(self, name: str, value: list[Row] | None, attrs: object = None, renderer: object = None) -> SafeString:
        rows = value or [dict(ROW)]
        context = {
            "name": name,
            "rows": [
                {
                    "row": row,
                    "errors": self.problems.get(i, {}),
                    "focus": i == self.focus,
                    "open": self._has_options(i, row),
                }
                for i, row in enumerate(rows)
            ],
            "kinds": KINDS,
            "samples": SAMPLES,
            "full": len(rows) >= ROWS_MAX,
            "single": len(rows) == 1,
        }
        return render_to_string("console/parts/binding_rows.html", context)

    def _has_options(self, index: int, row: Row) -> bool:
        return any(row[name] or name in self.problems.get(index, {}) for name in OPTIONS)


class BindingRowsField(forms.Field):
    """Bindings as rows. The value is the list of a REST request."""

    widget = BindingRowsWidget

    def clean(self, value: list[Row] | None) -> list[dict[str, object]]:
        bindings, problems = bindings_of(value or [dict(ROW)])
        if problems:
            self.widget.problems = problems
            raise forms.ValidationError(_("Correct the bindings."))
        return bindings


def edit_rows(rows: list[Row], edit: str) -> tuple[list[Row], int]:
    """(rows after a button, the row that gets the focus). `edit`: add, or the number of the row to remove."""
    if edit == "add":
        return ([*rows, dict(ROW)], len(rows)) if len(rows) < ROWS_MAX else (rows, len(rows) - 1)
    index = int(edit) if edit.isascii() and edit.isdigit() else -1
    left = [row for i, row in enumerate(rows) if i != index] or [dict(ROW)]
    return left, min(max(index, 0), len(left) - 1)
