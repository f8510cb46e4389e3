"""Values of the log's interface: results of appends and reads."""

from __future__ import annotations

from typing import NamedTuple

from brokerd.storage.disk import DiskFailed, File
from brokerd.wire.framing import FileRegion


class FetchRejected(DiskFailed):
    """A leader's response does not match this log: it is damaged or does not start at the log end offset. Nothing is written."""


class AppendedSlice(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time: int = -1


class Slice(NamedTuple):
    """Complete batches, as regions of files."""

    regions: tuple[FileRegion, ...]

    @property
    def size(self) -> int:
        return sum(r.length for r in self.regions)

    def bytes(self) -> bytes:
        out = b""
        for r in self.regions:
            assert isinstance(r.file, File)
            out += r.file.pread(r.length, r.position)
        return out


NOTHING = Slice(())
