"""Number of arenas of glibc's malloc in a process with many short-lived threads.

Each request of a page runs on a new thread. By default glibc creates up to eight arenas per core for them, and each keeps the memory of the largest page
that it has served. Two arenas are enough, because the interpreter runs one thread at a time.
"""

from __future__ import annotations

import ctypes

ARENAS_MAX = 2
"""Maximum number of arenas."""
_ARENAS = -8
"""`M_ARENA_MAX` in malloc.h of glibc."""


def limit_arenas() -> bool:
    """Return whether the limit is set: False without glibc. To be called before threads are created."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_ARENAS, ARENAS_MAX))
