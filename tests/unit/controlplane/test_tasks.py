"""A restarted worker advances the moves soon: it requests a pass at once and imports little before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane import tasks
from tests.cluster.local import ROOT
from weir import celery

FIRST_LOOK = """
import sys
from weir.celery import app
app.loader.init_worker()
from controlplane.services import move_worker
print(" ".join(sorted(sys.modules)))
"""


def test_the_first_poll_is_sent_when_the_worker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.delenv("WEIR_BEAT", raising=False)
    monkeypatch.setattr(celery, "EmbeddedService", lambda *a, **k: SimpleNamespace(start=lambda: done.append("beat")))
    monkeypatch.setattr(celery.app, "send_task", lambda name, **k: done.append(name))
    sender: Any = SimpleNamespace(controller=SimpleNamespace())
    celery.start_beat(sender)
    assert done == ["beat", "controlplane.advance_all"]
    assert tasks.advance_all.name == done[1]


def test_the_first_poll_of_moves_does_not_import_console_api_or_wire(tmp_path: Path) -> None:
    environment = os.environ | {"WEIR_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "weir.settings"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LOOK],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    imported = set(done.stdout.split())
    assert "controlplane.services.move_worker" in imported
    assert not imported & {
        "console.urls",
        "controlplane.api.moves",
        "controlplane.clients.kafka",
        "brokerd.wire.messages",
        "cryptography",
    }
