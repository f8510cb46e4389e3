"""`make lake-kills`: kill -9 of an archive at every step of its commits, without Spark. A round is a process that archives a log into the lake and kills
itself at a random step: files written, metadata written but not in the catalogue, committed, dead letters published, columns added. The next
round continues. At the end each record of the log must be in the table, or in the dead letters, exactly once.

The processes are forked, so a round takes tenths of a second. Does not test Spark's own restarts (tests/pipeline/test_lake_archive.py).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog

from pipeline import schemas
from pipeline.lake.archiving import LakeArchive, WrittenFile
from pipeline.offsets import Range, offset_of
from tests import postgres
from tests.pipeline.lake import rows_of
from tests.pipeline.rest_catalogue import rest_catalogue
from tests.pipeline.s3 import s3_warehouse
from weir_common.lake import ValueFormat
from weir_common.lake_catalog import URL_VARIABLE, LakeSettings

TOPIC, PARTITIONS = "log", 2
EVENTS_MAX = 14
"""A round kills itself at one of this many events."""


def record(partition: int, offset: int) -> dict[str, object]:
    """The record of the log at an offset: always the same. A new column every 40 offsets, a day every 100; some values do not fit."""
    value: dict[str, object] = {"n": offset, f"c{offset // 40}": f"x{offset}"}
    if offset % 17 == 5:
        value["n"] = "no number"
    return {
        "key": f"k{offset % 7}".encode(),
        "value": b"no JSON" if offset % 23 == 7 else json.dumps(value).encode(),
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "timestamp": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=offset // 100),
        "timestampType": 0,
        "headers": None,
    }


def is_dead(offset: int) -> bool:
    return offset % 17 == 5 or offset % 23 == 7


def archive(lake: LakeSettings, end: int, batch_max: int, step: Callable[[str], None]) -> None:
    """Archive the log up to offset `end` of each partition, in batches of at most `batch_max` offsets per partition."""
    job = LakeArchive(lake, "kills", [TOPIC], ValueFormat.JSON, key_buckets=2, step=step)
    present = job.open()
    first = {p: offset_of(present, TOPIC, p) or 0 for p in range(PARTITIONS)}
    while min(first.values()) < end:
        planned = [Range(TOPIC, p, o, min(end, o + batch_max)) for p, o in first.items() if o < end]
        writer, files = job.writer(), []
        for r in planned:  # one task per partition
            files += [WrittenFile.of_row(row) for out in writer(batches(r)) for row in out.to_pylist()]
        step("files-written")
        job.commit(planned, files)
        step("batch-ended")
        first = {p: max(o, min(end, o + batch_max)) for p, o in first.items()}


def batches(r: Range) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist(
        [record(r.partition, o) for o in range(r.first, r.next)], schema=schemas.ARROW_RECORD_WITH_HEADERS
    )


def killed_round(lake: LakeSettings, end: int, seed: int, seen: Path | None) -> bool:
    """Fork a process that archives and kills itself at a random event; at none without `seen`. True if it was killed before its end."""
    draw = random.Random(seed)
    victim, batch_max = draw.randint(1, EVENTS_MAX) if seen else 0, draw.choice((10, 25, 60))
    child = os.fork()
    if child == 0:
        count = 0

        def count_step(name: str) -> None:
            nonlocal count
            count += 1
            if count == victim and seen is not None:
                with open(seen, "a") as out:
                    out.write(name + "\n")
                os.kill(os.getpid(), signal.SIGKILL)

        write_metadata = MetastoreCatalog._write_metadata

        def write_and_count(*arguments: object, **named: object) -> None:
            write_metadata(*arguments, **named)
            count_step("metadata-written")

        MetastoreCatalog._write_metadata = staticmethod(write_and_count)  # type: ignore[method-assign,assignment]
        code = 1
        try:
            archive(lake, end, batch_max, count_step)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.waitstatus_to_exitcode(status):
        raise AssertionError(f"round with seed {seed} failed by itself")
    return False


def differences(lake: LakeSettings, end: int) -> list[str]:
    """The faults of the tables; empty if rows = records."""
    rows = Counter((r[1], r[2]) for r in rows_of(lake, TOPIC))
    dead = Counter((r[1], r[2]) for r in rows_of(lake, TOPIC, dead_letters=True))
    out = [f"{at} is {n} times in the table" for at, n in rows.items() if n > 1]
    out += [f"{at} is {n} times in the dead letters" for at, n in dead.items() if n > 1]
    for partition in range(PARTITIONS):
        for offset in range(end):
            place, other = (dead, rows) if is_dead(offset) else (rows, dead)
            if (partition, offset) in other:
                out.append(f"{(partition, offset)} is in the wrong table")
            elif (partition, offset) not in place:
                out.append(f"{(partition, offset)} is lost")
    return out


def run(folder: Path, rounds: int, seed: int, lake: LakeSettings | None = None) -> tuple[Counter[str], list[str]]:
    """The kills by step, and the differences at the end. `lake`: in the folder unless given."""
    lake, seen = lake or LakeSettings.of_folder(folder / "lake"), folder / "steps"
    end = 0
    for number in range(rounds):
        end += 25
        killed_round(lake, end, seed * 1_000_003 + number, seen)
    killed_round(lake, end, seed, None)
    return Counter(seen.read_text().split()), differences(lake, end)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--s3", action="store_true", help="tables on an S3 server instead of a folder")
    parser.add_argument("--postgres", action="store_true", help="catalogue in a PostgreSQL server instead of SQLite")
    parser.add_argument("--rest", action="store_true", help="REST catalogue, with its tables in a folder")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lake-kills-"))
    try:
        with ExitStack() as stack:
            if arguments.s3:
                os.environ |= stack.enter_context(s3_warehouse(folder / "s3.log"))
            if arguments.postgres:
                os.environ[URL_VARIABLE] = stack.enter_context(postgres.server())
            if arguments.rest:
                os.environ |= stack.enter_context(rest_catalogue(folder / "rest"))
            lake = LakeSettings.of_environment(folder / "lake")
            kills, wrong = run(folder, arguments.rounds, arguments.seed, lake)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{sum(kills.values())} kills in {arguments.rounds} rounds, by step: {dict(sorted(kills.items()))}")
    print("\n".join(wrong[:50]) or "each record is in the lake exactly once")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
