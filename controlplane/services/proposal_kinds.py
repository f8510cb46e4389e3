"""Types of proposals that need a second person: the text that both people see, and the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.models.change import Outcome


@dataclass(frozen=True, slots=True)
class Shown:
    """The text that both people see: `title` names the operation, `lines` describe its effect and its possible loss, `facts` are the basis of the lines. These
    three are hashed, so they contain no value that changes automatically. `current_values` contains these values; each person sees the current ones."""

    title: str
    lines: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    current_values: tuple[str, ...] = ()


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
