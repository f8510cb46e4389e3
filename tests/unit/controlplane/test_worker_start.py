"""How soon a worker that has come back looks at the moves: it asks for the look at once, and has imported little before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane import tasks
from controlplane.site import celery
from tests.cluster.local import ROOT

FIRST_LOOK = """
import sys
from controlplane.site.celery import app
app.loader.init_worker()
from controlplane.services import advancing
print(" ".join(sorted(sys.modules)))
"""


def test_the_first_look_is_asked_for_when_the_worker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.delenv("WEIR_BEAT", raising=False)
    monkeypatch.setattr(celery, "EmbeddedService", lambda *a, **k: SimpleNamespace(start=lambda: done.append("beat")))
    monkeypatch.setattr(celery.app, "send_task", lambda name, **k: done.append(name))
    sender: Any = SimpleNamespace(controller=SimpleNamespace())
    celery.start_beat(sender)
    assert done == ["beat", "controlplane.advance_all"]
    assert tasks.advance_all.name == done[1]


def test_a_first_look_at_moves_waits_for_no_page_no_door_and_no_wire(tmp_path: Path) -> None:
    environment = os.environ | {"WEIR_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "controlplane.site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LOOK], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120
    )  # fmt: skip
    imported = set(done.stdout.split())
    assert "controlplane.services.advancing" in imported
    assert not imported & {
        "console.urls",
        "controlplane.api.moves",
        "controlplane.kafka",
        "brokerd.wire.messages",
        "cryptography",
    }
