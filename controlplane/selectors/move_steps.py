"""The step that plans a failed move again. Does not contain: the other steps of an alert about a move (`next_steps`)."""

from __future__ import annotations

from controlplane.domain.move_states import MoveState
from controlplane.domain.next_step import NextStep, StepKind
from controlplane.domain.scope import (
    DrainScope,
    FillScope,
    PartitionsScope,
    RebalanceScope,
    ReplicationFactorScope,
    Scope,
    TopicScope,
)
from controlplane.models import Move
from controlplane.selectors.visibility import visible


def plan_move_again(move_id: int, state: str) -> list[NextStep]:
    """The step that plans this move again, for its page. Empty if the move has not failed."""
    move = visible(Move.objects.filter(pk=move_id)).first() if state == MoveState.FAILED else None
    return [] if move is None else plan_again(move)


def plan_again(move: Move) -> list[NextStep]:
    scope = _scope_values(move.scope)
    return [NextStep(StepKind.PLAN_AGAIN, f"Plan move {move.pk} again", [str(move.pk), *scope])] if scope else []


def _scope_values(scope: Scope) -> list[str]:
    """The kind of the scope, and its values as name=value. Empty if the form of a new move cannot have them."""
    kind = scope.KIND.value
    match scope:
        case DrainScope(broker, rack) | FillScope(broker, rack):
            return [kind, f"rack={rack}" if rack is not None else f"broker={broker}"]
        case TopicScope(topic, brokers):
            return [kind, f"topic={topic}", *(f"over={b}" for b in brokers)]
        case ReplicationFactorScope(topic, factor):
            return [kind, f"topic={topic}", f"factor={factor}"]
        case RebalanceScope(goals, tolerance):
            return [kind, *(f"goal={g}" for g in goals), f"tolerance={tolerance:g}"]
        case PartitionsScope(placements, count):
            topics = {p.topic for p in placements}
            if len(topics) != 1 or count not in (None, len(placements)):
                return []
            chosen = ((f"p={p.partition}", f"r{p.partition}={','.join(map(str, p.replicas))}") for p in placements)
            return [kind, f"topic={topics.pop()}", *(value for pair in chosen for value in pair)]
