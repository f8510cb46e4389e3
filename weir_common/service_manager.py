"""Reports that this process works: to the service manager that started it, by the protocol of sd_notify(3), and by the modification time of a file.

systemd ends a process that sends none for `WatchdogSec`. A liveness probe of Kubernetes reads the time of the file. Without a service manager and
without the name of a file nothing happens. Does not contain: when a process counts as working.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

log = logging.getLogger(__name__)

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
"""Microseconds without a message after which the service manager ends the process."""
HEARTBEAT_VARIABLE = "WEIR_HEARTBEAT_FILE"


def notify_watchdog() -> bool:
    """Report that this process works. Never waits for the service manager. Returns False if there is none, or if it cannot receive now."""
    if path := os.environ.get(HEARTBEAT_VARIABLE):
        _touch(path)
    address = os.environ.get(SOCKET_VARIABLE, "")
    if address[:1] not in ("/", "@"):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
        try:
            # A leading @ stands for the zero byte of an abstract address.
            sock.sendto(b"WATCHDOG=1", address.replace("@", "\0", 1) if address[0] == "@" else address)
        except OSError:  # the next message follows within seconds
            return False
    return True


def _touch(path: str) -> None:
    try:
        Path(path).touch()
    except OSError as e:
        # A full disk must not end a process that works. Its probe will.
        log.warning("heartbeat not written: path=%s error=%s", path, e)
