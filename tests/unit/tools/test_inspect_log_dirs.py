"""inspect_log_dirs: the content of a stopped broker's disks as the broker's start would find it, without a change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.environment import Environment
from brokerd.storage import checkpoints
from brokerd.storage.log import Log
from brokerd.storage.meta_properties import META
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.running_marker import CLEAN
from brokerd.tools.inspect_log_dirs import InspectionError, inspect_log_dirs, main
from tests.unit.storage.test_log import append, batch

NOW = Now(0, 1_000)
TOPIC = UUID(int=5)
NAMES = {
    "broker.id": "2",
    "broker.uuid": "u",
    "cluster.id": "c",
    "directory.id": "d",
    "directory.ids": "d",
    "metadata.seq": "77",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One partition with records of epochs 3 and 4, offsets 0 to 4, of a broker that was stopped cleanly."""
    folder = tmp_path / "data"
    (folder / "t-0").mkdir(parents=True)
    disk = OsDisk()
    log = Log.open(folder / "t-0", TopicConfig.from_overrides({}, {}), disk, NOW)
    append(log, batch(3), epoch=3)
    append(log, batch(2), epoch=4)
    log.close()
    checkpoints.write_partition_metadata(disk, folder / "t-0", TOPIC)
    checkpoints.write_offsets(disk, folder / checkpoints.HIGH_WATERMARKS, {("t", 0): 4})
    deliver(folder)
    (folder / CLEAN).write_text("{}")
    return folder


def deliver(folder: Path, **more: str) -> None:
    lines = {**NAMES, **{k.replace("_", "."): v for k, v in more.items()}}
    (folder / META).write_text("".join(f"{k}={v}\n" for k, v in lines.items()))


class UnlockedEnvironment(Environment):
    """A lock is released when its process ends. All inspections of the tests run in one process."""

    def lock(self, folder: Path) -> bool:
        return True


def looked_at(*folders: Path) -> dict[str, Any]:
    return inspect_log_dirs(2, folders, UnlockedEnvironment())


def tree(folder: Path) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_the_inspection_has_the_log_end_of_each_replica(data: Path) -> None:
    found = looked_at(data)
    assert (found["broker_id"], found["cluster_id"], found["metadata_seq"], found["trusted"]) == (2, "c", 77, True)
    assert found["copies"] == [
        {
            "topic": "t",
            "partition": 0,
            "topic_id": str(TOPIC),
            "start": 0,
            "end": 5,
            "last_epoch": 4,
            "damage": [],
            "high_watermark": 4,
        }
    ]


def test_a_torn_tail_does_not_count_and_stays_as_it_is(data: Path) -> None:
    segment = data / "t-0" / f"{0:020d}.log"
    for snapshot in (data / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    (data / CLEAN).unlink()
    segment.write_bytes(segment.read_bytes()[:-7])
    before = tree(data)
    found = looked_at(data)
    assert [(c["end"], c["last_epoch"]) for c in found["copies"]] == [(3, 3)]
    assert tree(data) == before


def test_an_inspection_changes_no_file(data: Path) -> None:
    (data / "t-0" / "00000000000000000000-5.cleaned").write_bytes(b"half")
    (data / "t-0" / "00000000000000000009.snapshot").write_bytes(b"no snapshot")
    (data / "old-0.1-delete").mkdir()
    before = tree(data)
    assert looked_at(data)["copies"][0]["end"] == 5
    assert tree(data) == before and (data / "old-0.1-delete").exists()


def test_after_a_power_cut_or_an_io_error_a_directory_is_not_trusted(data: Path) -> None:
    deliver(data, tail_intact="lost")
    assert looked_at(data)["trusted"] is False
    deliver(data, boot_id="another kernel's")
    (data / CLEAN).unlink()
    assert looked_at(data)["trusted"] is False


def test_a_missing_directory_is_not_trusted_and_lost_replicas_are_named(data: Path, tmp_path: Path) -> None:
    assert looked_at(data, tmp_path / "gone")["trusted"] is False
    deliver(data, directory_ids="d,e")
    assert looked_at(data)["trusted"] is False
    (data / "t-0").rename(data / "t-0-stray")
    found = looked_at(data)
    assert found["lost"] == ["t-0"] and found["strays"] == [str(data / "t-0-stray")] and found["copies"] == []


def test_the_directories_of_a_running_broker_are_rejected(data: Path) -> None:
    running = Environment()
    assert running.lock(data)
    with pytest.raises(InspectionError, match="running"):
        inspect_log_dirs(2, [data], Environment())


def test_the_directories_of_another_broker_are_rejected(data: Path) -> None:
    with pytest.raises(InspectionError, match="belongs to broker 2"):
        inspect_log_dirs(3, [data], Environment())


def test_the_command_writes_json(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, out = tmp_path / "broker.properties", tmp_path / "out.json"
    config.write_text(f"broker.id=2\nlog.dirs={data}\nzookeeper.connect=127.0.0.1:1\n")
    monkeypatch.setattr("sys.argv", ["inspect_log_dirs", "--config", str(config), "--out", str(out)])
    assert main() == 0
    assert json.loads(out.read_text())["copies"][0]["end"] == 5
