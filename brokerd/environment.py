"""The environment of a broker: files, sockets, threads, randomness. A simulation replaces this object.

Contains no decisions. Does not contain: partitions, requests.
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

from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener, SocketBuffers
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.net.thread_times import ThreadTimesReader
from brokerd.remote.process import HelperProcess, HelperSettings, RemoteHelper
from brokerd.security.sasl_client import SaslClientExchange
from brokerd.storage.disk import Disk
from brokerd.storage.jobs import Jobs, Runner
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.probe_file import write_probe
from brokerd.storage.read_ahead import READ_THREADS, ReadAhead

LOCK = ".lock"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Environment:
    """The real environment."""

    def __init__(self, loop: Loop | None = None) -> None:
        self.loop = loop or Loop()
        self.jobs = Jobs()
        self.decompression_jobs = Jobs()
        """Separate threads from those of `jobs`: decompression for clients must neither delay a flush nor wait for a compaction."""
        self.disk: Disk = OsDisk(self.jobs.background)
        self.read_ahead = ReadAhead(self.jobs.lane("reads", READ_THREADS))
        self._locks: list[int] = []
        self.thread_times = ThreadTimesReader().read

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
        buffers: SocketBuffers = SocketBuffers(),
    ) -> Listener:
        return Listener(
            self.loop,
            host,
            port,
            on_frame,
            frame_bytes_max=frame_bytes_max,
            admission=admission,
            tls=tls,
            proves=proves,
            buffers=buffers,
            read_ahead=self.read_ahead,
        )

    def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        frame_bytes_max: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        new_sasl_exchange: Callable[[], SaslClientExchange] | None = None,
        abortive: bool = False,
    ) -> Peer:
        return Peer(
            self.loop,
            host,
            port,
            timeout_ms=timeout_ms,
            frame_bytes_max=frame_bytes_max,
            tls=tls,
            new_sasl_exchange=new_sasl_exchange,
            abortive=abortive,
        )

    def lock(self, folder: Path) -> bool:
        """Lock the folder until this process ends. Returns False if another process has locked it."""
        self._locks.append(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def remote_helper(self, settings: Callable[[], HelperSettings]) -> RemoteHelper:
        """Start the helper process of the remote store (tiered storage). `settings` is the first message to the helper."""
        return HelperProcess(self.loop, settings)

    def probe_lane(self) -> Runner:
        """A separate thread for the probes of one log directory."""
        return self.jobs.lane("disk probe", 1, replaceable=False)

    def probe_disk(self, folder: Path) -> int:
        """Write and flush a small file in the folder, and return the time in ms. Blocks. Raises DiskFailed, DiskFull."""
        return write_probe(self.disk, folder)

    @property
    def descriptors_max(self) -> int:
        """The limit of open file descriptors, raised to the system's hard limit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    @property
    def boot_id(self) -> str:
        """The boot id of the kernel whose page cache has the written pages. Empty if it is unknown."""
        return BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""

    def draw_id(self) -> str:
        return str(uuid4())

    def draw_life(self) -> str:
        """The id of this run of the broker (`broker_lives`)."""
        return self.draw_id()

    def draw_producer_id(self) -> int:
        """A producer id of 62 random bits. Brokers need no coordination, and no id repeats after a loss of ZooKeeper (safety.md section 5)."""
        return secrets.randbits(62)
