"""Moves with their progress. Invariant: remaining bytes and times are ranges or None, never an estimate shown as a fact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.domain import page_phrases as texts
from controlplane.domain import window as windows
from controlplane.domain.move_states import UNDER_WAY, MoveMode, MoveOrigin, MoveVerb
from controlplane.domain.progress import MoveTotals, sample_rates
from controlplane.domain.scope import (
    DrainScope,
    FillScope,
    PartitionsScope,
    RebalanceScope,
    ReplicationFactorScope,
    Scope,
    TopicScope,
)
from controlplane.domain.wait_reason import Wait
from controlplane.models import Move, MovePartition, MoveTransition
from controlplane.models.move import FINISHED_STATES, MoveState, PartState
from controlplane.selectors.common import StateFilter, TimeFilter, in_states
from controlplane.selectors.move_totals import TotalsKind, parts_ended, percent, sums_of, sums_of_kinds
from controlplane.selectors.paging import Page, PageOptions, PageStart, paginate
from controlplane.selectors.visibility import visible
from weir_common.phrases import counted, sentence, with_phrase


@dataclass(frozen=True, slots=True)
class AdaptiveRow:
    """Bounds in bytes/s, and the producers' baseline and last p99 in ms."""

    cap: int
    floor: int
    baseline: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class MoveRow:
    """`can` lists the verbs that this state allows: approve, start, pause, resume, throttle, schedule, delete_records, cancel, roll_back; propose: a
    second person has to approve, because the move violates `overrides` (safety rules). `percent` is by bytes, each partition counting for at least
    1 MB; for a cancelled or failed move, the part that is at its target; null for a move that was rolled back. `parts_ended`: for a
    finished move, the partitions at their target. `eta_s`: (soonest, latest) in seconds.
    `needs_bytes_per_s` set: the move will not finish with a lower rate per broker. `waits_for`: why the whole move is blocked; empty if a partition makes progress.
    `origin`: operator, or client of a broker. `adaptive`: bounds in bytes/s of its adaptive throttle, and the producers' p99 and its baseline in ms
    as last reported. `producers_p99_ms`: p99 latency of produce requests at the slowest of the brokers that the move loads, as last reported; None
    = no produce requests. `deadline`: in mode tail the move waits for retention until then, and then requests the deletion of old records from an operator.
    `handover`: "early" for a move that does not wait for retention. `took_s`: from its start to its end."""

    id: int
    mode: str
    origin: str
    scope: Scope
    title: str
    state: str
    actor: str
    comment: str
    note: str
    parts: int
    parts_ended: int
    parts_rejected: int
    bytes_total: int | None
    bytes_done: int | None
    percent: float | None
    bytes_per_s: float | None
    eta_s: tuple[float, float] | None
    needs_bytes_per_s: int | None
    waits_for: list[Wait]
    throttle_bytes_per_s: int | None
    parts_in_flight_max: int
    parts_per_broker_max: int
    overrides: list[str]
    adaptive: AdaptiveRow | None
    producers_p99_ms: float | None
    window: dict[str, Any] | None
    window_text: str
    resumes_at: datetime | None
    deadline: datetime | None
    handover: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    took_s: float | None
    can: list[str]

    @property
    def awaits_start(self) -> bool:
        return self.state in (MoveState.PLANNED, MoveState.APPROVED)

    @property
    def needs_override(self) -> bool:
        """A second operator has not approved its override of a safety check yet."""
        return bool(self.overrides) and self.state == MoveState.PLANNED

    @property
    def is_paused(self) -> bool:
        return self.state == MoveState.PAUSED

    @property
    def is_running_or_paused(self) -> bool:
        """It moves replicas to the desired brokers, or does so after a resume."""
        return self.state in (MoveState.RUNNING, MoveState.PAUSED)

    @property
    def is_done(self) -> bool:
        return self.state == MoveState.DONE

    @property
    def is_from_client(self) -> bool:
        return self.origin == MoveOrigin.CLIENT


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """One state transition of a move."""

    at: datetime
    state_from: str
    state_to: str
    actor: str
    comment: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A sample of a move, thinned over its whole life: bytes left and bytes copied at that time, bytes/s since the previous sample."""

    at: float
    bytes_left: int
    bytes_done: int
    bytes_per_s: float | None


VERBS: dict[str, list[MoveVerb]] = {
    MoveState.PLANNED: [MoveVerb.APPROVE, MoveVerb.START, MoveVerb.THROTTLE, MoveVerb.SCHEDULE, MoveVerb.CANCEL],
    MoveState.APPROVED: [MoveVerb.START, MoveVerb.THROTTLE, MoveVerb.SCHEDULE, MoveVerb.CANCEL],
    MoveState.RUNNING: [MoveVerb.PAUSE, MoveVerb.THROTTLE, MoveVerb.SCHEDULE, MoveVerb.CANCEL, MoveVerb.ROLL_BACK],
    MoveState.PAUSED: [MoveVerb.RESUME, MoveVerb.THROTTLE, MoveVerb.SCHEDULE, MoveVerb.CANCEL, MoveVerb.ROLL_BACK],
    MoveState.VERIFYING: [MoveVerb.CANCEL, MoveVerb.ROLL_BACK],
    MoveState.CANCELLING: [MoveVerb.THROTTLE, MoveVerb.ROLL_BACK],
    MoveState.ROLLING_BACK: [MoveVerb.THROTTLE],
    MoveState.DONE: [MoveVerb.ROLL_BACK],
    MoveState.CANCELLED: [MoveVerb.ROLL_BACK],
    MoveState.ROLLED_BACK: [],
    MoveState.FAILED: [MoveVerb.ROLL_BACK],
}

ALONE = [MoveVerb.PROPOSE, MoveVerb.THROTTLE, MoveVerb.SCHEDULE, MoveVerb.CANCEL]
"""Acts that one person may do on a planned move that violates a safety rule."""

MOVE_COLUMNS = {
    "id": "id",
    "state": "state",
    "actor": "actor",
    "created_at": "created_at",
    "finished_at": "finished_at",
}
NOT_IN_A_ROW = ("samples", "throttles_before")
"""Columns that no row of the list shows and that may be long: hundreds of samples, the throttles of thousands of topics."""
ROLLED_BACK_PARTS = Q(state__in=(PartState.DONE, *UNDER_WAY)) | Q(state=PartState.REJECTED, active=True)
"""The partitions that a roll back changes. A rejected one that is still active has its old and its new replicas: their comparison found a difference."""


UNFINISHED, FINISHED = "unfinished", "finished"


class MoveFilter(TimeFilter):
    query = filters.CharFilter(method="search", help_text="Part of a topic's name, an author or a reason.")
    state = StateFilter(
        {
            UNFINISHED: ~Q(state__in=FINISHED_STATES),
            FINISHED: Q(state__in=FINISHED_STATES),
            **in_states(MoveState),
        },
        help_text="unfinished and finished: groups of the other states.",
    )

    def search(self, rows: QuerySet[Move], name: str, value: str) -> QuerySet[Move]:
        # Read the ids first: a join would copy the row of each move for each of its partitions.
        of_topic = (
            MovePartition.objects.filter(topic_name__icontains=value).order_by().values_list("move_id").distinct()
        )
        return rows.filter(Q(actor__icontains=value) | Q(comment__icontains=value) | Q(pk__in=[i for (i,) in of_topic]))


def move_list(
    *, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50, state: str = ""
) -> Page[MoveRow]:
    """Moves, newest first. `state`: UNFINISHED, FINISHED or one of MoveState."""
    rows = MoveFilter.rows(Move.objects.all(), query=query, state=state)
    return move_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def parts_to_roll_back(move_id: int) -> int:
    return MovePartition.objects.filter(ROLLED_BACK_PARTS, move_id=move_id).count()


def move_page(rows: QuerySet[Move], *, sort: str, page: PageStart, per_page: int, query: str = "") -> Page[MoveRow]:
    return paginate(
        rows.defer(*NOT_IN_A_ROW),
        _rows,
        page=page,
        per_page=per_page,
        sort=sort,
        columns=MOVE_COLUMNS,
        query=query,
        tie="-id",
    )


def move_rows(ids: list[int]) -> list[MoveRow]:
    """These moves with their totals, in the given order."""
    moves = visible(Move.objects.defer(*NOT_IN_A_ROW)).in_bulk(ids)
    return _rows([moves[i] for i in ids if i in moves])


def _rows(moves: Sequence[Move]) -> list[MoveRow]:
    sums = sums_of(moves)
    return [_row(m, sums.get(m.pk, MoveTotals())) for m in moves]


def move_row(move_id: int, kinds: Sequence[TotalsKind] | None = None) -> MoveRow | None:
    """`kinds`: those of its partitions, if the caller has already read them."""
    if kinds is None:
        return next(iter(move_rows([move_id])), None)
    move = visible(Move.objects.defer(*NOT_IN_A_ROW).filter(pk=move_id)).first()
    return None if move is None else _row(move, sums_of_kinds(kinds))


def move_history(move_id: int) -> list[TransitionRow]:
    return [_transition_row(t) for t in transitions_of_move(move_id)]


def transitions_of_move(move_id: int) -> QuerySet[MoveTransition]:
    return MoveTransition.objects.filter(move_id=move_id)


def transition_page(rows: QuerySet[MoveTransition], **options: Unpack[PageOptions]) -> Page[TransitionRow]:
    """The order of the transitions is that of their rows."""
    return paginate(rows, lambda found: [_transition_row(t) for t in found], columns={"at": "pk"}, **options)


def _transition_row(t: MoveTransition) -> TransitionRow:
    return TransitionRow(t.at, t.state_from, t.state_to, t.actor, with_phrase(t.comment, t.comment_phrase))


def move_samples(move_id: int) -> list[SampleRow]:
    samples = Move.objects.filter(pk=move_id).values_list("samples", flat=True).first() or ()
    return [
        SampleRow(s.at, s.left, s.done, None if rate is None else round(rate, 1))
        for s, rate in zip(samples, sample_rates(samples), strict=True)
    ]


def kafka_plans(move_id: int) -> dict[str, object]:
    """The planned and the previous placement, each in the form of Kafka's reassignment file."""
    parts = MovePartition.objects.filter(move_id=move_id).order_by("topic_name", "partition")
    rows = list(parts.values_list("topic_name", "partition", "replicas_from", "replicas_to"))

    def plan(place: int) -> dict[str, object]:
        return {"version": 1, "partitions": [{"topic": r[0], "partition": r[1], "replicas": r[place]} for r in rows]}

    return {"proposed": plan(3), "previous": plan(2)}


