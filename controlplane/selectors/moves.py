"""Moves and replica recoveries with their progress. Law: bytes and ends are ranges or None, never a guess shown as a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane import moveparts, pace, windows
from controlplane.balance import GOALS
from controlplane.models import Move, MovePartition, MoveTransition, ReplicaFinding, ReplicaRecovery
from controlplane.models.move import FINISHED_STATES, MoveState
from controlplane.selectors.common import Page, paged
from controlplane.services.sums import Kind, sums_of, sums_of_kinds


@dataclass(frozen=True, slots=True)
class MoveRow:
    """`can` lists the verbs that this state allows: approve, start, pause, resume, throttle, schedule, cut, cancel, roll_back; propose: a second person
    has to approve, because it goes against `overrides` (safety refusals). `percent` is by bytes, by parts
    where the size of a part still to come is not known or was sampled before it held anything; 100 is said when every part has ended.
    `eta_s`: (soonest, latest) in seconds. `needs_bytes_per_s` set: it will not finish with less per broker. `waits_for`: a phrase, where
    nothing of it goes on. `origin`: operator, or client of a
    broker. `adaptive`: bounds in bytes/s between which its throttle follows the producers, their p99 and its baseline in ms as last told. `producers_p99_ms`:
    how long the slowest of a hundred produce requests waited, at the worst of the brokers it burdens, as last told; None = nobody produced.
    `deadline`: until then retention is waited for in mode tail; then a cut is asked for. `handover`: "early" where it waits for none. `took_s`: from its start to its end."""

    id: int
    mode: str
    origin: str
    scope: dict[str, Any]
    title: str
    state: str
    who: str
    why: str
    note: str
    parts: int
    parts_ended: int
    parts_stuck: int
    bytes_total: int | None
    bytes_done: int | None
    percent: float
    bytes_per_s: float | None
    eta_s: tuple[float, float] | None
    needs_bytes_per_s: int | None
    waits_for: str
    throttle_bytes_per_s: int | None
    parts_in_flight_max: int
    parts_per_broker_max: int
    overrides: list[str]
    adaptive: dict[str, Any] | None
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


@dataclass(frozen=True, slots=True)
class MovePartRow:
    topic: str
    partition: int
    state: str
    replicas_from: list[int]
    replicas_to: list[int]
    wanted: list[int]
    before: dict[str, Any]
    bytes_total: int | None
    bytes_done: int | None
    bytes_per_s: float | None
    tail_start: int | None
    cut_at: int | None
    cause: str
    note: str
    compared: dict[str, Any] | None
    ordered_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    id: int
    topic: str
    partition: int
    broker_id: int
    state: str
    bytes_total: int | None
    bytes_done: int | None
    who: str
    why: str
    note: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class FindingRow:
    """What a broker tells of a damaged copy. `kind`: corrupt (damaged bytes), disk (not served, its directory failed), lost (gone at the start),
    diverged (cut below what was committed); the last two mend themselves. `recovery`: what was done about it."""

    id: int
    topic: str
    partition: int
    broker_id: int
    kind: str
    detail: str
    found_at: datetime
    ended_at: datetime | None
    recovery: int | None
    recovery_state: str | None


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """One change of a move's state."""

    at: datetime
    state_from: str
    state_to: str
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    """Of a move's whole life, thinned: bytes left and copied at that moment, bytes/s since the one before."""

    at: float
    bytes_left: int
    bytes_done: int
    bytes_per_s: float | None


VERBS: dict[str, list[str]] = {
    MoveState.PLANNED: ["approve", "start", "throttle", "schedule", "cancel"],
    MoveState.APPROVED: ["start", "throttle", "schedule", "cancel"],
    MoveState.RUNNING: ["pause", "throttle", "schedule", "cancel", "roll_back"],
    MoveState.PAUSED: ["resume", "throttle", "schedule", "cancel", "roll_back"],
    MoveState.VERIFYING: ["cancel", "roll_back"],
    MoveState.CANCELLING: ["throttle", "roll_back"],
    MoveState.ROLLING_BACK: ["throttle"],
    MoveState.DONE: ["roll_back"],
    MoveState.CANCELLED: ["roll_back"],
    MoveState.ROLLED_BACK: [],
    MoveState.FAILED: ["roll_back"],
}

