"""Single files of a partition as text: indexes, snapshots, checkpoints, and files that are damaged or unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.storage import checkpoints
from brokerd.storage.os_disk import OsDisk
from tests.unit.tools.test_dump import log_with_segments, run_dump


def test_every_file_of_a_partition_can_be_dumped_separately(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_with_segments(tmp_path)
    log.flush()
    checkpoints.write_offsets(OsDisk(), tmp_path / checkpoints.HIGH_WATERMARKS, {("t", 1): 7, ("t", 0): 5})
    for path in sorted(p for p in tmp_path.iterdir()):
        out = run_dump(capsys, path)
        assert out.startswith(f"{path}\n  ") and "!!" not in out, path.name
    last = max(tmp_path.glob("*.snapshot"))
    assert "before offset 18" in run_dump(capsys, last) and "flushed with the log" in run_dump(capsys, last)
    assert "producer 7 epoch 0" in run_dump(capsys, last) and "sequences 16..17 at offsets 16..17" in run_dump(
        capsys, last
    )
    assert "t-0 5\n  t-1 7" in run_dump(capsys, tmp_path / checkpoints.HIGH_WATERMARKS)
    assert "(0 3), (1 6), (2 12)" in run_dump(capsys, tmp_path / "leader-epoch-checkpoint")
    index = min(tmp_path.glob("*.index"))
    assert "offset 0 @0" in run_dump(capsys, index)
    assert "time 1000000 offset 0" in run_dump(capsys, min(tmp_path.glob("*.timeindex")))
    assert "17 1000000 b'k'" in run_dump(capsys, log.segments[-1].path, "--records")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("log-start-offset", b"minus one", "is not a number"),
        ("leader-epoch-checkpoint", b"0\n3\n1 1\n", "not a leader epoch checkpoint"),
        ("leader-epoch-checkpoint", b"0\n2\n5 9\n4 10\n", "do not increase"),
        ("replication-offset-checkpoint", b"0\n2\nt 0 5\n", "not an offset checkpoint"),
        ("replication-offset-checkpoint", b"", "not an offset checkpoint"),
        ("partition.metadata", b"version: 0\ntopic_id: seven\n", "no topic id"),
        ("meta.properties", b"broker.id=1\nrubbish\n", "'rubbish' is not name=value"),
        ("meta.properties", b"broker.id=1\n", "missing: broker.uuid, cluster.id"),
        (".kafka_cleanshutdown", b"\xff", "not a clean shutdown marker"),
        (f"{5:020d}.snapshot", b"00000000\n{}", "invalid snapshot"),
        (f"{5:020d}.index", bytes(12), "4 bytes at the end are not an entry"),
        (f"{5:020d}.index", bytes(16), "is not in order"),
        (f"{5:020d}.timeindex", b"\x00" * 7 + b"\x09" + bytes(16), "time 0 follows 9"),
        (f"{5:020d}.log", bytes(20), "20 bytes at position 0 are not a batch"),
    ],
)
def test_garbage_is_reported_as_garbage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content)
    out = run_dump(capsys, tmp_path / name, status=1)
    assert any(line.startswith("!! ") and complaint in line for line in out.splitlines()), out


def test_a_file_of_no_broker_is_rejected_with_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "is not a broker's file" in run_dump(capsys, tmp_path / "notes.txt", status=2)
    assert "is neither a partition folder nor a log directory" in run_dump(capsys, tmp_path, status=2)
    assert "does not exist" in run_dump(capsys, tmp_path / "none", status=2)
