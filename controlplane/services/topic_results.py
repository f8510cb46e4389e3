"""The topic rows of the controller's database thread: rows to be applied, and the results that the thread writes back.

Does not contain the operations of operators and clients (`topics`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.db.models import F

from controlplane.models import Topic
from controlplane.models.change import Outcome
from controlplane.services.common import finish_changes


def mark_applied(applied: Mapping[uuid.UUID, int], controller_epoch: int) -> int:
    """Record that the metadata log contains these generations. Rows written by a newer controller do not change. Idempotent."""
    changed = 0
    for topic_id, generation in applied.items():
        count = Topic.objects.filter(
            id=topic_id,
            controller_epoch__lte=controller_epoch,
            applied_generation__lt=generation,
            generation__gte=generation,
        ).update(applied_generation=generation, controller_epoch=controller_epoch)
        if count:
            changed += count
            Topic.objects.filter(id=topic_id, note_generation__lte=generation).exclude(note="").update(note="")
            finish_changes(str(topic_id), generation, Outcome.CONFIRMED)
    return changed


def mark_rejected(name: str, reason: str, controller_epoch: int) -> bool:
    """Record why the controller cannot apply this topic yet. The controller retries, and a success clears the record. False: nothing changed."""
    row = Topic.objects.filter(name=name, deleted_at__isnull=True).first()
    if row is None:
        return False
    return bool(
        Topic.objects.filter(id=row.id, controller_epoch__lte=controller_epoch, generation=row.generation)
        .exclude(note=reason, note_generation=row.generation)
        .update(note=reason, note_generation=row.generation, controller_epoch=controller_epoch)
    )


def has_topic(name: str) -> bool:
    """Return whether a topic of this name is desired."""
    return Topic.objects.filter(name=name, deleted_at__isnull=True).exists()


def waiting_topics() -> list[Topic]:
    """Rows that the controller has not applied yet, oldest request first."""
    return list(Topic.objects.filter(applied_generation__lt=F("generation")).order_by("updated_at"))