ALONE = ["propose", "throttle", "schedule", "cancel"]
"""What one person may do to a planned move that goes against a safety refusal."""

MOVE_COLUMNS = {"id": "id", "state": "state", "who": "who", "created_at": "created_at", "finished_at": "finished_at"}
NOT_IN_A_ROW = ("samples", "throttles_before")
"""What of a move no row shows, and may be long: hundreds of samples, the throttles of thousands of topics."""
UNDER_WAY = moveparts.UNDER_WAY
ENDED = moveparts.ENDED


def move_list(
    *, query: str = "", sort: str = "-id", page: int = 1, per_page: int = 50, working: bool | None = None
) -> Page[MoveRow]:
    """Moves, newest first. `working` True = unfinished only, False = finished only."""
    rows = Move.objects.defer(*NOT_IN_A_ROW)
    if query:
        # Their numbers first: a join would carry each move's row along with each of its partitions.
        of_topic = (
            MovePartition.objects.filter(topic_name__icontains=query).order_by().values_list("move_id").distinct()
        )
        rows = rows.filter(Q(who__icontains=query) | Q(why__icontains=query) | Q(pk__in=[i for (i,) in of_topic]))
    if working is not None:
        rows = rows.exclude(state__in=FINISHED_STATES) if working else rows.filter(state__in=FINISHED_STATES)
    return paged(
        rows, _rows,
        page=page, per_page=per_page, sort=sort, columns=MOVE_COLUMNS, query=query, tie="-id",
    )  # fmt: skip


def move_rows(ids: list[int]) -> list[MoveRow]:
    """These moves with their sums, in the order given."""
    moves = Move.objects.defer(*NOT_IN_A_ROW).in_bulk(ids)
    return _rows([moves[i] for i in ids if i in moves])


def _rows(moves: Sequence[Move]) -> list[MoveRow]:
    sums = sums_of(moves)
    return [_row(m, sums.get(m.pk, {})) for m in moves]


def move_row(move_id: int, kinds: Sequence[Kind] | None = None) -> MoveRow | None:
    """`kinds`: of its partitions, by whoever has read them already."""
    if kinds is None:
        return next(iter(move_rows([move_id])), None)
    move = Move.objects.defer(*NOT_IN_A_ROW).filter(pk=move_id).first()
    return None if move is None else _row(move, sums_of_kinds(kinds))


IN_SUMS = ("state", "bytes_total", "bytes_done")
"""Columns of the index `parts_as_sums`."""
PART_COLUMNS = {"topic": "topic_name", "state": "state", "bytes_total": "bytes_total", "bytes_done": "bytes_done"}


def move_parts(
    move_id: int, *, sort: str = "topic", page: int = 1, per_page: int = 100, only: str = ""
) -> Page[MovePartRow]:
    """The partitions of a move. `only`: a part's state."""
    rows = MovePartition.objects.filter(move_id=move_id)
    if only:
        rows = rows.filter(state=only)
    return paged(
        rows,
        lambda found: [
            MovePartRow(
                topic=p.topic_name, partition=p.partition, state=p.state, replicas_from=p.replicas_from,
                replicas_to=p.replicas_to, wanted=p.wanted, before=p.before, bytes_total=p.bytes_total, bytes_done=p.bytes_done,
                bytes_per_s=p.bytes_per_s, tail_start=p.tail_start, cut_at=p.cut_at, cause=p.cause, note=p.note, compared=p.compared, ordered_at=p.ordered_at, finished_at=p.finished_at,
            )
            for p in found
        ],
        # Sorted by size or state an index holds all but the row's own number; by topic another holds the partition.
        page=page, per_page=per_page, sort=sort, columns=PART_COLUMNS, tie="pk" if sort.lstrip("-") in IN_SUMS else "partition",
        whole=MovePartition.objects.all(),
    )  # fmt: skip


