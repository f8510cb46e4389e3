"""Saved views and hidden columns of one user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controlplane.models import HiddenColumns, SavedView


@dataclass(frozen=True, slots=True)
class SavedViewRow:
    """`address`: path and query string."""

    id: int
    name: str
    address: str
    created_at: datetime


def saved_views(user_id: int) -> list[SavedViewRow]:
    """All saved views of a user, by name. Their number is limited by `services.saved_views`."""
    rows = SavedView.objects.filter(user_id=user_id)
    return [SavedViewRow(row.pk, row.name, row.address, row.created_at) for row in rows]


def hidden_columns(user_id: int, table: str) -> frozenset[str]:
    """Labels of the columns that the user has hidden."""
    row = HiddenColumns.objects.filter(user_id=user_id, table=table).values_list("columns", flat=True).first()
    return frozenset(row or ())
