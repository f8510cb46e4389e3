"""Threads of a process with the limit share its arenas."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from weir.allocator import ARENAS_MAX, limit_arenas

PROGRAM = """
import ctypes, sys, threading
if sys.argv[1] == "limited":
    from weir.allocator import limit_arenas
    assert limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
together = threading.Barrier(6)
def allocate():
    together.wait()
    for _ in range(100):
        libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
libc.fdopen.restype, libc.malloc_info.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
stream = libc.fdopen(1, b"w")
libc.malloc_info(0, stream)
libc.fflush(stream)
"""


def arenas(mode: str) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.count("<heap nr=")


def test_threads_share_two_arenas_of_glibc() -> None:
    """Other C libraries have no such limit."""
    if platform.libc_ver()[0] == "glibc":
        assert arenas("limited") == ARENAS_MAX < arenas("default")
    else:
        assert not limit_arenas()
