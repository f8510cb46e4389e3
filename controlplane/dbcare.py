"""Long-lived threads and a database file that somebody put back. Law: knows files and connections, no rows. Called by the observer and the
controller's database thread, which keep their connections for hours."""

from __future__ import annotations

import os
import threading

from django.db import connection

_opened = threading.local()


def drop_if_replaced() -> bool:
    """True (and the connection of this thread closed) when SQLite's file is another one than at the last call: a backup was put back,
    and this thread would go on reading and writing the old file that no name leads to any more."""
    if connection.vendor != "sqlite":
        return False
    try:
        found = os.stat(str(connection.settings_dict["NAME"]))
    except OSError:
        return False  # in memory, or gone for the moment
    now = (found.st_dev, found.st_ino)
    before = getattr(_opened, "file", None)
    _opened.file = now
    if before is None or before == now:
        return False
    connection.close()
    return True
