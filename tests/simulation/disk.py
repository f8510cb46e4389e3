"""A disk in memory with power cuts, torn writes and failures.

Model: each file has a content that readers see (live) and one that survives a power cut (durable). fsync makes the content durable, and the file's name
too, as in ext4; `sync_folder` makes all names of a directory durable. Names become durable in the order of their changes (a journal; one per top
directory, as if each were a file system). `power_cut(rng)` keeps for each file a prefix of the writes since the last fsync, the next write torn at a
512-byte sector, and for each file system a prefix of the changes of names; the rename of a directory is one such change. A killed process loses nothing.

Faults: `broken` directories (EIO for every call), `hung` directories (a flush never returns), `crash_at` (the n-th modifying call raises Crashed, a
write may be partial), `fail_at` (it raises the given error), `bytes_max` (ENOSPC beyond it). Not modelled: bit rot (a test writes into `live`), lost names after fsync.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from brokerd.storage import nonblocking
from brokerd.storage.disk import Bytes, Disk, DiskFailed, DiskFull, File, FileMissing, Space

SECTOR = 512
NO_BOUND = 1 << 40


class DiskHangs(BaseException):
    """The call never returns: its thread waits for a hung disk."""


class Crashed(BaseException):
    """The process ends here. Not an Exception, so that no handler catches it by mistake."""


@dataclass
class Inode:
    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Changes since the last fsync: (position, data) of a write, or the size of a truncation."""
    number: int = 0
    """Unique on one disk: inode number and birth time in one."""


Change = tuple[Path, "Inode | Path | None"]
"""The new file of a name, the new name of a directory, or None where a file or a directory is removed."""


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        del content[change:]
        content.extend(bytes(change - len(content)))
    else:
        position, data = change
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data


