"""Limits of many quotas and throttles of many moves: the preview of each, and the change one by one.

Invariant: a rejection of one object does not stop the other objects, and its reason is in the result. Does not contain: one change (`quotas`, `moves`), the
roles (`controlplane.services.authorization`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.quota_entities import CONNECTIONS, IP, USER, entity_of, value_problem
from controlplane.domain.quota import entity_text
from controlplane.models import AccessEntry, Move, MovePartition
from controlplane.models.move import FINISHED_STATES
from controlplane.selectors.bulk_lists import row_ids
from controlplane.selectors.quotas import quota_rows
from controlplane.selectors.visibility import visible
from controlplane.services import quotas, throttles
from controlplane.services.common import Rejected, needs_reason
from controlplane.services.moves import throttle_move
from weir_common.phrases import Phrase, sentence

ROWS_MAX = 500
"""Maximum number of quotas of one change: each is a transaction, and all of them run in one request of the console."""
MOVES_MAX = 100
"""Maximum number of moves of one change. Each change computes the throttles of all brokers again."""
THROTTLE = "throttle_bytes_per_s"


class BulkLimitOutcome(StrEnum):
    DONE = "done"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkLimitRow:
    """`key`: the id of the quota or move. `now`: the current limits. `changes`: (limit, value now, new value), None = no limit. `problem`: why it will be
    rejected, or ""."""

    key: str
    name: str
    now: list[tuple[str, float | None]]
    changes: list[tuple[str, float | None, float | None]]
    problem: str


@dataclass(frozen=True, slots=True)
class BulkLimitResult:
    key: str
    name: str
    outcome: BulkLimitOutcome
    detail: str


def limit_problems(limits: Mapping[str, float | None]) -> dict[str, str]:
    """All reasons why the limits are invalid for any entity, by the name of the limit."""
    if not limits:
        return {"": "Give at least one limit."}
    found = {}
    for name, value in limits.items():
        entity = {IP if name == CONNECTIONS else USER: None}
        if (problem := value_problem(entity, name, value)) is not None:
            found[name] = f"{problem}."
    return found


def preview_quotas(keys: Sequence[str], limits: Mapping[str, float | None]) -> list[BulkLimitRow]:
    """The changes of the limits, in the order of the keys. Unknown keys are omitted. Raises Rejected for too many."""
    _at_most(keys, ROWS_MAX)
    rows = {str(r.pk): r for r in visible(quota_rows().filter(pk__in=row_ids(keys)))}
    return [_quota_row(rows[key], limits) for key in dict.fromkeys(keys) if key in rows]


def _quota_row(row: AccessEntry, limits: Mapping[str, float | None]) -> BulkLimitRow:
    entity, now = entity_of(row.key), row.value or {}
    changes = [(name, now.get(name), value) for name, value in limits.items() if now.get(name) != value]
    problem = next((p for name, value in limits.items() if (p := value_problem(entity, name, value))), None)
    return BulkLimitRow(str(row.pk), entity_text(entity), list(now.items()), changes, f"{problem}." if problem else "")


def set_quotas(
    keys: Sequence[str], limits: Mapping[str, float | None], *, actor: str, comment: str
) -> list[BulkLimitResult]:
    """Set these limits of each quota. Other limits are not changed. Raises Rejected if no quota was changed."""
    needs_reason(comment)
    if problems := limit_problems(limits):
        name, problem = next(iter(problems.items()))
        raise Rejected(problem, f"limits.{name}" if name else "limits")
    entities = {str(r.pk): entity_of(r.key) for r in visible(quota_rows().filter(pk__in=row_ids(keys)))}

    def set_one(row: BulkLimitRow) -> None:
        quotas.set_quota(entities[row.key], limits, actor=actor, comment=comment)

    return _run_for_each(preview_quotas(keys, limits), set_one)


def topics_of_moves(keys: Sequence[str]) -> list[str]:
    """The topics of these moves, whose roles a change needs. Empty if a move has no topic: then the role for the whole cluster is needed."""
    parts = MovePartition.objects.filter(move_id__in=row_ids(keys)).order_by()
    found = list(parts.values_list("move_id", "topic_name").distinct())
    return sorted({t for _, t in found}) if {str(m) for m, _ in found} == set(keys) else []


def preview_throttles(keys: Sequence[str], bytes_per_s: int | None) -> list[BulkLimitRow]:
    """The changes of the throttle, in the order of the keys. Unknown moves are omitted. Raises Rejected for too many."""
    _at_most(keys, MOVES_MAX)
    rows = {str(m.pk): m for m in visible(Move.objects.filter(pk__in=row_ids(keys)))}
    return [_move_row(rows[key], bytes_per_s) for key in dict.fromkeys(keys) if key in rows]


def _move_row(move: Move, bytes_per_s: int | None) -> BulkLimitRow:
    now = move.throttle_bytes_per_s
    same = now == bytes_per_s and move.adaptive is None
    problem = (
        sentence("The move is {state}.", state=Phrase(move.state.replace("_", " ")))
        if move.state in FINISHED_STATES
        else ""
    )
    name = sentence("move {id}", id=move.pk)
    changes: list[tuple[str, float | None, float | None]] = [] if same else [(THROTTLE, now, bytes_per_s)]
    return BulkLimitRow(str(move.pk), name, [(THROTTLE, now)], changes, problem)


def throttle_moves(keys: Sequence[str], bytes_per_s: int | None, *, actor: str, comment: str) -> list[BulkLimitResult]:
    """Set the throttle of each move, in bytes/s and broker; None removes it. An adaptive throttle is replaced. If it raises Rejected, no throttle was
    changed."""
    needs_reason(comment)
    throttles.check(bytes_per_s)

    def set_one(row: BulkLimitRow) -> None:
        throttle_move(int(row.key), bytes_per_s, actor=actor, comment=comment)

    return _run_for_each(preview_throttles(keys, bytes_per_s), set_one)


def _run_for_each(rows: Sequence[BulkLimitRow], run: Callable[[BulkLimitRow], None]) -> list[BulkLimitResult]:
    results = []
    for row in rows:
        outcome, detail = BulkLimitOutcome.UNCHANGED, ""
        if row.changes or row.problem:
            try:
                run(row)
                outcome = BulkLimitOutcome.DONE
            except Rejected as error:
                outcome, detail = BulkLimitOutcome.REJECTED, error.reason
        results.append(BulkLimitResult(row.key, row.name, outcome, detail))
    return results


def _at_most(keys: Sequence[str], most: int) -> None:
    if len(keys) > most:
        raise Rejected(
            sentence(
                "{count} rows are more than {max}, the limit of this change. Narrow the filter, or select rows.",
                count=f"{len(keys):,}",
                max=f"{most:,}",
            )
        )
