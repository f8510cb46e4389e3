"""The observer of the share partitions of a broker: what a leader loads, delivers, accepts as acknowledged and writes.

Invariant: calls change nothing, and every change of a delivery state has one. A broker runs without an observer. The simulation checks the rules of share
groups with one, because functions of compiled modules cannot be replaced (decision 096).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokerd.coordinator.share_state.persister import InitializationObserver
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import ShareState, StateUpdate
from brokerd.replication.replica import Replica
from brokerd.sharing.delivery import Acknowledgement, Acquired
from brokerd.sharing.sessions import ShareSession
from brokerd.sharing.share_partition import SharePartition


class ShareObserver(InitializationObserver, Protocol):
    """`core` identifies a share partition that one leader has loaded. Times are mono ms."""

    def on_loaded(self, place: SharePartitionKey, replica: Replica, core: SharePartition, state: ShareState) -> None:
        """The leader has loaded `state`, and has not written yet."""
        ...

    def on_session_began(self, session: ShareSession) -> None: ...

    def on_acquired(
        self, core: SharePartition, session: ShareSession, acquired: Sequence[Acquired], now_ms: int
    ) -> None: ...

    def on_acknowledged(
        self, core: SharePartition, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
    ) -> None:
        """The leader has accepted acknowledgements, which are not durable yet."""
        ...

    def on_confirmed(self, core: SharePartition, start: int, acknowledgements: Sequence[Acknowledgement]) -> None:
        """The leader confirms acknowledgements to the member. Those below `start` have no effect: the greater one of its start offset and its log start
        offset when they arrived."""
        ...

    def on_released(self, core: SharePartition, member: str) -> None:
        """The records of a member will be released, because its share session has ended."""
        ...

    def on_expired(self, core: SharePartition, now_ms: int) -> None:
        """The locks whose time has passed will end."""
        ...

    def on_log_start_raised(self, core: SharePartition, log_start: int) -> None:
        """The delivery of the records below the log start offset will end."""
        ...

    def on_archived(self, core: SharePartition, first: int, last: int) -> None:
        """The dead letters of these records are written, or cannot be written."""
        ...

    def writes(self, core: SharePartition, update: StateUpdate) -> None:
        """The leader sends a write. At most one is in progress."""
        ...

    def wrote(self, core: SharePartition, update: StateUpdate, error: int) -> None:
        """The write has ended with an error code."""
        ...
