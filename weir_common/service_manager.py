"""Messages to the service manager that started this process, by the protocol of sd_notify(3): systemd ends a process that sends none for `WatchdogSec`.

Without a service manager nothing is sent. Does not contain: when a process counts as working.
"""

from __future__ import annotations

import os
import socket

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
"""Microseconds without a message after which the service manager ends the process."""


def notify_watchdog() -> bool:
    """Say that this process works. Never blocks. False: there is no service manager, or it does not receive now."""
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
