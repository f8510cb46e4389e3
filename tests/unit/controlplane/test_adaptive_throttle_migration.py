"""The migration that renames the stored state of adaptive throttles."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from controlplane.domain.throttle import Adaptive
from controlplane.models import Move

pytestmark = pytest.mark.django_db


def test_the_state_of_an_adaptive_throttle_is_kept() -> None:
    state = Adaptive(100, 10, 12.5, 4.0, 1_000.0, 5.0, 6.0, 7, 8, 9)
    adaptive = Move.objects.create(actor="alice", adaptive=state)
    fixed = Move.objects.create(actor="alice")
    migration = import_module("controlplane.migrations.0058_adaptive_throttle_names")
    apps = MigrationLoader(connection).project_state(("controlplane", "0057_unclean_elections")).apps
    migration.backwards(apps, connection.schema_editor())
    stored = apps.get_model("controlplane", "Move").objects
    assert stored.get(pk=adaptive.pk).adaptive == {
        "cap": 100,
        "floor": 10,
        "rate": 12.5,
        "baseline": 4.0,
        "heard": 1_000.0,
        "p99": 5.0,
        "own": 6.0,
        "learned": 7,
        "harmed": 8,
        "slow": 9,
    }
    migration.forwards(apps, connection.schema_editor())
    assert Move.objects.get(pk=adaptive.pk).adaptive == state
    assert Move.objects.get(pk=fixed.pk).adaptive is None
