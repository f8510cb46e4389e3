"""A restarted worker advances the moves soon: it requests a pass at once and imports little before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.local import ROOT

FIRST_LOOK = """
import sys
from weir.celery import app
app.loader.init_worker()
from controlplane.services import move_worker
print(" ".join(sorted(sys.modules)))
"""


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
