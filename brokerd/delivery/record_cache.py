"""Records of a front partition that are about to be sent, read from its log by their offsets. Does not contain: the choice of the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerd.delivery.front_log import FrontLog
from brokerd.wire import records
from brokerd.wire.records import Record


class RecordCache:
    def __init__(self, log: FrontLog, take_recent: Callable[[int], Record | None] | None = None) -> None:
        """`take_recent`: returns the record at an offset of this log if it was read a short time ago."""
        self._log, self._take_recent = log, take_recent
        self._records: dict[int, Record] = {}

    def load(self, offsets: Iterable[int]) -> bool:
        """Read the records at these offsets. Returns False if some are not in the page cache yet. Deleted records are absent afterwards."""
        start = self._log.start_offset
        missing = {o for o in offsets if o not in self._records and o >= start}
        if not missing:
            return True
        if self._take_recent is not None:
            for offset in list(missing):
                recent = self._take_recent(offset)
                if recent is not None:
                    self._records[offset] = recent
                    missing.discard(offset)
        for offset in sorted(missing):
            if offset in self._records:
                continue
            data = self._log.read(offset, 1, self._log.high_watermark)
            if data is None:
                return False
            for record in records.iterate(data):
                if record.offset in missing:
                    self._records[record.offset] = record
        return True

    def get(self, offset: int) -> Record | None:
        return self._records.get(offset)

    def forget(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._records.pop(offset, None)
