"""Types of proposals that need a second person: the text that both people see, and the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from controlplane.models.change import Outcome
from weir_common.json_values import JsonObject
from weir_common.phrases import text_from_json, text_to_json, texts_from_json, texts_to_json


@dataclass(frozen=True, slots=True)
class ProposalText:
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


class HashedView(TypedDict):
    """The part of a view that both people agree on: its hash is compared."""

    title: str
    lines: list[str]
    facts: dict[str, object]


class ShownView(HashedView):
    """`current_values`: a proposal of an earlier version has none."""

    current_values: NotRequired[list[str]]


class StoredView(ShownView):
    """The view as the row of a proposal contains it. `phrases`: `ProposalText.phrases`; a proposal of an earlier version has none."""

    phrases: NotRequired[JsonObject]


def with_phrases(stored: StoredView) -> ShownView:
    """The texts and facts of a stored proposal, with the phrases of its texts. A proposal of an earlier version has English texts only."""
    shown = ShownView(title=stored["title"], lines=stored["lines"], facts=stored["facts"])
    if "current_values" in stored:
        shown["current_values"] = stored["current_values"]
    if phrases := stored.get("phrases"):
        shown["title"] = text_from_json(phrases["title"])
        shown["lines"] = list(texts_from_json(phrases["lines"]))
        shown["current_values"] = list(texts_from_json(phrases["current_values"]))
    return shown


@dataclass(frozen=True, slots=True)
class ApprovedOperation:
    """An approved operation: both people have seen `facts`. `actor` proposed the operation. `comment` names the proposal and its approver, so it is
    unique."""

    target: str
    arguments: Mapping[str, object]
    facts: Mapping[str, object]
    actor: str
    comment: str


@dataclass(frozen=True, slots=True)
class ProposalHandler:
    """`show(target, arguments)` raises Rejected if there is nothing to propose. `carry_out(act)` runs the operation and returns its outcome (read back if
    possible) and a message. `carry_out` may raise Rejected, and must be idempotent."""

    label: str
    show: Callable[[str, Mapping[str, object]], ProposalText]
    carry_out: Callable[[ApprovedOperation], tuple[Outcome, str]]