def _can(m: Move) -> list[MoveVerb]:
    can = list(ALONE if m.overrides and m.state == MoveState.PLANNED else VERBS.get(m.state, []))
    if m.mode == MoveMode.TAIL and m.state in (MoveState.RUNNING, MoveState.PAUSED):
        can.insert(can.index(MoveVerb.CANCEL), MoveVerb.DELETE_RECORDS)
    return can


def title_of(scope: Scope) -> str:
    """The scope as a phrase."""
    match scope:
        case DrainScope():
            return _of_rack_or_broker(scope, texts.DRAIN_RACK, texts.DRAIN_BROKER)
        case FillScope():
            return _of_rack_or_broker(scope, texts.FILL_RACK, texts.FILL_BROKER)
        case TopicScope(topic, brokers):
            return sentence(texts.TOPIC_TO_BROKERS, topic=topic, brokers=", ".join(map(str, brokers)))
        case ReplicationFactorScope(topic, factor):
            return sentence(texts.TOPIC_TO_FACTOR, topic=topic, factor=str(factor))
        case RebalanceScope(goals, _):
            return sentence(texts.REBALANCE_BY, goals=", ".join(goals))
        case PartitionsScope(placements, count):
            first = f"{placements[0].topic}-{placements[0].partition}" if placements else ""
            number = len(placements) if count is None else count
            return first if number == 1 else counted(number, *texts.ASSIGNMENT)


