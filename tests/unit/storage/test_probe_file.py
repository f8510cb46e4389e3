"""The probe of a log directory writes one block, durably, into a file that log directories ignore."""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.os_disk import OsDisk
from brokerd.storage.probe_file import PROBE_BYTES, PROBE_FILE, write_probe


def test_the_probe_writes_one_block(tmp_path: Path) -> None:
    disk = OsDisk()
    write_probe(disk, tmp_path)
    first = (tmp_path / PROBE_FILE).read_bytes()
    write_probe(disk, tmp_path)
    second = (tmp_path / PROBE_FILE).read_bytes()
    assert len(first) == len(second) == PROBE_BYTES and first != second
