"""The drift of applied documents, stored for alerts: how the cluster differs from the last applied document of each owner.

Invariants: a document without an owner has no drift here, because no owner manages its resources. The current state is read once for all owners. A document
that cannot be compared (not stored any more, not valid for this version) has an unknown drift, which is no alert. Does not contain: the comparison
(`cluster_documents`), the alert (`controlplane.domain.alert`).
"""

from __future__ import annotations

from django.utils import timezone

from controlplane.domain.alert_types import NAMES_MAX
from controlplane.domain.cluster_document import InvalidDocument
from controlplane.domain.document_plan import CurrentResources, DocumentDifference
from controlplane.models import DocumentPlan
from controlplane.selectors import cluster_documents as selectors
from controlplane.services.cluster_documents import compare_document

OWNERS_MAX = selectors.OWNERS_MAX
"""Maximum number of owners of one round, the first by name: a comparison of ten thousand topics takes tenths of a second."""


def measure() -> None:
    """Compare the last document of each owner with the cluster. Rows are written only if their numbers have changed."""
    last = selectors.last_applied()
    DocumentPlan.objects.filter(drift_count__isnull=False).exclude(pk__in=last).update(drift_count=None)
    rows = list(DocumentPlan.objects.filter(pk__in=last).exclude(owner="").order_by("owner")[:OWNERS_MAX])
    if not rows:
        return
    now = selectors.present()
    for row in rows:
        count, names = _drift(row, now)
        if (count, names) != (row.drift_count, row.drift_names) or row.drift_at is None:
            DocumentPlan.objects.filter(pk=row.pk).update(drift_count=count, drift_names=names, drift_at=timezone.now())


def _drift(row: DocumentPlan, now: CurrentResources) -> tuple[int | None, list[str]]:
    """(differences, the first names); (None, []) if the document cannot be compared."""
    if row.document is None:
        return None, []
    try:
        found = compare_document(row.document, prune=row.prune, take_over=row.take_over, now=now)
    except InvalidDocument:
        return None, []
    return len(found.steps) + len(found.rejections), _names(found)


def _names(differences: DocumentDifference) -> list[str]:
    row = selectors.difference_row(differences)
    steps = [f"{s.kind} {s.name}".replace("_", " ") for s in row.steps]
    return [*steps, *(r.path for r in row.refusals)][:NAMES_MAX]
