"""Keeps the entries of the metadata log with their times, and images of it (decision 061). ZooKeeper has only the newest part of the log.

Invariants: each kept entry follows the kept entry or image before it; after missing entries an image comes first. Repeated entries are ignored, so a
write may be repeated. The monitor's thread only collects; a thread of its pool writes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import pairwise

from django.db import DatabaseError, connection, transaction
from django.db.models import Max, Sum

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from controlplane.domain.metadata_history import StoredEntry, image_records, kept_records, pack_entries, pack_image
from controlplane.models import MetadataImage, MetadataSegment

log = logging.getLogger(__name__)

KEPT_MS = 30 * 86_400_000
"""Retention, as of the history of metrics. One image before it is kept, so that the whole time can be read."""

KEPT_BYTES_MAX = 512 * 1024 * 1024
"""Maximum size of all images and entries together. The oldest are deleted first."""

IMAGE_EVERY_MS = 24 * 3_600_000
"""Time between two images of a cluster that changes, so that retention can delete a day."""

IMAGE_EVERY_BYTES = 1024 * 1024
"""Bytes of entries after which an image follows, if they are more than the last image: bounds the replay of a read."""

SEGMENT_ENTRIES_MAX = 500
"""Maximum number of entries of a row. One row has the entries of about a second."""

PENDING_MAX = 20_000
"""Maximum number of entries in memory while the database does not respond. More are dropped: that time becomes a gap."""

PRUNE_EVERY_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _ImageToStore:
    seq: int
    at_ms: int
    controller_epoch: int
    records: list[MetadataRecord]


@dataclass(frozen=True, slots=True)
class _EntryToStore:
    entry: StoredEntry
    controller_epoch: int


_Item = _ImageToStore | _EntryToStore


class MetadataHistoryRecorder:
    def __init__(self) -> None:
        self._items: deque[_Item] = deque()
        self._running = threading.Lock()
        self._image_due = False
        self._stored: int | None = None
        """Number of the last stored entry, 0 for none. None: not read yet."""
        self._stored_ms = 0
        self._compared = False
        """True if the rows are known to be from this log."""
        self._image_ms = 0
        self._image_bytes = 0
        self._bytes_since_image = 0
        self._pruned_ms: int | None = None

    # -- in the monitor's thread ---------------------------------------------------------------------------------------
    def image_loaded(self, image: Image, now_ms: int) -> None:
        """The reader continues from a snapshot: entries before it may be missing here."""
        self._items.append(self._image_of(image, now_ms))

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], written_ms: int, now_ms: int) -> None:
        if len(self._items) >= PENDING_MAX:
            if not self._image_due:
                log.warning("metadata log entries dropped, too many wait for the database: seq=%d", image.seq)
            self._image_due = True
            return
        entry = StoredEntry(image.seq, written_ms or now_ms, kept_records(records))
        self._items.append(_EntryToStore(entry, image.controller_epoch))

    def observe(self, image: Image, pool: Executor, now_ms: int, *, complete: bool) -> None:
        """Let the pool write what was collected. `complete`: the image has reached the end of the log since the start of the monitor."""
        if complete and self._image_due and not image.unfinished and len(self._items) < PENDING_MAX:
            self._image_due = False
            self._items.append(self._image_of(image, now_ms))
        due = self._pruned_ms is None or now_ms - self._pruned_ms >= PRUNE_EVERY_MS
        if (self._items or due) and not self._running.locked():
            pool.submit(self.run, image.seq if complete else None, now_ms)

    @staticmethod
    def _image_of(image: Image, now_ms: int) -> _ImageToStore:
        return _ImageToStore(image.seq, now_ms, image.controller_epoch, image_records(image.records()))

    # -- in a thread of the pool ---------------------------------------------------------------------------------------
    def run(self, head: int | None, now_ms: int) -> None:
        """`head`: number of the last entry of the log; None while the log is read for the first time."""
        if not self._running.acquire(blocking=False):
            return
        try:
            self.write(head, now_ms)
        except DatabaseError as e:
            self._stored = None
            log.warning("database unavailable, entries of the metadata log are kept in memory: error=%s", e)
        except Exception:  # A bug must not end the recording.
            self._stored = None
            log.exception("history of the metadata log not written, retrying")
        finally:
            connection.close()
            self._running.release()

    def write(self, head: int | None, now_ms: int) -> None:
        """Raises DatabaseError without loss: it is written next time."""
        if self._stored is None:
            self._read_position()
        if head is not None and not self._compared:
            self._compared = True
            self._delete_foreign(head)
        while self._items:
            first = self._items[0]
            if isinstance(first, _ImageToStore):
                self._write_image(first)
                self._items.popleft()
            else:
                self._write_segment()
        if self._pruned_ms is None or now_ms - self._pruned_ms >= PRUNE_EVERY_MS:
            prune(now_ms)
            self._pruned_ms = now_ms
        grown = self._bytes_since_image >= max(IMAGE_EVERY_BYTES, self._image_bytes)
        old = self._bytes_since_image and now_ms - self._image_ms >= IMAGE_EVERY_MS
        if grown or old:
            self._image_due = True

    def _delete_foreign(self, head: int) -> None:
        """Rows with later entries than the log has are from another log: this database was used with another cluster."""
        if (self._stored or 0) <= head:
            return
        log.warning("stored metadata log of another cluster deleted: stored=%s head=%d", self._stored, head)
        with transaction.atomic():
            MetadataSegment.objects.all().delete()
            MetadataImage.objects.all().delete()
        self._read_position()
        self._image_due = True

    def _read_position(self) -> None:
        images = MetadataImage.objects.aggregate(seq=Max("seq"), at_ms=Max("at_ms"))
        segments = MetadataSegment.objects.aggregate(seq=Max("last_seq"), at_ms=Max("ends_ms"))
        stored = max(images["seq"] or 0, segments["seq"] or 0)
        self._stored = stored
        self._stored_ms = max(images["at_ms"] or 0, segments["at_ms"] or 0) if stored else 0
        newest = MetadataImage.objects.order_by("-seq").values("seq", "at_ms", "size_bytes").first()
        self._image_ms, self._image_bytes = (newest["at_ms"], newest["size_bytes"]) if newest else (0, 0)
        since = MetadataSegment.objects.filter(last_seq__gt=newest["seq"] if newest else 0)
        self._bytes_since_image = since.aggregate(size=Sum("size_bytes"))["size"] or 0

    def _write_image(self, image: _ImageToStore) -> None:
        """Store an image. If its entries are already stored, it only makes later replays shorter."""
        at_ms = image.at_ms
        if image.seq > (self._stored or 0) and len(self._items) > 1:
            following = self._items[1]
            if isinstance(following, _EntryToStore):
                at_ms = min(at_ms, following.entry.at_ms)
        at_ms = max(at_ms, self._stored_ms)
        if image.seq < (self._stored or 0):
            return
        data = pack_image(image.records)
        self._store_image(image.seq, at_ms, image.controller_epoch, data)

    def _store_image(self, seq: int, at_ms: int, controller_epoch: int, data: bytes) -> None:
        values = {"at_ms": at_ms, "controller_epoch": controller_epoch, "size_bytes": len(data), "data": data}
        MetadataImage.objects.get_or_create(seq=seq, defaults=values)
        self._stored = max(self._stored or 0, seq)
        self._stored_ms = max(self._stored_ms, at_ms)
        self._image_ms, self._image_bytes, self._bytes_since_image = at_ms, len(data), 0

    def _write_segment(self) -> None:
        """Write the entries at the front that follow each other, without those that are stored. The front is an entry."""
        stored = self._stored or 0
        entries: list[StoredEntry] = []
        taken, epoch, at_ms = 0, 0, self._stored_ms
        # Only this thread removes items.
        for item in (self._items[i] for i in range(min(len(self._items), SEGMENT_ENTRIES_MAX))):
            if isinstance(item, _ImageToStore):
                break
            if item.entry.seq > stored:
                if item.entry.seq != (entries[-1].seq if entries else stored) + 1:
                    break
                # The clock of ZooKeeper's leader may step back: the order of the entries decides.
                at_ms = max(at_ms, item.entry.at_ms)
                epoch = item.controller_epoch
                entries.append(replace(item.entry, at_ms=at_ms))
            taken += 1
        if not taken:
            # Entries are missing, and there is no image before them: the next image begins a new known time.
            self._items.popleft()
            self._image_due = True
            return
        if entries:
            self._store_segment(entries, epoch)
        for _ in range(taken):
            self._items.popleft()

    def _store_segment(self, entries: list[StoredEntry], controller_epoch: int) -> None:
        first, last = entries[0], entries[-1]
        if first.seq == 1:
            self._store_image(0, first.at_ms, 0, b"")
        data = pack_entries(entries)
        values = {
            "last_seq": last.seq,
            "begins_ms": first.at_ms,
            "ends_ms": last.at_ms,
            "controller_epoch": controller_epoch,
            "size_bytes": len(data),
            "data": data,
        }
        MetadataSegment.objects.get_or_create(first_seq=first.seq, defaults=values)
        self._stored, self._stored_ms = last.seq, last.at_ms
        self._bytes_since_image += len(data)


def prune(now_ms: int) -> None:
    """Delete what is older than the retention, and the oldest part above the limit of bytes. An image and the entries after it are deleted together."""
    images = list(MetadataImage.objects.order_by("seq").values_list("seq", "at_ms", "size_bytes"))
    begin = max((seq for seq, at_ms, _ in images if at_ms <= now_ms - KEPT_MS), default=0)
    total = sum(size for seq, _, size in images if seq >= begin)
    total += MetadataSegment.objects.filter(last_seq__gt=begin).aggregate(size=Sum("size_bytes"))["size"] or 0
    later = [image for image in images if image[0] >= begin]
    for (seq, _, size), (following, _, _) in pairwise(later):
        if total <= KEPT_BYTES_MAX:
            break
        entries = MetadataSegment.objects.filter(last_seq__gt=seq, last_seq__lte=following)
        total -= size + (entries.aggregate(size=Sum("size_bytes"))["size"] or 0)
        begin = following
    if begin:
        with transaction.atomic():
            MetadataSegment.objects.filter(last_seq__lte=begin).delete()
            MetadataImage.objects.filter(seq__lt=begin).delete()
