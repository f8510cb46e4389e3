"""meta.properties: lines, the order of writes, and a loss that is recorded on a full disk."""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.disk import DiskFull
from brokerd.storage.meta_properties import META, MetaWriter, read_meta
from tests.simulation.disk import SimDisk

DATA, OTHER = Path("/data"), Path("/other")


def disk() -> SimDisk:
    out = SimDisk()
    out.mkdir(DATA)
    out.mkdir(OTHER)
    return out


def test_lines_are_read_without_comments_and_lines_without_a_value() -> None:
    device = disk()
    assert read_meta(device, DATA) == {}
    device.replace(DATA / META, b"#comment=1\nbroker.id = 3\nnothing\na=b=c\n\xff=x\n")
    assert read_meta(device, DATA) == {"broker.id": "3", "a": "b=c", "\ufffd": "x"}


def test_an_older_content_never_replaces_a_newer_one() -> None:
    writer = MetaWriter(disk())
    older = writer.plan([(DATA, b"version=1\n")], lost=False)
    newer = writer.plan([(DATA, b"version=2\n")], lost=False)
    newer.run()
    older.run()
    assert read_meta(writer.disk, DATA) == {"version": "2"}


def test_directories_whose_write_failed_are_reported() -> None:
    device = disk()
    device.broken.add(OTHER)
    writing = MetaWriter(device).plan([(DATA, b"a=1\n"), (OTHER, b"a=1\n")], lost=False)
    writing.run()
    assert [folder for folder, _ in writing.rejected] == [OTHER]
    assert read_meta(device, DATA) == {"a": "1"}


def test_a_loss_is_recorded_in_place_on_a_full_disk() -> None:
    device = disk()
    device.replace(DATA / META, b"tail.intact=true\nbroker.id=3\n")
    device.fail_at[device.steps + 1] = DiskFull("no space left on the device")
    writing = MetaWriter(device).plan([(DATA, b"tail.intact=lost\nbroker.id=3\n")], lost=True)
    writing.run()
    assert len(writing.rejected) == 1
    assert read_meta(device, DATA) == {"tail.intact": "lost", "broker.id": "3"}
