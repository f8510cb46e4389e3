"""Limits the send buffers of connections that read file data at the same time.

A single reader gets a buffer whose size the kernel adapts, so a response of 1 MB needs only one system call. With several readers such buffers
do not fit into the processor's cache together, and the kernel needs twice as long for each byte (docs/performance.md). Does not contain: sending.
"""

from __future__ import annotations

import socket

CONCURRENT_MS = 50
"""Two connections that send file data within this time read concurrently. Between two fetches of one consumer there is less than that."""
SEND_BUFFER_BYTES = 240_000
"""SO_SNDBUF of concurrent readers, 2.3 times the default of `socket.send.buffer.bytes` in Kafka. The kernel accepts 2.2 times this number of bytes, so two
calls send a response of 1 MiB, and the event loop serves it in two iterations. With 100 KiB or with the buffer of a single reader it costs more."""


class ConcurrentReaders:
    """Shared by the connections of a listener."""

    def __init__(self) -> None:
        self._newest_fd = -1
        self._sent_ms = -CONCURRENT_MS
        """The connection that sent file data last, and when."""

    def limit(self, sock: socket.socket, now_ms: int) -> bool:
        """Called before `sock` sends file data. Returns whether its send buffer is limited now. The kernel does not adapt a limited buffer any more."""
        fd = sock.fileno()
        concurrent = fd != self._newest_fd and now_ms - self._sent_ms < CONCURRENT_MS
        self._newest_fd, self._sent_ms = fd, now_ms
        if concurrent:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return concurrent
