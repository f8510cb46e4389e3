"""One row of the audit log, for the page of the change."""

from __future__ import annotations

from controlplane.models import Change
from controlplane.selectors.changes import ChangeRow, change_shape, with_detail_phrases


def change_row(change_id: int) -> ChangeRow | None:
    row = with_detail_phrases(Change.objects.filter(pk=change_id)).first()
    return None if row is None else change_shape(row)
