"""Current CPU cost of the same bytes on this machine without a broker. The loops are those of the hardware table in docs. They run beside each
measurement.

On a virtual machine the kernel time of the same write can change several-fold within minutes (new pages, a busy neighbour). A limit in CPU
seconds per GB is meaningless without this factor. Does not use brokerd.
"""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import threading
from pathlib import Path

from crc32c import crc32c

BYTES = 400_000_000
"""Size of the file that is written, equal to that of a case. A small file would only use free pages that the kernel already has."""
TABLE = {
    ("produce", 16_384): 1.15,
    ("produce", 1_000_000): 0.75,
    ("consume", 16_384): 0.31,
    ("consume", 1_000_000): 0.13,
}
"""CPU s/GB of these loops on the machine of the prototype's limits: recv + crc32c + write; sendfile."""


def cpu_s_per_gb(act: str, batch_bytes: int, folder: Path) -> float:
    """CPU seconds per GB of a broker's minimal loop with batches of `batch_bytes`: receive, check and write, or send from a file."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    count = BYTES // batch_bytes
    with tempfile.TemporaryFile(dir=folder) as file, listener, client, server:
        block = memoryview(os.urandom(batch_bytes))
        if act == "consume":
            for i in range(count):
                os.pwrite(file.fileno(), block, i * batch_bytes)
        other = threading.Thread(target=_send if act == "produce" else _drain, args=(client, block, count))
        other.start()
        before = _thread_cpu()
        if act == "produce":
            _receive(server, file.fileno(), batch_bytes, count)
        else:
            position = 0
            while position < count * batch_bytes:
                position += os.sendfile(server.fileno(), file.fileno(), position, batch_bytes)
        spent = _thread_cpu() - before
        other.join()
    return spent / (count * batch_bytes / 1e9)


def factor(act: str, batch_bytes: int, folder: Path) -> float:
    """Current CPU cost of the loop on this machine, relative to the machine on which the limits were measured."""
    return cpu_s_per_gb(act, batch_bytes, folder) / TABLE[act, batch_bytes]


def _thread_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime


def _receive(server: socket.socket, fd: int, batch_bytes: int, count: int) -> None:
    buffer = memoryview(bytearray(batch_bytes))
    for i in range(count):
        filled = 0
        while filled < batch_bytes:
            filled += server.recv_into(buffer[filled:])
        crc32c(buffer)
        os.pwrite(fd, buffer, i * batch_bytes)


def _send(client: socket.socket, block: memoryview, count: int) -> None:
    for _ in range(count):
        client.sendall(block)


def _drain(client: socket.socket, block: memoryview, count: int) -> None:
    buffer = bytearray(1 << 20)
    left = count * len(block)
    while left:
        left -= client.recv_into(buffer)
