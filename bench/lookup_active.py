"""`python -m bench.lookup_active`: CPU of a look-up by key in an active segment, scanned and with the part that is indexed, and of the build in parts.

No broker: the search and the build run in this process, on a segment in a temporary folder, in the page cache. So the values do not contain the network and the
event loop. All times are CPU times of the process, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from brokerd.maintenance.key_indexing import PART_BYTES
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import KeyIndexPart
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.key_search import KeyCriteria, SegmentSearch, SegmentView
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.segment import Segment
from brokerd.wire import records
from brokerd.wire.records import Record

BATCH_BYTES = 16_000
BUILDS, SCANS, LOOKUPS = 3, 15, 300


def filled(folder: Path, size: int, record_bytes: int) -> Segment:
    """A segment of `size` bytes; record N has key N."""
    segment, value = Segment(folder, 0, OsDisk(), 4096), os.urandom(record_bytes)
    segment.create()
    while segment.size < size:
        first, at = segment.end_offset, segment.size
        count = max(1, BATCH_BYTES // record_bytes)
        batch = bytearray(records.build([Record(i, 1_000, key_of(first + i), value) for i in range(count)]))
        batch[:8] = first.to_bytes(8, "big")
        segment.file.pwrite(bytes(batch), at)
        segment.note(records.peek(batch), first, at)
    return segment


def key_of(number: int) -> bytes:
    return b"order-%012d" % number


def built_at_once(segment: Segment) -> float:
    """CPU seconds."""
    build = KeyIndexBuild(segment.disk, segment.path, 0, segment.size, HashedKeys())
    began = time.process_time()
    while not build.finished:
        build.run(PART_BYTES)
    spent = time.process_time() - began
    segment.disk.unlink(build.temporary)
    return spent


def built_in_parts(segment: Segment) -> tuple[float, KeyIndexBuild, KeyIndexPart]:
    """CPU seconds while the segment grows by PART_BYTES at a time and is closed, a build of the active segment, and its part."""
    ends = [*[at for at, _ in segment.headers(0)][1:], segment.size]
    sizes = [end for end, following in pairwise(ends) if following // PART_BYTES > end // PART_BYTES]
    spent = 0.0
    for closes in (True, False):
        build = KeyIndexBuild(segment.disk, segment.path, 0, 0, HashedKeys(), closed=False)
        began = time.process_time()
        for size in [*sizes, segment.size]:
            build.extend(size, closed=closes and size == segment.size)
            while build.position < build.size:
                build.run(PART_BYTES)
        if closes:
            spent = time.process_time() - began
            segment.disk.unlink(build.temporary)
    assert build.part is not None
    return spent, build, build.part


def lookups(view: SegmentView, part: KeyIndexPart | None, keys: list[bytes], matches: int) -> float:
    """Median CPU milliseconds of a look-up of one match."""
    took = []
    for key in keys:
        search = SegmentSearch(view, KeyCriteria(key), view.end_offset, 1, 1 << 40, None, part)
        began = time.process_time()
        search.run()
        took.append((time.process_time() - began) * 1_000)
        assert len(search.matches) == matches
    return median(took)


def measure(folder: Path, size: int, record_bytes: int) -> None:
    segment = filled(folder, size, record_bytes)
    at_once = median(built_at_once(segment) for _ in range(BUILDS))
    in_parts = median(built_in_parts(segment)[0] for _ in range(BUILDS))
    _, build, part = built_in_parts(segment)
    print(
        f"{segment.size >> 20} MiB, {segment.end_offset:,} records of {record_bytes} B: build at once {at_once:.2f} s, in parts {in_parts:.2f} s, "
        f"ratio {in_parts / at_once:.2f}; {len(part.runs)} runs, {build.unwritten:,} entries in memory"
    )
    rng, view = random.Random(1), SegmentView.of(segment, active=True)
    for name, numbers, matches in (("present", (0, segment.end_offset), 1), ("absent", (1 << 39, 1 << 40), 0)):
        keys = [key_of(rng.randrange(*numbers)) for _ in range(LOOKUPS)]
        scan, indexed = lookups(view, None, keys[:SCANS], matches), lookups(view, part, keys, matches)
        print(
            f"  key {name}: scan {scan:.2f} ms, with the part {indexed:.3f} ms, ratio {indexed / scan:.4f}", flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lookup_active", description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of the segment")
    parser.add_argument("--record-bytes", type=int, nargs="*", default=[1_024, 100])
    given = parser.parse_args()
    print(f"load of the machine {os.getloadavg()[0]:.1f}; medians of CPU times")
    for record_bytes in given.record_bytes:
        with tempfile.TemporaryDirectory(prefix="weir-bench-active-") as folder:
            measure(Path(folder), given.mib << 20, record_bytes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
