"""The ZooKeeper session of a controller, in a file on its machine. When a controller process was killed, the next process with the same id ends the session of
the killed process. Otherwise /controller would block elections until the session expires.
Invariants: the file is locked for the life of the process, and the kernel releases the lock at its end, also after kill -9. Only the owner of the lock ends the
session in the file, so the process of that session has ended. Safety does not depend on this: for all other processes it looks as if the session had expired,
and the controller epoch fences the writes of a controller that still runs.
Does not contain: elections (`ensemble`), the connection (`brokerd.cluster.zookeeper`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from brokerd.cluster.zookeeper import FormerSession, SessionKey

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 4096
"""A session is 60 bytes of JSON. Longer content was not written by this module."""


class SessionFile:
    """The locked file. Without a lock (another process of the same number runs, or the folder is not writable) it reads and writes nothing: the session of a
    killed process then expires, as without a file."""

    def __init__(self, path: Path) -> None:
        self._fd: int | None = None
        self._written: SessionKey | None = None
        try:
            # The file is not replaced atomically, because the lock belongs to the inode. The content after an interrupted write is invalid and is ignored.
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            log.warning("session file cannot be opened: path=%s error=%s", path, e)
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            log.warning("session file is locked by another process: path=%s error=%s", path, e)
            os.close(fd)
            return
        self._fd = fd

    def read(self) -> SessionKey | None:
        """The session of the last process, or None."""
        if self._fd is None:
            return None
        try:
            content = json.loads(os.pread(self._fd, FILE_BYTES_MAX, 0))
            return SessionKey(int(content["zk_session"]), bytes.fromhex(content["password"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, key: SessionKey) -> None:
        if self._fd is None or key == self._written:
            return
        data = json.dumps({"zk_session": key.zk_session, "password": key.password.hex()}).encode()
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, data, 0)
        except OSError as e:  # a full disk must not end a controller
            log.warning("session file cannot be written: error=%s", e)
        else:
            self._written = key

    def close(self) -> None:
        """Release the lock. The content stays."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def end_former(file: SessionFile, end: Callable[[SessionKey], FormerSession]) -> threading.Thread | None:
    """End the session of the last process on another thread, while this process starts. Returns the thread, or None without a session. Call before
    `file.write`."""
    key = file.read()
    if key is None:
        return None
    thread = threading.Thread(target=_end, args=(key, end), name="former-session", daemon=True)
    thread.start()
    return thread


def _end(key: SessionKey, end: Callable[[SessionKey], FormerSession]) -> None:
    log.info("former ZooKeeper session: zk_session=0x%x result=%s", key.zk_session, end(key).value)
