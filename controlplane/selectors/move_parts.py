"""Partitions of a move: their rows, filters and orders. Does not contain: the totals of a move (`move_totals`), its row (`moves`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from controlplane.domain.compare import StoredComparison
from controlplane.domain.move_states import ENDED, PartActivity
from controlplane.domain.move_types import PlacementBefore
from controlplane.models import MovePartition
from controlplane.models.move import PartState
from controlplane.selectors.common import RowFilter, StateFilter, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from weir_common.phrases import with_phrase


@dataclass(frozen=True, slots=True)
class MovePartRow:
    """A partition of a move. `replicas_from`, `replicas_to`: before and after the move. `desired_replicas`: those that the controller sets now. `cause`: why
    it is delayed, or empty."""

    topic: str
    partition: int
    state: str
    replicas_from: list[int]
    replicas_to: list[int]
    desired_replicas: list[int]
    before: PlacementBefore
    bytes_total: int | None
    bytes_done: int | None
    bytes_per_s: float | None
    tail_start: int | None
    delete_below: int | None
    cause: str
    note: str
    compared: StoredComparison | None
    submitted_at: datetime | None
    finished_at: datetime | None


IN_SUMS = ("bytes_total", "bytes_done")
"""Columns of the index `parts_as_sums`."""
STATE = "state"
"""Column of the order that begins with the partitions which an operator looks for: by `PartActivity`, then by name. The activity is computed, so a page reads every
partition of the move."""
ACTIVITY = "activity"
PART_COLUMNS = {
    "topic": "topic_name",
    STATE: ACTIVITY,
    "bytes_total": "bytes_total",
    "bytes_done": "bytes_done",
}
ACTIVITY_OF_A_ROW = Case(
    When(state=PartState.REJECTED, then=Value(PartActivity.BLOCKED)),
    When(state__in=ENDED, then=Value(PartActivity.ENDED)),
    When(~Q(cause=""), then=Value(PartActivity.BLOCKED)),
    When(state=PartState.WAITING, then=Value(PartActivity.WAITING)),
    default=Value(PartActivity.ACTIVE),
    output_field=IntegerField(),
)


class MovePartFilter(RowFilter):
    state = StateFilter(in_states(PartState))


def move_parts(
    move_id: int, *, sort: str = STATE, page: PageStart = 1, per_page: int = 100, state: str = ""
) -> Page[MovePartRow]:
    """The partitions of a move. `state`: one of PartState."""
    rows = MovePartFilter.rows(parts_of_move(move_id), state=state)
    return part_page(rows, sort=sort, page=page, per_page=per_page)


def parts_of_move(move_id: int) -> QuerySet[MovePartition]:
    return MovePartition.objects.filter(move_id=move_id)


def part_page(
    rows: QuerySet[MovePartition], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[MovePartRow]:
    column = sort.lstrip("-")
    by_name = ("topic_name", "partition") if column == STATE else ("partition",)
    return paginate(
        rows.annotate(**{ACTIVITY: ACTIVITY_OF_A_ROW}) if column == STATE else rows,
        lambda found: [
            MovePartRow(
                topic=p.topic_name,
                partition=p.partition,
                state=p.state,
                replicas_from=p.replicas_from,
                replicas_to=p.replicas_to,
                desired_replicas=p.desired_replicas,
                before=p.before,
                bytes_total=p.bytes_total,
                bytes_done=p.bytes_done,
                bytes_per_s=p.bytes_per_s,
                tail_start=p.tail_start,
                delete_below=p.delete_below,
                cause=p.cause,
                note=with_phrase(p.note, p.note_phrase),
                compared=p.compared,
                submitted_at=p.submitted_at,
                finished_at=p.finished_at,
            )
            for p in found
        ],
        # Sorted by size, an index covers everything but the primary key; by topic, another index contains the partition.
        page=page,
        per_page=per_page,
        sort=sort,
        columns=PART_COLUMNS,
        tie="pk" if column in IN_SUMS else by_name,
        whole=MovePartition.objects.all(),
    )
