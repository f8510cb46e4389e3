"""The Celery app: the transport, and the first poll of a worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane import tasks
from weir import celery, transport


def test_celery_uses_the_folder_transport() -> None:
    with celery.app.connection_for_write() as connection:
        assert isinstance(connection.transport, transport.Transport)


def test_the_first_poll_is_sent_when_the_worker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.delenv("WEIR_BEAT", raising=False)
    monkeypatch.setattr(celery, "EmbeddedService", lambda *a, **k: SimpleNamespace(start=lambda: done.append("beat")))
    monkeypatch.setattr(celery.app, "send_task", lambda name, **k: done.append(name))
    sender: Any = SimpleNamespace(controller=SimpleNamespace())
    celery.start_beat(sender)
    assert done == ["beat", "controlplane.advance_all"]
    assert tasks.advance_all.name == done[1]
