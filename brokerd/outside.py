"""What a broker touches outside its own process: files, sockets, other threads, chance. One object, so that a simulation replaces it whole.

Law: no decisions; each method does one thing that a deterministic world must be able to do differently. Called by `broker` and
its parts. Must not come in: partitions, requests.
"""

from __future__ import annotations

import fcntl
import os
import resource
import secrets
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from brokerd.access.client import Introduction
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.storage.disk import Disk, OsDisk
from brokerd.storage.jobs import Jobs

LOCK = ".lock"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Outside:
    """The real one."""

    def __init__(self, loop: Loop | None = None) -> None:
        self.loop = loop or Loop()
        self.jobs = Jobs()
        self.disk: Disk = OsDisk(self.jobs.background)
        self._locks: list[int] = []

    def listen(
        self,
        host: str,
        port: int,
        on_frame: Callable[[Connection, memoryview], None],
        *,
        frame_bytes_max: int,
        admission: Admission,
        tls: Callable[[], ssl.SSLContext] | None = None,
        proves: bool = False,
    ) -> Listener:
        return Listener(
            self.loop, host, port, on_frame,
            frame_bytes_max=frame_bytes_max, admission=admission, tls=tls, proves=proves,
        )  # fmt: skip

    def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        frame_bytes_max: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        introduce: Callable[[], Introduction] | None = None,
        abortive: bool = False,
    ) -> Peer:
        return Peer(
            self.loop, host, port, timeout_ms=timeout_ms, frame_bytes_max=frame_bytes_max, tls=tls, introduce=introduce,
            abortive=abortive,
        )  # fmt: skip

    def lock(self, folder: Path) -> bool:
        """Take the folder for this process; False when another one has it. Let go when the process ends."""
        self._locks.append(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    @property
    def descriptors_max(self) -> int:
        """How many this process may have open; raised to what the system lets it have."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    @property
    def boot_id(self) -> str:
        """Of the kernel that holds the written pages; empty where it cannot be known."""
        return BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""

    def draw_id(self) -> str:
        return str(uuid4())

    def draw_producer_id(self) -> int:
        """62 random bits: no coordination, none repeated after a loss of ZooKeeper (safety.md section 5)."""
        return secrets.randbits(62)
