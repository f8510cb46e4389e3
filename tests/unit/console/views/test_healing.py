"""The page of self-healing."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import HealingRun, HealingSetting
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_actions_are_switched_and_runs_are_shown(viewer: Client, operator: Client, world: World) -> None:
    HealingRun.objects.create(
        at=timezone.now(), action="recover_damaged_replica", outcome="rejected", subject="t-0 on broker 1", detail="<b>"
    )
    page = viewer.get("/health/self-healing/").content.decode()
    assert "elect preferred leaders" in page and "t-0 on broker 1" in page and "&lt;b&gt;" in page
    path = "/health/self-healing/elect_preferred_leaders"
    assert viewer.post(f"{path}/on/").status_code == 403
    assert operator.post(f"{path}/dry_run/").status_code == 302
    assert HealingSetting.objects.get().mode == "dry_run"
    assert operator.get(f"{path}/on/").status_code == 302 and HealingSetting.objects.get().mode == "dry_run"
    assert operator.post(f"{path}/none/").status_code == 404
