"""The dump says what is there, and complains about what does not fit."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from brokerd.storage import checkpoints, dump
from brokerd.storage.disk import OsDisk
from brokerd.storage.log import Log
from tests.unit.storage.test_log import NOW, append, config, sequenced


def filled(folder: Path) -> Log:
    log = Log.open(folder, config(segment_bytes="600", index_interval_bytes="0"), OsDisk(), NOW)
    checkpoints.write_partition_metadata(OsDisk(), folder, UUID(int=7))
    for i in range(9):
        append(log, sequenced(i * 2, 2), epoch=i // 3)
    log.raise_start(3)
    log.close()
    return log


def test_a_sound_log_is_read_without_complaint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert dump.main(["--records", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for said in (str(UUID(int=7)), "log-start-offset 3", "(1 6)", "producer 7 epoch 0 sequence 4", "17 1000000 b'k'"):
        assert said in out
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before, "it changes nothing"


def test_damage_is_pointed_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = filled(tmp_path)
    last, first = log.segments[-1].path, log.segments[0].path
    last.write_bytes(last.read_bytes()[:-5])
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    index = first.with_suffix(".index")
    index.write_bytes(random.Random(1).randbytes(16))
    assert dump.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "!! the CRC" in out and "is torn" in out and "names no batch" in out
    assert dump.main([str(tmp_path / "none")]) == 2
