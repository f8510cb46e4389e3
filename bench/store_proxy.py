"""`python -m bench.store_proxy PORT`: a proxy before an S3 server that is made slow, failing or silent. It prints its own port.

Each line on standard input is the mode from then on:
  - `pass`
  - `slow SECONDS [BYTES_PER_S]`: every response is SECONDS later, and each connection has at most that rate
  - `error`: every request gets 503
  - `silent`: connections are accepted, and no request gets a response

After each line it prints the mode and the number of bytes that the server has sent so far. The proxy ends with its standard
input. It does not parse HTTP; only `error` sends an HTTP response.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass

READ_BYTES = 1024 * 1024
UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: 92\r\n\r\n"
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>     "
)


@dataclass
class Mode:
    """`seconds`, `bytes_per_s`: of `slow`; a rate of 0 is no limit."""

    name: str = "pass"
    seconds: float = 0.0
    bytes_per_s: float = 0.0

    def set(self, line: str) -> None:
        name, *values = line.split()
        if name not in ("pass", "slow", "error", "silent"):
            raise ValueError(f"unknown mode {name!r}")
        self.name, self.seconds, self.bytes_per_s, *_ = (name, *map(float, values), 0.0, 0.0)


class StoreProxy:
    def __init__(self, target: int, mode: Mode) -> None:
        self._target, self._mode = target, mode
        self.response_bytes = 0
        """Sent to clients. Without the responses of `error`."""

    async def serve(self, near: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        upstream: asyncio.StreamWriter | None = None
        back: asyncio.Task[None] | None = None
        with contextlib.suppress(OSError):
            while data := await near.read(READ_BYTES):
                if self._mode.name == "silent":
                    continue
                if self._mode.name == "error":
                    client.write(UNAVAILABLE)
                    await client.drain()
                    break
                if upstream is None:
                    far, upstream = await asyncio.open_connection("127.0.0.1", self._target)
                    back = asyncio.create_task(self._respond(far, client))
                upstream.write(data)
                await upstream.drain()
        for writer in (client, upstream):
            if writer is not None:
                writer.close()
        if back is not None:
            back.cancel()

    async def _respond(self, far: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Each piece of a response is sent `seconds` after it has arrived, and not before the rate permits it."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        loop = asyncio.get_running_loop()

        async def send() -> None:
            free_at = 0.0
            while True:
                at, data = await due.get()
                await asyncio.sleep(max(at, free_at) - loop.time())
                if self._mode.bytes_per_s:
                    free_at = max(at, free_at) + len(data) / self._mode.bytes_per_s
                self.response_bytes += len(data)
                client.write(data)
                await client.drain()
                if not data:
                    client.close()

        sender = asyncio.create_task(send())
        try:
            while True:
                data = await far.read(READ_BYTES)
                if self._mode.name != "silent":
                    await due.put((loop.time() + self._mode.seconds, data))
                if not data:
                    await asyncio.sleep(self._mode.seconds + 1)
                    return
        finally:
            sender.cancel()


async def main() -> None:
    mode = Mode()
    proxy = StoreProxy(int(sys.argv[1]), mode)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        mode.set(line)
        print(mode.name, proxy.response_bytes, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
