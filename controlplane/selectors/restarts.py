"""Rolling restarts: the list, and one with each broker's turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.models import RestartStep, RollingRestart
from controlplane.models.restart import RestartState
from controlplane.selectors.common import Page, paged


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One broker's turn. `state`: waiting, leaders_off, restarting, catching_up, done, skipped. `away_s`: from the order to restart it until it
    was whole again."""

    broker_id: int
    state: str
    note: str
    began_at: datetime | None
    asked_at: datetime | None
    back_at: datetime | None
    finished_at: datetime | None
    away_s: float | None


@dataclass(frozen=True, slots=True)
class RestartRow:
    """`by_house`: the supervisor restarts the processes; else a person does, when a turn's note says so. `now`: the turn under way or the next
    one, None once all are over. `can`: the verbs that this state allows: pause, resume, cancel."""

    id: int
    state: str
    by_house: bool
    brokers: list[int]
    done: int
    now: TurnRow | None
    turns: list[TurnRow]
    who: str
    why: str
    note: str
    created_at: datetime
    finished_at: datetime | None
    can: list[str]


VERBS: dict[str, list[str]] = {
    RestartState.RUNNING: ["pause", "cancel"],
    RestartState.PAUSED: ["resume", "cancel"],
}


def restart_list(*, page: int = 1, per_page: int = 50) -> Page[RestartRow]:
    """Newest first."""
    rows = RollingRestart.objects.prefetch_related("steps")
    return paged(
        rows, lambda found: [_row(r) for r in found], page=page, per_page=per_page, sort="-id", columns={"id": "id"}
    )


def restart_row(restart_id: int) -> RestartRow | None:
    row = RollingRestart.objects.filter(pk=restart_id).first()
    return None if row is None else _row(row)


def working_restart() -> RestartRow | None:
    """The one that is not finished: there is one at most."""
    row = RollingRestart.objects.filter(turn=1).first()
    return None if row is None else _row(row)


def _row(r: RollingRestart) -> RestartRow:
    turns = [_turn(s) for s in r.steps.all()]
    open_ = [t for t in turns if t.state not in ("done", "skipped")]
    under_way = next((t for t in open_ if t.state != "waiting"), None)
    return RestartRow(
        id=r.pk, state=r.state, by_house=r.by_house, brokers=[t.broker_id for t in turns],
        done=sum(1 for t in turns if t.state == "done"), now=under_way or next(iter(open_), None), turns=turns,
        who=r.who, why=r.why, note=r.note, created_at=r.created_at, finished_at=r.finished_at, can=VERBS.get(r.state, []),
    )  # fmt: skip


def _turn(s: RestartStep) -> TurnRow:
    away = (s.back_at - s.asked_at).total_seconds() if s.back_at and s.asked_at else None
    return TurnRow(s.broker_id, s.state, s.note, s.began_at, s.asked_at, s.back_at, s.finished_at, away)
