"""The command `import_metadata`: topics of the metadata log get rows; an empty log is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError

from brokerd.cluster.image import Image
from controlplane.disaster import metalog, reach
from controlplane.management.commands import import_metadata
from controlplane.models import Topic
from tests.unit.controlplane.management.commands.local_cluster import run
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@contextmanager
def no_connection(data_dir: Path, hosts: str | None) -> Iterator[None]:
    yield None


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "zookeeper_connection", no_connection)
    monkeypatch.setattr(import_metadata, "call_command", lambda *_, **__: None)  # the test database is migrated


def test_topics_without_a_row_are_imported_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2), row=False)
    monkeypatch.setattr(metalog, "read_log", lambda zk: SimpleNamespace(image=world.image))
    assert "Imported 1 topics of cluster test" in run("import_metadata", "--zookeeper=zk:2181")
    assert [t.name for t in Topic.objects.all()] == ["flights"]
    assert "Imported 0 topics" in run("import_metadata", "--zookeeper=zk:2181")


def test_an_empty_metadata_log_is_rejected_with_the_remedy(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metalog, "read_log", lambda zk: SimpleNamespace(image=Image()))
    with pytest.raises(CommandError, match=r"nothing to import \(see `manage.py rebuild`\)"):
        run("import_metadata", "--zookeeper=zk:2181")
