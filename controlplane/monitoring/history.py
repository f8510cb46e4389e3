"""Writes the history of metrics: a frame every 10 s, chunks of 10 s each hour, chunks of a minute after a day (decision 054).

Invariants: a value is written as a row by the next job. So a restart of the process loses only the values of the time in which it does not run. Each step of
the maintenance is one transaction and may be repeated. The thread of the monitor only collects metrics; a thread of its pool writes them.
"""

from __future__ import annotations

import logging
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from datetime import timedelta

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from brokerd.cluster.image import Image
from controlplane.domain.history import ROWS_KEPT_S
from controlplane.models import HistoryChunk, HistoryFrame, HistorySeries
from controlplane.monitoring.history_metrics import HistoryMetrics, SeriesKey
from controlplane.monitoring.samples import MetricsCache
from weir_common.history_codes import (
    BLOCK_SERIES,
    CHUNK_VALUES,
    MINUTE_S,
    MISSING,
    STEP_S,
    code_of,
    minute_codes,
    pack,
    unpack,
)

log = logging.getLogger(__name__)

HOUR_S = CHUNK_VALUES * STEP_S
SPAN_S = CHUNK_VALUES * MINUTE_S
"""Seconds of a chunk of a minute: six hours."""

FINE_S = 86_400
"""Seconds after which values of 10 s become averages of a minute, at the end of their six hours."""

LATE_S_MAX = 30
"""Seconds between two sampling rounds that may be longer than a step: the steps between them get the later values."""

PENDING_MAX = 90
"""Maximum number of points in time that are kept in memory while the database does not respond: a quarter of an hour."""

SERIES_MAX = 40_000
"""Maximum number of series of all subjects, also of deleted ones whose history is still stored."""

BLOCKS_PER_JOB = 2
"""Blocks that one job maintains, each in some tenths of a second."""

SERIES_EMPTY_S = 86_400
"""Seconds after its creation when a series without values is deleted."""

ROWS_PER_STATEMENT = 500


