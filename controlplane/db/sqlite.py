"""Detection of a replaced SQLite file (a restored backup) in threads with long-lived connections: the cluster monitor and the controller's
database thread. Does not contain: rows."""

from __future__ import annotations

import os
import threading

from django.db import connection

_opened = threading.local()


def drop_if_replaced() -> bool:
    """True if the SQLite file was replaced since the last call. The connection of this thread is then closed.

    After a restore the thread would otherwise keep reading and writing the old, unlinked file.
    """
    if connection.vendor != "sqlite":
        return False
    try:
        found = os.stat(str(connection.settings_dict["NAME"]))
    except OSError:
        return False  # in memory, or temporarily missing
    now = (found.st_dev, found.st_ino)
    before = getattr(_opened, "file", None)
    _opened.file = now
    if before is None or before == now:
        return False
    connection.close()
    return True
