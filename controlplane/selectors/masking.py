"""Masking rules as stored, for the page and REST. Invariant: a row contains no data of records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from controlplane.models import MaskingRule
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate


@dataclass(frozen=True, slots=True)
class MaskingRuleRow:
    """`topics`: a name, with * for any characters. `target`: key, value or header. `field`: JSON path, "" = the whole; or the name of a header."""

    id: int
    topics: str
    target: str
    field: str
    created_at: datetime
    created_by: str


MASKING_COLUMNS = {"topics": "topics", "target": "target", "field": "field", "created_at": "created_at"}


class MaskingRuleFilter(RowFilter):
    query = filters.CharFilter(field_name="topics", lookup_expr="icontains", help_text="Part of a topic pattern.")


def rule_list(
    *, query: str = "", sort: str = "topics", page: PageStart = 1, per_page: int = 50
) -> Page[MaskingRuleRow]:
    rows = MaskingRuleFilter.rows(MaskingRule.objects.all(), query=query)
    return rule_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def rule_page(
    rows: QuerySet[MaskingRule], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[MaskingRuleRow]:
    return paginate(
        rows,
        lambda found: [rule_shape(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=MASKING_COLUMNS,
        query=query,
    )


def rule_row(rule_id: int) -> MaskingRuleRow | None:
    row = MaskingRule.objects.filter(pk=rule_id).first()
    return None if row is None else rule_shape(row)


def rule_shape(row: MaskingRule) -> MaskingRuleRow:
    return MaskingRuleRow(row.pk, row.topics, row.target, row.field, row.created_at, row.created_by)
