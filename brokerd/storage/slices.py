"""What a log gives and takes: the small values of its interface.

Law: values only. Called by everybody who calls `log`.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerd.storage.disk import DiskFailed, File
from brokerd.wire.framing import FileRegion


class FetchRefused(DiskFailed):
    """A leader's answer does not fit this log: damaged, or not at its end. Nothing was written."""


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time: int = -1


class Slice(NamedTuple):
    """Whole batches, as regions of files."""

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
