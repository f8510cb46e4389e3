"""A disk in memory that forgets, tears and fails when told to.

Model: each file has what a reader sees (live) and what a power cut leaves (durable); fsync moves one to the other, and makes the
file's name durable as ext4 does; `sync_folder` makes all names of a folder durable. Names become durable in the order in which
they were changed (a journal; one per top folder, as if each were a file system of its own). `power_cut(rng)` keeps, per file, some
prefix of the writes since the last fsync, the next one torn at a 512-byte sector, and, per file system, some prefix of the names'
changes; a folder's renaming is one of them. A killed process loses nothing: just open again.

Faults: `broken` folders (EIO for everything in them), `crash_at` (the n-th changing verb raises Crashed, a write may be half done), `fail_at` (it raises the given error),
`bytes_max` (ENOSPC beyond it). Not modelled: bit rot (write into `live` yourself), lost names after fsync, slow disks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from brokerd.storage.disk import Bytes, Disk, DiskFailed, DiskFull, File, Space

SECTOR = 512
NO_BOUND = 1 << 40


class Crashed(BaseException):
    """The process ends here. Not an Exception: nobody may catch it by mistake."""


@dataclass
class Inode:
    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Since the last fsync: (position, data) of a write, or the size of a truncation."""


Change = tuple[Path, "Inode | Path | None"]


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
        return -1  # what is sent in simulations is read by pread; a real sendfile would fail

    def size(self) -> int:
        return len(self.inode.live)

    def pread(self, length: int, position: int) -> bytes:
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
        room = self._disk.room() if growth > 0 else 0
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
        """Since the last durable name, per file system: steps of (name, file), (name, None) for a removal, (old, new) for a folder."""
        self.steps = 0
        self.story: list[str] = []
        self.crash_at: int | None = None
        self.fail_at: dict[int, Exception] = {}
        self.sick = False
        """It has failed: the kernel may have dropped what it had taken (use `power_cut` then)."""
        self.reads = 0
        self.reads_fail = False
        self.broken: set[Path] = set()
        """Folders whose device answers EIO to everything."""

    # -- faults ------------------------------------------------------------------------------------------------------
    def step(self, what: str) -> None:
        """Every verb that changes something passes here, before it happens."""
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

    def power_cut(self, rng: random.Random) -> SimDisk:
        """The disk that is found after the power came back. Open files of the old one mean nothing to it."""
        found = SimDisk(self.bytes_max)
        found.broken = set(self.broken)
        names, folders = dict(self._durable_names), set(self._durable_folders)
        for journal in self._journals.values():
            for step in journal[: rng.randint(0, len(journal))]:
                _follow(step, names, folders)
        found.folders, found._durable_folders = folders, set(folders)
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
                seen[id(inode)] = Inode(bytearray(content), bytes(content))
            found.names[name] = seen[id(inode)]
        found._durable_names = dict(found.names)
        return found

    def killed(self) -> SimDisk:
        """The disk as a new process finds it after a kill -9: nothing written is lost."""
        found = SimDisk(self.bytes_max)
        found.folders, found.names, found.broken = set(self.folders), dict(self.names), set(self.broken)
        found._durable_names, found._durable_folders = dict(self._durable_names), set(self._durable_folders)
        found._journals = {root: list(journal) for root, journal in self._journals.items()}
        return found

    def room(self) -> int:
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
        """Everything in the journal up to the last change of this name."""
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
        self.reach(path)
        inode = self.names.get(path)
        if inode is None:
            if not create or path.parent not in self.folders:
                raise DiskFailed(f"opening {path}: No such file or directory")
            self.step(f"create {path.name}")
            if self.room() <= 0:
                raise DiskFull(f"opening {path}: no space left on the device")
            inode = Inode()
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
            raise DiskFailed(f"listing {path}: No such file or directory")
        found = [p.name for p in self.names if p.parent == path]
        return sorted(found + [p.name for p in self.folders if p.parent == path and p != path])

    def mkdir(self, path: Path) -> None:
        self.reach(path)
        for folders in (self.folders, self._durable_folders):
            folders.update([path, *path.parents])

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
            raise DiskFailed(f"renaming {old}: No such file or directory")
        self._change((new, inode), (old, None))

    def unlink(self, path: Path) -> None:
        self.reach(path)
        if path in self.names:
            self.step(f"unlink {path.name}")
            self._change((path, None))

    def rmtree(self, path: Path) -> None:
        self.step(f"rmtree {path.name}")
        for name in [n for n in self.names if path in n.parents]:
            self._change((name, None))
        for folders in (self.folders, self._durable_folders):
            folders -= {f for f in folders if f == path or path in f.parents}

    def sync_folder(self, path: Path) -> None:
        self.reach(path)
        self.step(f"fsync {path.name}/")
        journal = self._journal_of(path)
        self._write_journal(journal, len(journal))

    def sync_all(self, path: Path) -> None:
        self.reach(path)
        self.step(f"syncfs {path.name}/")
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