def _of_rack_or_broker(scope: DrainScope | FillScope, rack_text: str, broker_text: str) -> str:
    return (
        sentence(rack_text, rack=scope.rack)
        if scope.rack is not None
        else sentence(broker_text, broker=str(scope.broker))
    )


def _row(move: Move, totals: MoveTotals) -> MoveRow:
    total = None if totals.unknown else totals.total
    done = totals.done or 0 if total is not None else totals.done
    eta = None if move.ends_in_s_min is None or move.ends_in_s_max is None else (move.ends_in_s_min, move.ends_in_s_max)
    return MoveRow(
        id=move.pk,
        mode=move.mode,
        origin=move.origin,
        scope=move.scope,
        title=title_of(move.scope),
        state=move.state,
        actor=move.actor,
        comment=move.comment,
        note=with_phrase(move.note, move.note_phrase),
        parts=totals.parts,
        parts_ended=parts_ended(move.state, totals),
        parts_rejected=totals.rejected,
        bytes_total=total,
        bytes_done=done,
        percent=percent(move.state, totals),
        bytes_per_s=move.bytes_per_s,
        eta_s=eta,
        needs_bytes_per_s=move.needs_bytes_per_s,
        waits_for=list(move.waits_for),
        throttle_bytes_per_s=move.throttle_bytes_per_s,
        parts_in_flight_max=move.parts_in_flight_max,
        parts_per_broker_max=move.parts_per_broker_max,
        overrides=list(move.overrides),
        adaptive=AdaptiveRow(move.adaptive.cap, move.adaptive.floor, move.adaptive.baseline, move.adaptive.p99)
        if move.adaptive
        else None,
        producers_p99_ms=move.producer_latency.rows[-1][1] if move.producer_latency.rows else None,
        window=None if move.window is None else windows.to_json(move.window),
        window_text=windows.text(move.window) if move.window else "",
        resumes_at=move.resumes_at,
        deadline=move.deadline,
        handover=move.handover,
        created_at=move.created_at,
        started_at=move.started_at,
        finished_at=move.finished_at,
        took_s=(move.finished_at - move.started_at).total_seconds() if move.finished_at and move.started_at else None,
        can=[verb.value for verb in _can(move)],
    )


def visible_moves(numbers: Iterable[int]) -> set[int]:
    """The moves that the user may see."""
    return set(visible(Move.objects.filter(pk__in=list(numbers))).values_list("pk", flat=True))
