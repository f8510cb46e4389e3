"""Names of the stored state of an adaptive throttle that say what they contain."""

from __future__ import annotations

from collections.abc import Mapping

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

NAMES = {
    "heard": "measured_at",
    "own": "own_p99",
    "learned": "baseline_seconds",
    "harmed": "affected_seconds",
    "slow": "floor_seconds",
}


def _rename(apps: Apps, names: Mapping[str, str]) -> None:
    for move in apps.get_model("controlplane", "Move").objects.exclude(adaptive=None).iterator():
        move.adaptive = {names.get(key, key): value for key, value in move.adaptive.items()}
        move.save(update_fields=["adaptive"])


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename(apps, NAMES)


def backwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename(apps, {new: old for old, new in NAMES.items()})


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0057_unclean_elections")]

    operations = [migrations.RunPython(forwards, backwards)]
