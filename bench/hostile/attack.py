"""A hostile client: `python -m bench.hostile.attack KIND PORT TOPIC TIMESTAMP_MS CONNECTIONS SECONDS`. Prints the number of responses.

Every connection always has as many pending requests as the broker accepts. Does not measure other clients.
"""

from __future__ import annotations

import selectors
import signal
import socket
import sys
import time

from bench.hostile.requests import fetch_that_waits, list_offsets

ADDRESS = "127.0.0.2"
"""A separate address, so that brokers can distinguish it from the normal clients of 127.0.0.1."""
PIPELINED = 64
"""Requests that each connection sends at once."""
RECEIVE_BYTES = 1 << 16


class Connection:
    def __init__(self, port: int, requests: bytes) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(ADDRESS, 0))
        self.sock.setblocking(False)
        self.requests = requests
        self.unsent = memoryview(requests)
        self.unread = bytearray()
        self.responses = 0

    def write(self) -> None:
        try:
            self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            pass

    def read(self) -> bool:
        """Send as many requests as were answered. Returns False at the end of the connection."""
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        self.unread += data
        while len(self.unread) >= 4 and len(self.unread) >= 4 + (size := int.from_bytes(self.unread[:4], "big")):
            del self.unread[: 4 + size]
            self.responses += 1
            if not self.responses % PIPELINED:
                self.unsent = memoryview(bytes(self.unsent) + self.requests)
        return True


def main() -> int:
    kind, port, topic, timestamp, count, seconds = sys.argv[1:]
    if kind == "lookups":
        one = list_offsets(topic, int(timestamp))
    else:
        one = fetch_that_waits(topic, 0, min_bytes=1 << 30, wait_ms=60_000)
    connections = [Connection(int(port), one * PIPELINED) for _ in range(int(count))]
    print("connected", flush=True)
    selector = selectors.DefaultSelector()
    for c in connections:
        selector.register(c.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, c)
    until, closed = time.monotonic() + float(seconds), 0
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    while not stopped and time.monotonic() < until:
        for key, events in selector.select(0.2):
            c = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    c.write()
                alive = not events & selectors.EVENT_READ or c.read()
            except OSError:
                alive = False
            if not alive:
                closed += 1
                selector.unregister(c.sock)
                c.sock.close()
                continue
            interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if c.unsent else 0)
            if interest != key.events:
                selector.modify(c.sock, interest, c)
    print(f"{sum(c.responses for c in connections)} {closed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
