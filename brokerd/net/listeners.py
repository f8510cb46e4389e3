"""All the doors of a broker: each listener's socket, taken at once and opened together.

Law: nobody is let in before the broker knows the cluster; what is registered is where clients really get in. Called by `broker`.
Must not come in: what a request means, who may ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokerd.cluster.model import Endpoint
from brokerd.config import BrokerConfig
from brokerd.listeners import Door
from brokerd.net.listener import Connection

if TYPE_CHECKING:
    from brokerd.outside import Outside

OnFrame = Callable[[Connection, memoryview], None]


class Listeners:
    """`on_frame(door)` gives what handles the frames of connections by that door."""

    def __init__(self, config: BrokerConfig, on_frame: Callable[[Door], OnFrame], outside: Outside) -> None:
        self._open = [
            outside.listen(
                door.host, door.port, on_frame(door),
                frame_bytes_max=config["socket.request.max.bytes"], connections_max=config["max.connections"],
            )
            for door in config.doors
        ]  # fmt: skip
        ports = [listener.port for listener in self._open]
        self.endpoints = tuple(d.endpoint(port) for d, port in zip(config.doors, ports, strict=True))
        inter_broker = config.inter_broker
        assert inter_broker is not None
        self.inter_broker: Endpoint = next(e for e in self.endpoints if e.listener == inter_broker.name)

    def open(self) -> None:
        """Let clients in. Once is enough."""
        for listener in self._open:
            listener.open()

    def close_idle(self, idle_ms_max: int) -> None:
        for listener in self._open:
            listener.close_idle(idle_ms_max)

    def stop_accepting(self) -> None:
        for listener in self._open:
            listener.stop_accepting()

    def close(self) -> None:
        for listener in self._open:
            listener.close()
