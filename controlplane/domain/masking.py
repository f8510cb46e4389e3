"""Masking rules: the parts of a record that are hidden from a user without raw access.

Invariants: a masked key or value is rebuilt from its decoded structure, so bytes that no rule matches never appear. If it is neither an object nor an array, it
is hidden as a whole, in every format. If a path reaches a number or text before its last step, that value is hidden. So data that a rule does not
expect is hidden, not shown. Does not contain: the stored rules and the users to whom they apply (`controlplane.services.masking`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from controlplane.domain.errors import Rejected
from controlplane.domain.formats import (
    NULL,
    Decoded,
    Format,
    Rendered,
    json_text,
    render,
    render_decoded,
    structure_of,
    text_of,
)
from weir_common.json_values import Json
from weir_common.phrases import sentence
from weir_common.schema_formats import Schemas

MASKED = "masked"
"""`Rendered.format` of a key, value or header that is hidden as a whole."""

REPLACEMENT = "[masked]"
PATH_CHARS_MAX = 200
"""Maximum number of characters of a JSON path or a header name: the width of the column."""

STEPS_MAX = 20
"""Maximum number of steps of a JSON path. Each costs a walk over the value."""

TOPIC_PATTERN = re.compile(r"[a-zA-Z0-9._*-]{1,249}")
STEP = re.compile(r"(?P<deep>\.\.)(?P<below>[\w$-]+)|\.(?P<name>[\w$-]+|\*)|\['(?P<quoted>[^']+)'\]|(?P<each>\[\*\])")


class MaskTarget(StrEnum):
    KEY = "key"
    VALUE = "value"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class PathStep:
    """One field name. `name` "*": every field. `deep`: the field at any depth."""

    name: str
    deep: bool = False


@dataclass(frozen=True, slots=True)
class MaskRule:
    """`topics`: a name, with * for any characters. `field`: a JSON path for keys and values ("" hides the whole), a name with * for headers."""

    topics: str
    target: MaskTarget
    field: str = ""

    def applies_to(self, topic: str) -> bool:
        return fnmatchcase(topic, self.topics)


def parse_path(text: str) -> tuple[PathStep, ...]:
    """The steps of a JSON path: $.a.b, $['a b'], $.*, $..a. Arrays need no step: a name applies to each of their elements. Raises Rejected."""
    if text in ("", "$"):
        return ()
    steps: list[PathStep] = []
    at = 1
    while at < len(text) and text[0] == "$" and len(text) <= PATH_CHARS_MAX and len(steps) < STEPS_MAX:
        match = STEP.match(text, at)
        if match is None:
            break
        at = match.end()
        if not match["each"]:
            steps.append(PathStep(match["below"] or match["name"] or match["quoted"], bool(match["deep"])))
    if at != len(text) or not steps:
        raise Rejected(
            sentence(
                "{value} is not a supported JSON path; use $.customer.card, $.items.price, $['card number'] or $..card.",
                value=repr(text),
            ),
            "field",
        )
    return tuple(steps)


def check_rule(rule: MaskRule) -> None:
    """Raises Rejected for a pattern, path or header name that no rule can have."""
    if not TOPIC_PATTERN.fullmatch(rule.topics):
        raise Rejected(
            sentence(
                "{topics} is not a topic pattern; use a topic name with * for any characters.", topics=repr(rule.topics)
            ),
            "topics",
        )
    if rule.target is not MaskTarget.HEADER:
        parse_path(rule.field)
    elif not rule.field or len(rule.field) > PATH_CHARS_MAX:
        raise Rejected("Name a header, with * for any characters.", "field")


def apply_path(structure: Json, steps: Sequence[PathStep]) -> Json:
    """A copy of the structure with each value at the path replaced."""
    if not steps:
        return structure if structure is None else REPLACEMENT
    if isinstance(structure, list):
        return [apply_path(item, steps) for item in structure]
    step, rest = steps[0], steps[1:]
    if not isinstance(structure, dict):
        return structure if structure is None or step.deep else REPLACEMENT
    masked = {}
    for name, value in structure.items():
        if step.deep:
            value = _deeper(value, steps)
        masked[name] = apply_path(value, rest) if step.name in ("*", name) else value
    return masked


def _deeper(value: Json, steps: Sequence[PathStep]) -> Json:
    return apply_path(value, steps) if isinstance(value, dict | list) else value


class RecordRenderer:
    """Renders the records of one topic for one reader. `rules`: the rules that apply to this reader; empty for one with raw access.

    Every page, response and live update that shows a record uses it. A filter for a reader with rules must compare rendered text, because
    matches of raw bytes disclose masked data."""

    def __init__(
        self,
        topic: str,
        rules: Sequence[MaskRule] = (),
        *,
        key_format: Format = Format.AUTO,
        value_format: Format = Format.AUTO,
        schemas: Schemas | None = None,
    ) -> None:
        self._rules = [rule for rule in rules if rule.applies_to(topic)]
        self._formats = {MaskTarget.KEY: key_format, MaskTarget.VALUE: value_format}
        self._paths = {
            target: [parse_path(rule.field) for rule in self._rules if rule.target is target]
            for target in self._formats
        }
        self._schemas = schemas

    @property
    def masks(self) -> bool:
        """True if a rule applies to this topic."""
        return bool(self._rules)

    def hides(self, header_name: str = "") -> bool:
        """Return whether a rule applies to keys, or to the values of this header. A search for such a value discloses it."""
        if header_name:
            return self._hides_header(header_name)
        return any(rule.target is MaskTarget.KEY for rule in self._rules)

    def _hides_header(self, name: str) -> bool:
        patterns = (rule.field.casefold() for rule in self._rules if rule.target is MaskTarget.HEADER)
        return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)

    def key(self, data: bytes | None) -> Rendered:
        return self._render(MaskTarget.KEY, data)

    def value(self, data: bytes | None) -> Rendered:
        return self._render(MaskTarget.VALUE, data)

    def header(self, name: str, data: bytes | None) -> Rendered:
        """Render the value of a header, as the rules permit. The case of header names does not matter."""
        if data is not None and self._hides_header(name):
            return hidden_value(len(data))
        return render(data)

    def structured_key(self, data: bytes | None) -> Json:
        """The object or array of the key by the automatic format, else its text, as the rules permit. None for null."""
        return self._decoded_json(MaskTarget.KEY, data)

    def structured_value(self, data: bytes | None) -> Json:
        """The object or array of the value by the automatic format, else its text, as the rules permit. None for null."""
        return self._decoded_json(MaskTarget.VALUE, data)

    def _decoded_json(self, target: MaskTarget, data: bytes | None) -> Json:
        paths = self._paths[target]
        if data is None:
            return None
        structure = structure_of(data, self._schemas) if all(paths) else None
        if structure is None:
            return REPLACEMENT if paths else text_of(data, self._schemas)
        try:
            for steps in paths:
                structure = apply_path(structure, steps)
        except RecursionError:
            return REPLACEMENT
        return structure

    def _render(self, target: MaskTarget, data: bytes | None) -> Rendered:
        paths = self._paths[target]
        if data is None:
            return Rendered(NULL, None, 0)
        if not paths:
            return render(data, self._formats[target], self._schemas)
        structure = structure_of(data, self._schemas) if all(paths) else None
        if structure is None:
            return hidden_value(len(data))
        try:
            for steps in paths:
                structure = apply_path(structure, steps)
            text = json_text(structure)
        except RecursionError:
            return hidden_value(len(data))
        return render_decoded(
            Decoded(Format.JSON, text, note="Masking rules apply; the format is always JSON."), len(data)
        )


def hidden_value(size: int) -> Rendered:
    return Rendered(MASKED, REPLACEMENT, size, sentence("Hidden by a masking rule."))
