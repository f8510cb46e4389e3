"""Who did what, when, why, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane.models import Change
from controlplane.selectors.common import Page, paged


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """`verb` is kind.act; `outcome`: pending, confirmed, unchanged, refused or unknown; `detail` says more."""

    id: int
    at: datetime
    who: str
    verb: str
    object_kind: str
    object_name: str
    why: str
    before: Any
    after: Any
    outcome: str
    detail: str
    finished_at: datetime | None


CHANGE_COLUMNS = {
    "id": "id",
    "at": "at",
    "who": "who",
    "verb": "verb",
    "object_name": "object_name",
    "outcome": "outcome",
}


def change_list(
    *,
    query: str = "",
    sort: str = "-id",
    page: int = 1,
    per_page: int = 50,
    object_kind: str = "",
    object_name: str = "",
    who: str = "",
    outcome: str = "",
) -> Page[ChangeRow]:
    """Changes, newest first, filtered by what is given."""
    rows = Change.objects.all()
    for field, value in (
        ("object_kind", object_kind),
        ("object_name", object_name),
        ("who", who),
        ("outcome", outcome),
    ):
        if value:
            rows = rows.filter(**{field: value})
    if query:
        rows = rows.filter(
            Q(object_name__icontains=query)
            | Q(verb__icontains=query)
            | Q(who__icontains=query)
            | Q(why__icontains=query)
        )
    return paged(
        rows, lambda found: [change_shape(c) for c in found],
        page=page, per_page=per_page, sort=sort, columns=CHANGE_COLUMNS, query=query, tie="-id",
    )  # fmt: skip


def change_shape(c: Change) -> ChangeRow:
    return ChangeRow(
        id=c.pk, at=c.at, who=c.who, verb=c.verb, object_kind=c.object_kind, object_name=c.object_name, why=c.why,
        before=c.before, after=c.after, outcome=c.outcome, detail=c.detail, finished_at=c.finished_at,
    )  # fmt: skip
