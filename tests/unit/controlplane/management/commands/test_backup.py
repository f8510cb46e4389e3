"""The command `backup`: its preconditions leave no directory behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management.base import CommandError

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.image import Image
from controlplane.disaster import metalog, reach
from tests.unit.controlplane.management.commands.local_cluster import run


@contextmanager
def no_connection(data_dir: Path, hosts: str | None) -> Iterator[None]:
    yield None


def test_a_cluster_without_a_metadata_log_is_not_backed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "zookeeper_connection", no_connection)
    monkeypatch.setattr(metalog, "read_log", lambda zk: SimpleNamespace(image=Image()))
    with pytest.raises(CommandError, match="ZooKeeper contains no metadata log"):
        run("backup", f"--to={tmp_path / 'copy'}", "--zookeeper=zk:2181")
    assert not (tmp_path / "copy").exists()


def test_a_directory_with_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("keep")
    with pytest.raises(CommandError, match="is not empty; give a new directory"):
        run("backup", f"--to={tmp_path}")
    assert (tmp_path / "file").read_text() == "keep"


def test_an_unreachable_zookeeper_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> Any:
        raise Unreachable("ZooKeeper at zk:2181 does not respond")

    monkeypatch.setattr(reach, "zookeeper_connection", unreachable)
    with pytest.raises(CommandError, match="does not respond"):
        run("backup", f"--to={tmp_path / 'copy'}", "--zookeeper=zk:2181")
    assert not (tmp_path / "copy").exists()
