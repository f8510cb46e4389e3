"""Errors that services and selectors raise for input that cannot be carried out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from controlplane.domain.json_syntax import syntax_problem
from weir_common.phrases import joined, sentence


class Rejected(Exception):
    """`field` names the invalid input. "" = no input is invalid: the state of the cluster prevents the operation, and a later attempt may succeed."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


class AlreadyExists(Rejected):
    """An object of this name exists. Kafka has a separate error code for this case."""


class MisfitValue(Rejected):
    """A value that does not fit its schema. `faults`: (path in the value, sentence) of each fault; at least one."""

    def __init__(self, field: str, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(joined(text for _, text in faults), field)
        self.faults = tuple(faults)

    @property
    def sentences(self) -> list[str]:
        return [text for _, text in self.faults]


def not_one_of(text: str, value: str, allowed: Iterable[str], field: str) -> Rejected:
    """The rejection of an input that is not an allowed one. `text`: a literal with the placeholders {value} and {allowed}."""
    return Rejected(sentence(text, value=repr(value), allowed=", ".join(allowed)), field)


def not_json(error: json.JSONDecodeError, field: str) -> Rejected:
    """The rejection of an input that is not JSON."""
    return Rejected(sentence("Not JSON: {problem}", problem=syntax_problem(error)), field)
