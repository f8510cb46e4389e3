"""Types of proposals that need a second person: the text that both people see, and the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.models.change import Outcome
from weir_common.json_values import JsonObject
from weir_common.phrases import text_from_json, text_to_json, texts_from_json, texts_to_json


@dataclass(frozen=True, slots=True)
class Shown:
    """The text that both people see: `title` names the operation, `lines` describe its effect and its possible loss, `facts` are the basis of the lines. These
    three are hashed, so they contain no value that changes automatically. `current_values` contains these values; each person sees the current ones."""

    title: str
    lines: tuple[str, ...]
    facts: Mapping[str, object] = field(default_factory=dict)
    current_values: tuple[str, ...] = ()

    def phrases(self) -> JsonObject:
        """The texts with their values, as `with_phrases` reads them."""
        return {
            "title": text_to_json(self.title),
            "lines": texts_to_json(self.lines),
            "current_values": texts_to_json(self.current_values),
        }


def with_phrases(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The texts and facts of a stored proposal, with the phrases of its texts. A proposal of an earlier version has English texts only."""
    shown = {key: value for key, value in stored.items() if key != "phrases"}
    if phrases := stored.get("phrases"):
        shown |= {
            "title": text_from_json(phrases["title"]),
            "lines": list(texts_from_json(phrases["lines"])),
            "current_values": list(texts_from_json(phrases["current_values"])),
        }
    return shown


@dataclass(frozen=True, slots=True)
class Act:
    """An approved operation: both people have seen `facts`. `actor` proposed the operation. `comment` names the proposal and its approver, so it is
    unique."""

    target: str
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    actor: str
    comment: str


@dataclass(frozen=True, slots=True)
class ProposalHandler:
    """`show(target, arguments)` raises Rejected if there is nothing to propose. `carry_out(act)` runs the operation and returns its outcome (read back if
    possible) and a message. `carry_out` may raise Rejected, and must be idempotent."""

    label: str
    show: Callable[[str, Mapping[str, Any]], Shown]
    carry_out: Callable[[Act], tuple[Outcome, str]]
