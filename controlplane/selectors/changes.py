"""The audit log: actor, operation, time, reason and outcome of each change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.selectors.common import TimeFilter
from controlplane.selectors.paging import Page, PageStart, paginate
from weir_common.phrases import TranslatableText, with_phrase


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """`verb` is `<kind>.<operation>`; `outcome`: pending, confirmed, unchanged, refused or unknown; `detail` explains it."""

    id: int
    at: datetime
    actor: str
    verb: str
    object_kind: str
    object_name: str
    comment: str
    before: object
    after: object
    outcome: str
    detail: str
    finished_at: datetime | None

    @property
    def is_unknown(self) -> bool:
        """True for a change that got no response, and may have taken effect."""
        return self.outcome == Outcome.UNKNOWN


CHANGE_COLUMNS = {
    "id": "id",
    "at": "at",
    "actor": "actor",
    "verb": "verb",
    "object_name": "object_name",
    "outcome": "outcome",
}


def previous_configs(row: ChangeRow) -> dict[str, str]:
    """The topic configs that an alteration changed, with the values before it: "" where the topic had no override. Empty for another change."""
    if row.verb != AuditOperation.TOPIC_ALTER or not isinstance(row.before, dict) or not isinstance(row.after, dict):
        return {}
    was, now = row.before.get("configs") or {}, row.after.get("configs") or {}
    return {key: str(was.get(key, "")) for key in sorted(was | now) if was.get(key) != now.get(key)}


WITHOUT_EFFECT = ("records", "session")
"""Kinds of objects whose rows change nothing in the cluster: reads of records, logins and logouts."""


class ChangeFilter(TimeFilter):
    time_field = "at"
    query = filters.CharFilter(method="search", help_text="Part of an object's name, a verb, an actor or a reason.")
    object_kind = filters.CharFilter()
    object_name = filters.CharFilter()
    actor = filters.CharFilter()
    outcome = filters.CharFilter()

    def search(self, rows: QuerySet[Change], name: str, value: str) -> QuerySet[Change]:
        return rows.filter(contains_text(value))


def contains_text(text: str) -> Q:
    return (
        Q(object_name__icontains=text) | Q(verb__icontains=text) | Q(actor__icontains=text) | Q(comment__icontains=text)
    )


def change_list(
    *,
    query: str = "",
    sort: str = "-id",
    page: PageStart = 1,
    per_page: int = 50,
    object_kind: str = "",
    object_name: str = "",
    actor: str = "",
    outcome: str = "",
    since: datetime | None = None,
    reads: bool = True,
    operations: Collection[str] = (),
) -> Page[ChangeRow]:
    """Changes, newest first, filtered by the given values. `since`: of this time and later. `reads`: include reads of records and
    logins. `operations`: their changes match `query`, too, because a page searches for their labels."""
    rows = Change.objects.all() if reads else Change.objects.exclude(object_kind__in=WITHOUT_EFFECT)
    if query:
        rows = rows.filter(contains_text(query) | Q(verb__in=operations))
    rows = ChangeFilter.rows(
        rows, object_kind=object_kind, object_name=object_name, actor=actor, outcome=outcome, since=since
    )
    return change_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def with_detail_phrases(rows: QuerySet[Change]) -> QuerySet[Change]:
    """The rows with the phrases of their details, for `change_shape`."""
    return rows.annotate(detail_phrase=F("phrase__detail"))


def _detail(c: Change) -> str:
    """The detail as the audit log has it. It has its phrase only if the phrase renders to this text: the phrase is not sealed."""
    detail = with_phrase(c.detail, getattr(c, "detail_phrase", None) or {})
    return detail if isinstance(detail, TranslatableText) and str(detail.phrase) == c.detail else c.detail


def change_page(
    rows: QuerySet[Change], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[ChangeRow]:
    return paginate(
        with_detail_phrases(rows),
        lambda found: [change_shape(c) for c in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=CHANGE_COLUMNS,
        query=query,
        tie="-id",
    )


def change_shape(change: Change) -> ChangeRow:
    return ChangeRow(
        id=change.pk,
        at=change.at,
        actor=change.actor,
        verb=change.verb,
        object_kind=change.object_kind,
        object_name=change.object_name,
        comment=change.comment,
        before=change.before,
        after=change.after,
        outcome=change.outcome,
        detail=_detail(change),
        finished_at=change.finished_at,
    )
