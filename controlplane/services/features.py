"""Finalised features of the metadata log, stored for a rebuild of a lost log (`manage.py rebuild`).

Invariant: the log takes precedence. A row is a copy of the log's level, used only for a log without an entry for the feature.
"""

from __future__ import annotations

from controlplane.models import Feature


def remember(name: str, level: int, epoch: int) -> None:
    """Store the level that the controller of `epoch` has in the log. A level stored by a later controller stays."""
    row, made = Feature.objects.get_or_create(name=name, defaults={"level": level, "controller_epoch": epoch})
    if not made and (row.level, row.controller_epoch) != (level, epoch):
        Feature.objects.filter(pk=name, controller_epoch__lte=epoch).update(level=level, controller_epoch=epoch)


def stored_levels() -> dict[str, int]:
    """Level by name."""
    return dict(Feature.objects.values_list("name", "level"))
