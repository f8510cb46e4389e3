"""Features that the metadata log has finalised, remembered for the day when it is lost (`manage.py rebuild`).

Law: the log decides; a row follows it, and counts only for a log that says nothing of its feature. Called by the controller's database thread.
"""

from __future__ import annotations

from controlplane.models import Feature


def remember(name: str, level: int, epoch: int) -> None:
    """As the controller of `epoch` has it in the log. A later controller's word stays."""
    row, made = Feature.objects.get_or_create(name=name, defaults={"level": level, "controller_epoch": epoch})
    if not made and (row.level, row.controller_epoch) != (level, epoch):
        Feature.objects.filter(pk=name, controller_epoch__lte=epoch).update(level=level, controller_epoch=epoch)


def remembered() -> dict[str, int]:
    """Level by name."""
    return dict(Feature.objects.values_list("name", "level"))
