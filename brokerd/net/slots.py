"""Slots of a connection: responses are sent in the order of the requests, whatever order they are completed in."""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.wire.framing import Part


class Slot:
    """The position of a response in the request order."""

    __slots__ = ("blocks", "filled", "parts")

    def __init__(self) -> None:
        self.filled = self.blocks = False
        self.parts: Sequence[Part] | None = None
