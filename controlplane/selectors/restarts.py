"""Rolling restarts: the list, and one restart with the step of each broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.domain.restart import RestartState, StepState
from controlplane.models import RestartStep, RollingRestart
from controlplane.selectors.common import RowFilter, StateFilter, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import limited
from weir_common.phrases import with_phrase


@dataclass(frozen=True, slots=True)
class TurnRow:
    """The step of one broker. `state`: waiting, demoting, restarting, catching_up, done, skipped. `away_s`: from its restart request until all its
    replicas were in sync again."""

    broker_id: int
    state: str
    note: str
    began_at: datetime | None
    asked_at: datetime | None
    back_at: datetime | None
    finished_at: datetime | None
    away_s: float | None

    @property
    def is_blocked(self) -> bool:
        """A queued broker has a note only while the job waits for the conditions of its restart."""
        return self.state == StepState.WAITING and bool(self.note)


@dataclass(frozen=True, slots=True)
class RestartRow:
    """`by_supervisor`: the supervisor restarts the processes; otherwise a person does, when the note of a step says so. `now`: the current step or the
    next one, None after the last. `can`: the verbs that this state allows: pause, resume, cancel."""

    id: int
    state: str
    by_supervisor: bool
    brokers: list[int]
    done: int
    now: TurnRow | None
    turns: list[TurnRow]
    actor: str
    comment: str
    note: str
    created_at: datetime
    finished_at: datetime | None
    can: list[str]

    @property
    def is_blocked(self) -> bool:
        return self.state == RestartState.RUNNING and self.now is not None and self.now.is_blocked


UNFINISHED, FINISHED = "unfinished", "finished"
ENDED = Q(state__in=(RestartState.DONE, RestartState.CANCELLED))
VERBS: dict[str, list[str]] = {
    RestartState.RUNNING: ["pause", "cancel"],
    RestartState.PAUSED: ["resume", "cancel"],
}


class RestartFilter(RowFilter):
    state = StateFilter(
        {UNFINISHED: ~ENDED, FINISHED: ENDED, **in_states(RestartState)},
        help_text="unfinished and finished: groups of the other states.",
    )


def restart_list(*, page: PageStart = 1, per_page: int = 50) -> Page[RestartRow]:
    """Newest first."""
    return restart_page(RollingRestart.objects.all(), page=page, per_page=per_page)


def restart_page(
    rows: QuerySet[RollingRestart], *, sort: str = "-id", page: PageStart, per_page: int, query: str = ""
) -> Page[RestartRow]:
    return paginate(
        rows.prefetch_related("steps"),
        lambda found: [_row(r) for r in found],
        page=page,
        per_page=per_page,
        sort="-id",
        columns={"id": "id"},
    )


def restart_row(restart_id: int) -> RestartRow | None:
    row = RollingRestart.objects.filter(pk=restart_id).first()
    return None if row is None else _row(row)


def working_restart() -> RestartRow | None:
    """The unfinished restart: there is at most one. None for a user who sees only some resources: its notes name partitions."""
    if limited():
        return None
    row = RollingRestart.objects.filter(turn=1).first()
    return None if row is None else _row(row)


def _row(restart: RollingRestart) -> RestartRow:
    turns = [_turn(s) for s in restart.steps.all()]
    open_ = [t for t in turns if t.state not in (StepState.DONE, StepState.SKIPPED)]
    under_way = next((t for t in open_ if t.state != StepState.WAITING), None)
    return RestartRow(
        id=restart.pk,
        state=restart.state,
        by_supervisor=restart.by_supervisor,
        brokers=[t.broker_id for t in turns],
        done=sum(1 for t in turns if t.state == StepState.DONE),
        now=under_way or next(iter(open_), None),
        turns=turns,
        actor=restart.actor,
        comment=restart.comment,
        note=with_phrase(restart.note, restart.note_phrase),
        created_at=restart.created_at,
        finished_at=restart.finished_at,
        can=VERBS.get(restart.state, []),
    )


def _turn(s: RestartStep) -> TurnRow:
    away = (s.back_at - s.asked_at).total_seconds() if s.back_at and s.asked_at else None
    note = with_phrase(s.note, s.note_phrase)
    return TurnRow(s.broker_id, s.state, note, s.began_at, s.asked_at, s.back_at, s.finished_at, away)