class HistoryRecorder:
    def __init__(self) -> None:
        self._metrics = HistoryMetrics()
        self._slot: int | None = None
        """The last collected time."""
        self._pending: deque[tuple[int, dict[SeriesKey, float]]] = deque(maxlen=PENDING_MAX)
        self._running = threading.Lock()
        self._ids: dict[SeriesKey, int] | None = None
        self._full = False
        self._maintained_hour: int | None = None
        self._due: deque[int] = deque()
        """Blocks to maintain in this hour."""

    # -- in the monitor's thread ---------------------------------------------------------------------------------------
    def observe(self, image: Image, metrics: MetricsCache, pool: Executor, now_ms: int) -> None:
        """Collect the metrics if a step has passed, and let the pool write them."""
        now = now_ms // 1000 // STEP_S * STEP_S
        if self._slot is not None and now <= self._slot and self._slot - now < HOUR_S:
            return
        late = self._slot is not None and 0 < now - self._slot <= LATE_S_MAX
        first = self._slot + STEP_S if late and self._slot is not None else now
        values = self._metrics.collect(image, metrics, now_ms)
        self._pending.extend((slot, values) for slot in range(first, now + STEP_S, STEP_S))
        self._slot = now
        if not self._running.locked():
            pool.submit(self.run)

    # -- in a thread of the pool ---------------------------------------------------------------------------------------
    def run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        try:
            self.write()
            self.maintain(self._slot or 0)
        except DatabaseError as e:
            self._ids = None
            log.warning("database unavailable, history is kept in memory: error=%s", e)
        except Exception:  # A bug must not end the recording.
            self._ids = None
            log.exception("history not written, retrying")
        finally:
            connection.close()
            self._running.release()

    def write(self) -> None:
        """Write the collected metrics. Raises DatabaseError without loss: they are written next time."""
        while self._pending:
            at, values = self._pending[0]
            ids = self._series_ids(values)
            blocks: dict[int, array[int]] = {}
            for key, value in values.items():
                series_id = ids.get(key)
                if series_id is None:
                    continue
                block, place = divmod(series_id, BLOCK_SERIES)
                codes = blocks.get(block)
                if codes is None:
                    codes = blocks[block] = array("H", bytes(2 * BLOCK_SERIES))
                codes[place] = code_of(value)
            HistoryFrame.objects.bulk_create(
                [HistoryFrame(block=b, at=at, codes=_trim(codes)) for b, codes in blocks.items()],
                ignore_conflicts=True,
            )
            self._pending.popleft()

    def _series_ids(self, requested: Iterable[SeriesKey]) -> dict[SeriesKey, int]:
        if self._ids is None:
            self._ids = _stored_ids()
        new = [k for k in requested if k not in self._ids]
        room = max(0, SERIES_MAX - len(self._ids))
        if len(new) > room and not self._full:
            self._full = True
            log.warning("history is full, metrics of new objects are not recorded: series=%s", len(self._ids))
        if new[:room]:
            rows = [HistorySeries(subject=s, metric=f) for s, f in new[:room]]
            HistorySeries.objects.bulk_create(rows, batch_size=ROWS_PER_STATEMENT, ignore_conflicts=True)
            self._ids = _stored_ids()
        return self._ids

    def maintain(self, now_s: int) -> None:
        """A part of the maintenance that is due once per hour: frames to chunks, old chunks to averages of a minute, deletion."""
        hour = now_s // HOUR_S
        if self._maintained_hour != hour:
            self._maintained_hour = hour
            newest = HistorySeries.objects.order_by("-id").values_list("id", flat=True).first() or 0
            self._due = deque(range(newest // BLOCK_SERIES + 1))
        for _ in range(min(BLOCKS_PER_JOB, len(self._due))):
            maintain_block(self._due[0], now_s)
            self._due.popleft()
            if not self._due:
                self._delete_empty()

    def _delete_empty(self) -> None:
        before = timezone.now() - timedelta(seconds=SERIES_EMPTY_S)
        empty = HistorySeries.objects.filter(chunks__isnull=True, created_at__lt=before).values_list("id", flat=True)
        ids = list(empty[:SERIES_MAX])
        for some in _parts(ids):
            HistorySeries.objects.filter(id__in=some).delete()
        if ids:
            self._ids, self._full = None, False


def _stored_ids() -> dict[SeriesKey, int]:
    return {(s, f): i for i, s, f in HistorySeries.objects.values_list("id", "subject", "metric").iterator()}


def _trim(codes: array[int]) -> bytes:
    """Return the values without the missing values at the end. A small cluster has a small frame."""
    last = next((i for i in range(len(codes) - 1, -1, -1) if codes[i] != MISSING), -1)
    return codes[: last + 1].tobytes()


# -- maintenance -------------------------------------------------------------------------------------------------------
def maintain_block(block: int, now_s: int) -> None:
    hours = {
        at // HOUR_S * HOUR_S
        for at in HistoryFrame.objects.filter(block=block, at__lt=now_s // HOUR_S * HOUR_S).values_list("at", flat=True)
    }
    for hour in sorted(hours):
        frames_to_chunks(block, hour)
    chunks_to_minutes(block, (now_s - FINE_S) // SPAN_S * SPAN_S)
    _chunks(block, MINUTE_S).filter(begins__lt=now_s - ROWS_KEPT_S - SPAN_S).delete()


def frames_to_chunks(block: int, hour: int) -> None:
    """Replace the frames of an hour by one chunk per series."""
    frames = HistoryFrame.objects.filter(block=block, at__gte=hour, at__lt=hour + HOUR_S)
    rows = [array("H", bytes(2 * BLOCK_SERIES))] * CHUNK_VALUES
    found = list(frames.values_list("at", "codes"))
    for at, stored in found:
        codes = array("H")
        codes.frombytes(bytes(stored))
        codes.extend([MISSING] * (BLOCK_SERIES - len(codes)))
        rows[(at - hour) // STEP_S] = codes
    present = set(_series(block).values_list("id", flat=True))
    # These frames are from an hour that already has chunks, because the clock was set back.
    earlier = dict(_chunks(block, STEP_S).filter(begins=hour).values_list("series_id", "codes"))
    chunks = []
    for place, column in enumerate(zip(*rows, strict=True)):
        series_id = block * BLOCK_SERIES + place
        if series_id in present and any(column):
            if series_id in earlier:
                column = tuple(new or old for new, old in zip(column, unpack(earlier[series_id]), strict=True))
            chunks.append(HistoryChunk(series_id=series_id, step_s=STEP_S, begins=hour, codes=pack(column)))
    with transaction.atomic():
        _store(chunks)
        frames.filter(at__in=[at for at, _ in found]).delete()


def chunks_to_minutes(block: int, before: int) -> None:
    """Replace the chunks of 10 s that begin earlier by chunks of a minute. `before` is the end of six hours."""
    spans: dict[tuple[int, int], dict[int, list[int]]] = {}
    ids = []
    old = _chunks(block, STEP_S).filter(begins__lt=before)
    for pk, series_id, begins, stored in old.values_list("id", "series_id", "begins", "codes"):
        ids.append(pk)
        spans.setdefault((series_id, begins // SPAN_S * SPAN_S), {})[begins] = minute_codes(unpack(stored))
    if not ids:
        return
    chunks = []
    for (series_id, span), hours in spans.items():
        codes = [c for h in range(span, span + SPAN_S, HOUR_S) for c in hours.get(h, [MISSING] * (HOUR_S // MINUTE_S))]
        chunks.append(HistoryChunk(series_id=series_id, step_s=MINUTE_S, begins=span, codes=pack(codes)))
    with transaction.atomic():
        _store(chunks)
        for some in _parts(ids):
            HistoryChunk.objects.filter(id__in=some).delete()


def _store(chunks: list[HistoryChunk]) -> None:
    HistoryChunk.objects.bulk_create(
        chunks,
        batch_size=ROWS_PER_STATEMENT,
        update_conflicts=True,
        unique_fields=["series", "step_s", "begins"],
        update_fields=["codes"],
    )


def _series(block: int) -> QuerySet[HistorySeries]:
    return HistorySeries.objects.filter(id__gte=block * BLOCK_SERIES, id__lt=(block + 1) * BLOCK_SERIES)


def _chunks(block: int, step_s: int) -> QuerySet[HistoryChunk]:
    first = block * BLOCK_SERIES
    return HistoryChunk.objects.filter(series_id__gte=first, series_id__lt=first + BLOCK_SERIES, step_s=step_s)


def _parts(ids: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(ids), ROWS_PER_STATEMENT):
        yield ids[first : first + ROWS_PER_STATEMENT]
