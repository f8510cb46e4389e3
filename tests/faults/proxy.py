"""A TCP proxy between a process and its server that can be cut. It runs in user space, so it needs no root."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class TcpProxy:
    """Listens on `port`, forwards to `target`. While it is cut, bytes are lost, connections stay open and neither end is notified."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._whole = threading.Event()
        self._whole.set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        self._whole.clear()

    def restore(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._closed = True
        self._whole.set()
        self._thread.join(10)
        for one in (*self._pairs, self._listener):
            one.close()

    def _run(self) -> None:
        while not self._closed:
            self._whole.wait()
            ready, _, _ = select.select([self._listener, *self._pairs], [], [], 0.05)
            for one in ready:
                if not self._whole.is_set():
                    break
                if one is self._listener:
                    self._accept()
                elif one in self._pairs:
                    self._forward(one)

    def _accept(self) -> None:
        near = self._listener.accept()[0]
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=1)
        except OSError:
            near.close()
            return
        self._pairs[near], self._pairs[far] = far, near

    def _forward(self, one: socket.socket) -> None:
        other = self._pairs[one]
        try:
            data = one.recv(65_536)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (one, other):
                self._pairs.pop(end, None)
                with contextlib.suppress(OSError):
                    end.close()