def move_story(move_id: int) -> list[TransitionRow]:
    rows = MoveTransition.objects.filter(move_id=move_id)
    return [TransitionRow(t.at, t.state_from, t.state_to, t.who, t.why) for t in rows]


def move_samples(move_id: int) -> list[SampleRow]:
    samples = pace.from_json(Move.objects.filter(pk=move_id).values_list("samples", flat=True).first() or [])
    out = []
    for i, s in enumerate(samples):
        before = samples[i - 1] if i else s
        rate = max(0.0, (s.done - before.done) / (s.at - before.at)) if s.at > before.at else None
        out.append(SampleRow(s.at, s.left, s.done, None if rate is None else round(rate, 1)))
    return out


def kafka_plans(move_id: int) -> dict[str, Any]:
    """What it does and what was before, each in the form of Kafka's own file of a reassignment."""
    parts = MovePartition.objects.filter(move_id=move_id).order_by("topic_name", "partition")
    rows = list(parts.values_list("topic_name", "partition", "replicas_from", "replicas_to"))

    def plan(place: int) -> dict[str, Any]:
        return {"version": 1, "partitions": [{"topic": r[0], "partition": r[1], "replicas": r[place]} for r in rows]}

    return {"wanted": plan(3), "previous": plan(2)}


def recovery_list(
    *, page: int = 1, per_page: int = 50, working: bool | None = None, topic: str = "", partition: int | None = None
) -> Page[RecoveryRow]:
    """Newest first; of one topic, of one partition of it, when given."""
    rows = ReplicaRecovery.objects.all()
    if topic:
        rows = rows.filter(topic_name=topic)
    if partition is not None:
        rows = rows.filter(partition=partition)
    if working is not None:
        states = ["asked", "reset", "copying"]
        rows = rows.filter(state__in=states) if working else rows.exclude(state__in=states)
    return paged(
        rows, lambda found: [recovery_shape(r) for r in found],
        page=page, per_page=per_page, sort="-id", columns={"id": "id"},
    )  # fmt: skip


def recovery_row(recovery_id: int) -> RecoveryRow | None:
    row = ReplicaRecovery.objects.filter(pk=recovery_id).first()
    return None if row is None else recovery_shape(row)


def recovery_shape(r: ReplicaRecovery) -> RecoveryRow:
    return RecoveryRow(
        id=r.pk, topic=r.topic_name, partition=r.partition, broker_id=r.broker_id, state=r.state,
        bytes_total=r.bytes_total, bytes_done=r.bytes_done, who=r.who, why=r.why, note=r.note,
        created_at=r.created_at, finished_at=r.finished_at,
    )  # fmt: skip


FINDING_COLUMNS = {"id": "id", "topic": "topic_name", "broker_id": "broker_id", "kind": "kind"}


def finding_list(
    *,
    open_only: bool = False,
    topic: str = "",
    partition: int | None = None,
    sort: str = "-id",
    page: int = 1,
    per_page: int = 50,
) -> Page[FindingRow]:
    """Damaged copies that brokers told of, newest first. `open_only`: those that they still tell of."""
    rows = ReplicaFinding.objects.select_related("recovery")
    if open_only:
        rows = rows.filter(ended_at__isnull=True)
    if topic:
        rows = rows.filter(topic_name=topic)
    if partition is not None:
        rows = rows.filter(partition=partition)
    return paged(
        rows, lambda found: [_finding(r) for r in found],
        page=page, per_page=per_page, sort=sort, columns=FINDING_COLUMNS, tie="-id",
    )  # fmt: skip


def findings_open() -> int:
    return ReplicaFinding.objects.filter(ended_at__isnull=True).count()


