"""The lake on disk: the published files of a job, and its manifest. Does not contain Spark or broker code.

    <lake>/<job>/topic=<t>/batch=<n>/part-*.parquet   what readers read
                                    /_written.json    the batch's own lines of the manifest
    <lake>/<job>/manifest.jsonl                       one line per batch and partition, in order
    <lake>/<job>/_checkpoint, _staging, _work, _lock  private to the job; status.json: its reported status

Invariants: a batch appears completely by one rename per topic, or not at all. A published file is never written again. A line is in the
manifest only after its batch is published, and exactly once. So each record is stored exactly once, also after kill -9. Readers need
only the glob `topic=*/batch=*/*.parquet`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.offsets import Range
from weir_common.archive_manifest import ManifestLine
from weir_common.driver_lock import FolderLock, FolderLocked
from weir_common.files import replace_text

WRITTEN = "_written.json"
ROWS_PER_LOOK = 200_000
"""Rows whose offsets are in memory at a time while a written batch is checked."""


class Contradiction(Exception):
    """The lake and the checkpoint do not match. Continuing would lose or duplicate records."""


class JobFolder:
    """One job's part of the lake. Use as a context manager: it is locked for one driver."""

    def __init__(self, lake: Path, job: str) -> None:
        if not job or "/" in job or job.startswith((".", "_")):
            raise ValueError(f"{job!r} is not a valid directory name")
        self.folder = lake / job
        self.manifest_path = self.folder / "manifest.jsonl"
        self.checkpoint = self.folder / "_checkpoint"
        self.staging = self.folder / "_staging"
        self.work = self.folder / "_work"
        self._lock: FolderLock | None = None
        self._last: set[tuple[int, str, int]] = set()
        self.batches = -1
        self.rows = 0

    def __enter__(self) -> JobFolder:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = FolderLock(self.folder)
        except FolderLocked:
            raise Contradiction(f"another process archives into {self.folder}; stop it first") from None
        for left in (self.staging, self.work):  # files of a driver that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._repair_manifest()
        if self.batches >= 0 and not (self.checkpoint / "offsets").is_dir():
            raise Contradiction(
                f"{self.folder} contains {self.batches + 1} batches but no checkpoint: starting over would repeat them; "
                "restore _checkpoint or use another job id"
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    # -- the manifest ------------------------------------------------------------------------------------------------------
    def _repair_manifest(self) -> None:
        """Truncate an incomplete last line (its batch appends it again) and read the last batch's lines."""
        if not self.manifest_path.exists():
            return
        whole = 0
        with open(self.manifest_path, "r+b") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                whole += len(raw)
                v = json.loads(raw)
                if v["batch"] > self.batches:
                    self.batches, self._last = v["batch"], set()
                if v["batch"] == self.batches:
                    self._last.add((v["batch"], v["topic"], v["partition"]))
                self.rows += v["rows"]
            file.truncate(whole)

    def lines(self) -> Iterator[ManifestLine]:
        if self.manifest_path.exists():
            with open(self.manifest_path, encoding="utf-8") as file:
                for raw in file:
                    yield ManifestLine(**json.loads(raw))

    def _record(self, lines: Sequence[ManifestLine]) -> None:
        new = [line for line in lines if (line.batch, line.topic, line.partition) not in self._last]
        if not new:
            return
        with open(self.manifest_path, "ab") as file:
            file.write("".join(json.dumps(asdict(line), separators=(",", ":")) + "\n" for line in new).encode())
            file.flush()
            os.fsync(file.fileno())
        if new[0].batch > self.batches:
            self.batches, self._last = new[0].batch, set()
        self._last |= {(line.batch, line.topic, line.partition) for line in new}
        self.rows += sum(line.rows for line in new)

    # -- publishing --------------------------------------------------------------------------------------------------------
    def published_path(self, topic: str, batch: int) -> Path:
        return self.folder / f"topic={topic}" / f"batch={batch}"

    def staging_path(self, batch: int) -> Path:
        """Directory into which Spark writes a batch, partitioned by topic."""
        return self.staging / f"batch={batch}"

    def already_published(self, batch: int, planned: Sequence[Range]) -> bool:
        """True if every topic of the batch is in the lake. Raises Contradiction if the lake has it with other offsets."""
        missing = False
        for topic in sorted({r.topic for r in planned}):
            written = self._manifest_lines_of(topic, batch)
            if written is None:
                missing = True
                continue
            there = {(w.topic, w.partition, w.next_offset) for w in written}
            expected = {(r.topic, r.partition, r.next) for r in planned if r.topic == topic}
            if there != expected:
                raise Contradiction(
                    f"batch {batch} of {topic} is published with other offsets than the checkpoint plans: the checkpoint is older "
                    "than the lake; restore the one that belongs to it"
                )
        return not missing

    def _manifest_lines_of(self, topic: str, batch: int) -> list[ManifestLine] | None:
        try:
            text = (self.published_path(topic, batch) / WRITTEN).read_text()
        except FileNotFoundError:
            return None
        return [ManifestLine(**v) for v in json.loads(text)]

    def publish(self, batch: int, planned: Sequence[Range]) -> list[ManifestLine]:
        """Check the staged files, rename them into the lake, and record the batch. Idempotent: published files are kept."""
        out: list[ManifestLine] = []
        for topic in sorted({r.topic for r in planned}):
            target = self.published_path(topic, batch)
            written = self._manifest_lines_of(topic, batch)
            if written is None:
                source = self.staging_path(batch) / f"topic={topic}"
                source.mkdir(parents=True, exist_ok=True)  # a range that contains only markers has no rows
                written = count_rows(source, batch, [r for r in planned if r.topic == topic])
                (source / WRITTEN).write_text(json.dumps([asdict(line) for line in written]))
                _sync(source)
                target.parent.mkdir(exist_ok=True)
                os.rename(source, target)
                _sync_folder(target.parent)
            out += written
        self._record(out)
        shutil.rmtree(self.staging_path(batch), ignore_errors=True)
        return out

    def write_status(self, status: dict[str, object]) -> None:
        """Replace status.json atomically."""
        replace_text(self.folder / "status.json", json.dumps(status))


def count_rows(folder: Path, batch: int, planned: Sequence[Range]) -> list[ManifestLine]:
    """Rows per partition in the written files. Raises Contradiction if an offset is outside its range or duplicated."""
    rows = {r.partition: 0 for r in planned}
    firsts: dict[int, int] = {}
    ranges = {r.partition: r for r in planned}
    last: dict[int, int] = {}
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for part in file.iter_batches(ROWS_PER_LOOK, columns=["partition", "offset"]):
                for number in pc.unique(part["partition"]).to_pylist():
                    offsets = part["offset"].filter(pc.equal(part["partition"], number))
                    low, high = pc.min(offsets).as_py(), pc.max(offsets).as_py()
                    range_ = ranges.get(number)
                    if range_ is None or low < range_.first or high >= range_.next:
                        raise Contradiction(
                            f"{path.name}: partition {number} has offsets {low} to {high}, planned was {range_}"
                        )
                    if len(offsets) > 1 and not pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py():
                        raise Contradiction(f"{path.name}: offsets of partition {number} repeat or go backwards")
                    if low <= last.get(number, -1):
                        raise Contradiction(f"{path.name}: partition {number} has offset {low} in two files")
                    last[number] = high
                    firsts.setdefault(number, low)
                    rows[number] += len(offsets)
    return [ManifestLine(batch, r.topic, r.partition, r.first, r.next, rows[r.partition]) for r in planned]


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