class SimFile(File):
    __slots__ = ("_disk", "inode")

    def __init__(self, disk: SimDisk, path: Path, inode: Inode) -> None:
        self._disk, self.path, self.inode = disk, path, inode

    def fileno(self) -> int:
        return -1  # simulated responses read by pread; a real sendfile would fail

    def size(self) -> int:
        return len(self.inode.live)

    def resident(self, position: int, length: int) -> int:
        return 0 if self._disk.cold() else length

    def pread(self, length: int, position: int) -> bytes:
        if nonblocking.are_reads_nonblocking() and self._disk.cold():
            raise nonblocking.NotInPageCache(f"{self.path} at {position}", lambda: self._disk.reach(self.path))
        self._disk.reach(self.path)
        self._disk.reads += 1
        if self._disk.reads_fail:
            raise DiskFailed(f"reading {self.path}: Input/output error")
        return bytes(self.inode.live[position : position + length])

    def _change(self, change: tuple[int, bytes] | int) -> None:
        self.inode.pending.append(change)
        _apply(self.inode.live, change)

    def pwrite(self, data: Bytes, position: int) -> None:
        content = bytes(data)
        self._disk.reach(self.path)
        try:
            self._disk.step(f"write {self.path.name}")
        except (Crashed, DiskFull, DiskFailed):
            half = content[: len(content) // 2]
            if half:
                self._change((position, half))
            raise
        growth = position + len(content) - len(self.inode.live)
        room = self._disk.free_bytes() if growth > 0 else 0
        if growth > room:
            fits = content[: max(0, len(content) - (growth - room))]
            if fits:
                self._change((position, fits))
            raise DiskFull(f"writing {self.path}: no space left on the device")
        self._change((position, content))

    def truncate(self, size: int) -> None:
        self._disk.reach(self.path)
        self._disk.step(f"truncate {self.path.name}")
        self._change(size)

    def fsync(self) -> None:
        self._disk.reach(self.path)
        self._disk.step(f"fsync {self.path.name}")
        self._disk.flushes(f"fsync {self.path.name}")
        self._disk.raise_if_hung(self.path)
        self.inode.durable = bytes(self.inode.live)
        self.inode.pending.clear()
        self._disk.name_is_durable(self.path)


def _follow(step: list[Change], names: dict[Path, Inode], folders: set[Path]) -> None:
    for name, now in step:
        if isinstance(now, Path):
            folders.discard(name)
            folders.add(now)
        elif now is None:
            names.pop(name, None)
            folders.discard(name)
        else:
            names[name] = now


class SimDisk(Disk):
    def __init__(self, bytes_max: int = NO_BOUND) -> None:
        self.bytes_max = bytes_max
        self.names: dict[Path, Inode] = {}
        self.folders: set[Path] = {Path("/")}
        self._durable_names: dict[Path, Inode] = {}
        self._durable_folders: set[Path] = {Path("/")}
        self._journals: dict[str, list[list[Change]]] = {}
        """Changes since the last durable name, per file system: steps of (name, file), (name, None) for a removal, (old, new) for a directory."""
        self.steps = 0
        self.story: list[str] = []
        self.crash_at: int | None = None
        self.fail_at: dict[int, Exception] = {}
        self.sick = False
        """It has failed: the kernel may have dropped accepted writes (use `power_cut` then)."""
        self.reads = 0
        self.reads_fail = False
        self.marks_free = True
        """Writes of the running marks do not count as steps: `fail_at` and `crash_at` mean the other files."""
        self.numbers = count(1)
        self.device = 1
        self.broken: set[Path] = set()
        """Directories whose device returns EIO for everything."""
        self.hung: set[Path] = set()
        """Directories whose device answers no flush. Writes and reads of cached pages work, as on Linux."""
        self.cold: Callable[[], bool] = lambda: False
        """True if the bytes of a read are not in the page cache."""
        self.flushes: Callable[[str], None] = lambda what: None
        """Called for every operation that waits for the device to write."""

    # -- faults ------------------------------------------------------------------------------------------------------
    def step(self, what: str) -> None:
        """Called before every modifying operation."""
        if self.marks_free and ".running" in what:
            return
        self.steps += 1
        self.story.append(what)
        if self.crash_at is not None and self.steps >= self.crash_at:
            raise Crashed(f"at step {self.steps}: {what}")
        if self.steps in self.fail_at:
            self.sick = what.startswith(("write", "fsync"))
            raise self.fail_at[self.steps]

    def reach(self, path: Path) -> None:
        if self.broken and any(b == path or b in path.parents for b in self.broken):
            raise DiskFailed(f"at {path}: Input/output error", of_device=True)

    def raise_if_hung(self, path: Path) -> None:
        """Called by operations that wait until the device has written."""
        if any(h == path or h in path.parents for h in self.hung):
            raise DiskHangs(f"waiting for {path}")

    def power_cut(self, rng: random.Random) -> SimDisk:
        """The disk after the power cut. Open files of the old disk are invalid."""
        found = self._same_device()
        found.broken = set(self.broken)
        names, folders = dict(self._durable_names), set(self._durable_folders)
        for journal in self._journals.values():
            for step in journal[: rng.randint(0, len(journal))]:
                _follow(step, names, folders)
        found.folders, found._durable_folders = folders, set(folders)
        orphans = [name for name in names if name.parent not in folders]
        assert not orphans, f"no file system has a file without its directory: {orphans}"
        seen: dict[int, Inode] = {}
        for name, inode in names.items():
            if id(inode) not in seen:
                content = bytearray(inode.durable)
                kept = rng.randint(0, len(inode.pending))
                for change in inode.pending[:kept]:
                    _apply(content, change)
                if kept < len(inode.pending):
                    change = inode.pending[kept]
                    if not isinstance(change, int):
                        _apply(content, (change[0], change[1][: rng.randint(0, len(change[1]) // SECTOR) * SECTOR]))
                seen[id(inode)] = Inode(bytearray(content), bytes(content), number=inode.number)
            found.names[name] = seen[id(inode)]
        found._durable_names = dict(found.names)
        return found

    def after_io_error(self, rng: random.Random, intact: str) -> SimDisk:
        """The disk after an I/O error and kill -9: the kernel has dropped written data. Files of the name `intact` keep their content. They were written after the
        error, and one error does not drop what is written later."""
        found = self.power_cut(rng)
        for path, inode in self.names.items():
            if path.name == intact:
                found.names[path] = Inode(bytearray(inode.live), bytes(inode.live), number=inode.number)
        found._durable_names = dict(found.names)
        return found

    def killed(self) -> SimDisk:
        """The disk as a new process finds it after kill -9: nothing that was written is lost."""
        found = self._same_device()
        found.folders, found.names, found.broken = set(self.folders), dict(self.names), set(self.broken)
        found._durable_names, found._durable_folders = dict(self._durable_names), set(self._durable_folders)
        found._journals = {root: list(journal) for root, journal in self._journals.items()}
        return found

    def _same_device(self) -> SimDisk:
        found = SimDisk(self.bytes_max)
        found.numbers, found.device = self.numbers, self.device
        return found

    def copied(self) -> SimDisk:
        """A copy of all files like `cp -a` or a backup: the same names and contents in other files. Durable, as after a sync."""
        found = self._same_device()
        found.folders, found._durable_folders = set(self.folders), set(self.folders)
        for name, inode in self.names.items():
            found.names[name] = Inode(bytearray(inode.live), bytes(inode.live), number=next(self.numbers))
        found._durable_names = dict(found.names)
        return found

    def snapshot(self) -> SimDisk:
        """A storage snapshot of the volume: the same files with their current state."""
        found = self.copied()
        for name, inode in self.names.items():
            found.names[name].number = inode.number
        return found

    def free_bytes(self) -> int:
        return self.bytes_max if self.bytes_max == NO_BOUND else self.bytes_max - self.used()

    def used(self) -> int:
        return sum(len(i.live) for i in {id(i): i for i in self.names.values()}.values())

    # -- names -------------------------------------------------------------------------------------------------------
    def _journal_of(self, path: Path) -> list[list[Change]]:
        return self._journals.setdefault(path.parts[1] if len(path.parts) > 1 else "", [])

    def _change(self, *changes: Change) -> None:
        """One step of the journal."""
        _follow(list(changes), self.names, self.folders)
        self._journal_of(changes[0][0]).append(list(changes))

    def name_is_durable(self, path: Path) -> None:
        """Makes the journal durable up to the last change of this name."""
        journal = self._journal_of(path)
        for i in range(len(journal) - 1, -1, -1):
            if any(name == path for name, _ in journal[i]):
                self._write_journal(journal, i + 1)
                return

    def _write_journal(self, journal: list[list[Change]], count: int) -> None:
        for step in journal[:count]:
            _follow(step, self._durable_names, self._durable_folders)
        del journal[:count]

    # -- the port ----------------------------------------------------------------------------------------------------
    def open(self, path: Path, *, create: bool = False) -> File:
        if not create and nonblocking.are_reads_nonblocking() and self.cold():
            raise nonblocking.NotInPageCache(f"the name of {path}", lambda: self.reach(path))
        self.reach(path)
        inode = self.names.get(path)
        if inode is None:
            if not create or path.parent not in self.folders:
                raise FileMissing(f"opening {path}: No such file or directory")
            self.step(f"create {path.name}")
            if self.free_bytes() <= 0:
                raise DiskFull(f"opening {path}: no space left on the device")
            inode = Inode(number=next(self.numbers))
            self._change((path, inode))
        return SimFile(self, path, inode)

    def exists(self, path: Path) -> bool:
        return path in self.names or path in self.folders

    def isdir(self, path: Path) -> bool:
        return path in self.folders

    def size(self, path: Path) -> int:
        self.reach(path)
        inode = self.names.get(path)
        return -1 if inode is None else len(inode.live)

    def listdir(self, path: Path) -> list[str]:
        self.reach(path)
        if path not in self.folders:
            raise FileMissing(f"listing {path}: No such file or directory")
        found = [p.name for p in self.names if p.parent == path]
        return sorted(found + [p.name for p in self.folders if p.parent == path and p != path])

    def mkdir(self, path: Path) -> None:
        self.reach(path)
        for folders in (self.folders, self._durable_folders):
            folders.update([path, *path.parents])
        if any(name == path for step in self._journal_of(path) for name, _ in step):
            self._change((path, path))  # after the removal or the rename of the previous directory of this name

    def rename(self, old: Path, new: Path) -> None:
        self.reach(old)
        self.step(f"rename {old.name} to {new.name}")
        if old in self.folders:
            step: list[Change] = [(f, new / f.relative_to(old)) for f in self.folders if f == old or old in f.parents]
            for name in [n for n in self.names if old in n.parents]:
                step += [(name, None), (new / name.relative_to(old), self.names[name])]
            self._change(*step)
            return
        inode = self.names.get(old)
        if inode is None:
            raise FileMissing(f"renaming {old}: No such file or directory")
        self._change((new, inode), (old, None))

    def unlink(self, path: Path) -> None:
        self.reach(path)
        if path in self.names:
            self.step(f"unlink {path.name}")
            self._change((path, None))

    def rmtree(self, path: Path) -> None:
        for name in [n for n in self.names if path in n.parents]:
            self.step(f"rmtree {path.name}: unlink {name.name}")
            self._change((name, None))
        # A directory is removed after its files: a power cut in between leaves it with the rest of them.
        for folder in sorted((f for f in self.folders if f == path or path in f.parents), reverse=True):
            self._change((folder, None))

    def sync_folder(self, path: Path) -> None:
        self.reach(path)
        self.step(f"fsync {path.name}/")
        self.flushes(f"fsync {path.name}/")
        self.raise_if_hung(path)
        journal = self._journal_of(path)
        self._write_journal(journal, len(journal))

    def sync_all(self, path: Path) -> None:
        self.reach(path)
        self.step(f"syncfs {path.name}/")
        self.flushes(f"syncfs {path.name}/")
        self.raise_if_hung(path)
        root = path.parts[1] if len(path.parts) > 1 else ""
        for name, inode in self.names.items():
            if name.parts[1] == root:
                inode.durable = bytes(inode.live)
                inode.pending.clear()
        journal = self._journal_of(path)
        self._write_journal(journal, len(journal))

    def space(self, path: Path) -> Space:
        self.reach(path)
        return Space(self.bytes_max, max(0, self.bytes_max - self.used()))

    def file_id(self, path: Path) -> str:
        self.reach(path)
        inode = self.names.get(path)
        return "" if inode is None else f"{self.device}:{inode.number}:{inode.number}"