def _finding(r: ReplicaFinding) -> FindingRow:
    return FindingRow(
        id=r.pk, topic=r.topic_name, partition=r.partition, broker_id=r.broker_id, kind=r.kind, detail=r.detail,
        found_at=r.found_at, ended_at=r.ended_at, recovery=r.recovery_id,
        recovery_state=r.recovery.state if r.recovery is not None else None,
    )  # fmt: skip


def _can(m: Move) -> list[str]:
    can = list(ALONE if m.overrides and m.state == MoveState.PLANNED else VERBS.get(m.state, []))
    if m.mode == "tail" and m.state in (MoveState.RUNNING, MoveState.PAUSED):
        can.insert(can.index("cancel"), "cut")
    return can


def _whom(scope: dict[str, Any]) -> str:
    return f"rack {scope['rack']}" if scope.get("rack") is not None else f"broker {scope.get('broker')}"


def title_of(scope: dict[str, Any]) -> str:
    """The scope as a phrase."""
    match scope.get("kind"):
        case "drain":
            return f"Drain {_whom(scope)}"
        case "fill":
            return f"Fill {_whom(scope)}"
        case "topic":
            return f"Topic {scope.get('topic')} to brokers {', '.join(map(str, scope.get('brokers') or []))}"
        case "replication_factor":
            return f"Topic {scope.get('topic')} to replication factor {scope.get('replication_factor')}"
        case "rebalance":
            return f"Rebalance by {', '.join(scope.get('goals') or GOALS)}"
        case "partitions":
            parts = scope.get("partitions") or []
            first = f"{parts[0].get('topic')}-{parts[0].get('partition')}" if parts else ""
            count = scope.get("count", len(parts))
            return first if count == 1 else f"{count} partitions by hand"
    return "Move"


def _row(m: Move, s: dict[str, Any]) -> MoveRow:
    parts, ended = s.get("parts", 0), s.get("ended", 0)
    total = s.get("total") if not s.get("unknown") else None
    done = s.get("done") or 0 if total is not None else s.get("done")
    if m.state in (MoveState.DONE, MoveState.ROLLED_BACK):
        percent = 100.0
    elif total and not s.get("sizeless"):
        percent = (done or 0) / total * 100
    else:
        percent = ended / parts * 100 if parts else 0.0
    if ended < parts:
        percent = min(99.0, percent)  # sizes are samples and may be old; a hundred is said when every part has ended
    eta = None if m.ends_in_s_min is None or m.ends_in_s_max is None else (m.ends_in_s_min, m.ends_in_s_max)
    return MoveRow(
        id=m.pk,
        mode=m.mode,
        origin=m.origin,
        scope=m.scope,
        title=title_of(m.scope),
        state=m.state,
        who=m.who,
        why=m.why,
        note=m.note,
        parts=parts,
        parts_ended=ended,
        parts_stuck=s.get("stuck", 0),
        bytes_total=total,
        bytes_done=done,
        percent=round(percent, 1),
        bytes_per_s=m.bytes_per_s,
        eta_s=eta,
        needs_bytes_per_s=m.needs_bytes_per_s,
        waits_for=m.waits_for,
        throttle_bytes_per_s=m.throttle_bytes_per_s,
        parts_in_flight_max=m.parts_in_flight_max,
        parts_per_broker_max=m.parts_per_broker_max,
        overrides=m.overrides,
        adaptive={k: m.adaptive.get(k) for k in ("cap", "floor", "baseline", "p99")} if m.adaptive else None,
        producers_p99_ms=next((p99 for _, p99 in reversed(m.waits.get("rows", [])[-1:])), None),
        window=m.window,
        window_text=windows.text(windows.read(m.window)) if m.window else "",
        resumes_at=m.resumes_at,
        deadline=m.deadline,
        handover=m.handover,
        created_at=m.created_at,
        started_at=m.started_at,
        finished_at=m.finished_at,
        took_s=(m.finished_at - m.started_at).total_seconds() if m.finished_at and m.started_at else None,
        can=_can(m),
    )
