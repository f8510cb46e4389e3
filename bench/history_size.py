"""Disk and time of the recorded history of many topics: `python -m bench.history_size` (decision 054).

A migrated SQLite file in a temporary directory gets the chunks of 30 days of some topics, and the frames of an hour of all topics. Each topic has two values: a
rate with noise, and a growing size. Bytes are those of the file, scaled to the number of topics. Times: one frame of all series, the maintenance of one block,
and the points of a chart.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--part", type=int, default=33, help="One of this many topics gets chunks.")
    parser.add_argument(
        "--noise", type=float, default=0.1, help="Standard deviation of the rate, relative to its mean."
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(WEIR_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="weir.settings")
        _measure(Path(folder), options.topics, options.part, options.noise)


def _measure(folder: Path, topics: int, part: int, noise: float) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from controlplane.domain.history import ROWS_KEPT_S
    from controlplane.models import HistoryChunk, HistorySeries
    from controlplane.monitoring.history import FINE_S, HOUR_S, SPAN_S, HistoryRecorder, maintain_block
    from controlplane.selectors import history
    from weir_common.history_codes import CHUNK_VALUES, MINUTE_S, STEP_S, code_of, pack

    call_command("migrate", verbosity=0)
    file, draw = Path(connection.settings_dict["NAME"]), random.Random(1)
    now = int(time.time()) // SPAN_S * SPAN_S

    def used() -> int:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute("VACUUM")
        return file.stat().st_size

    names = [f"topic:app-{n:05d}.events" for n in range(topics)]
    measurements = {(n, f): 0.0 for n in names for f in ("records_per_s", "size_bytes")}
    recorder = HistoryRecorder()
    empty = used()
    recorder._series_ids(measurements)
    print(f"{len(measurements)} series: {used() - empty:,} bytes")

    before, values = used(), 0
    sampled = names[::part]
    mean = {n: 10 ** draw.uniform(0, 5) for n in sampled}
    for series in HistorySeries.objects.filter(subject__in=sampled):
        rows = []
        for step, first, end, deviation in (
            (MINUTE_S, now - ROWS_KEPT_S, now - FINE_S, noise / 6**0.5),
            (STEP_S, now - FINE_S - SPAN_S, now, noise),
        ):
            for begins in range(first, end, step * CHUNK_VALUES):
                if series.metric == "size_bytes":
                    numbers = [
                        1e9 + mean[series.subject] * 100 * (begins - first + i * step) for i in range(CHUNK_VALUES)
                    ]
                else:
                    numbers = [mean[series.subject] * draw.gauss(1, deviation) for _ in range(CHUNK_VALUES)]
                rows.append(
                    HistoryChunk(series=series, step_s=step, begins=begins, codes=pack([code_of(n) for n in numbers]))
                )
                values += CHUNK_VALUES
        HistoryChunk.objects.bulk_create(rows)
    size = used() - before
    print(f"chunks of {len(sampled)} topics: {size:,} bytes, {size / values:.2f} bytes per value")
    print(f"chunks of {topics} topics: {size * topics / len(sampled) / 1e6:,.0f} MB")

    before = used()
    began = time.perf_counter()
    for i in range(CHUNK_VALUES):
        recorder._pending.append((now - HOUR_S + STEP_S * i, {k: mean.get(k[0], 5.0) + i % 7 for k in measurements}))
        recorder.write()
    print(f"one frame of all series: {(time.perf_counter() - began) * 1000 / CHUNK_VALUES:.0f} ms")
    print(f"frames of an hour: {(used() - before) / 1e6:.0f} MB")

    until = datetime.fromtimestamp(now, UTC)
    for hours in (0.25, 1, 6, 24, 168, 720):
        since = datetime.fromtimestamp(now - hours * HOUR_S, UTC)
        keys = [(sampled[3], "records_per_s"), (sampled[3], "size_bytes")]
        began = time.perf_counter()
        history.lines(keys, since, until)
        print(f"points of two charts of {hours} h: {(time.perf_counter() - began) * 1000:.0f} ms")
    began = time.perf_counter()
    maintain_block(1, now)
    print(f"maintenance of the frames of a block: {(time.perf_counter() - began) * 1000:.0f} ms")
    began = time.perf_counter()
    maintain_block(2, now + SPAN_S)
    print(f"maintenance of a block with averages of a minute: {(time.perf_counter() - began) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
