"""Reports what the brokers of a world do with share partitions to a `ShareChecker`: the methods of the product are wrapped while the world runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from brokerd.apis.share_fetch import ShareFetchApi
from brokerd.apis.share_partitions import Fetched, Shared, SharePartitions
from brokerd.coordinator.share_state.persister import SharePersister
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState, StateUpdate
from brokerd.sharing.delivery import Acknowledgement
from brokerd.sharing.sessions import ShareSession, ShareSessions
from brokerd.sharing.share_partition import SharePartition
from brokerd.wire.errors import ErrorCode
from tests.simulation.share_checker import ShareChecker

Changed = list[tuple[type, str, Any]]
"""(class, name of a method, the new method)."""


def machine_methods(checker: ShareChecker) -> Changed:
    """The state machine of a share partition."""
    acknowledge, release, expire = SharePartition.acknowledge, SharePartition.release, SharePartition.expire
    archive, raise_start = SharePartition.archive, SharePartition.raise_start

    def watch_acknowledge(
        self: SharePartition, member: str, steps: Sequence[Acknowledgement], now_ms: int, *, renew: bool = False
    ) -> Any:
        error = acknowledge(self, member, steps, now_ms, renew=renew)
        if not error:
            checker.acknowledged(self, member, steps, now_ms)
        return error

    def watch_release(self: SharePartition, member: str) -> bool:
        checker.released(self, member)
        return release(self, member)

    def watch_expire(self: SharePartition, now_ms: int) -> bool:
        checker.expired(self, now_ms)
        return expire(self, now_ms)

    def watch_archive(self: SharePartition, first: int, last: int) -> None:
        checker.archived(self, first, last)
        archive(self, first, last)

    def watch_raise(self: SharePartition, log_start: int) -> bool:
        checker.raised(self, log_start)
        return raise_start(self, log_start)

    return [
        (SharePartition, "acknowledge", watch_acknowledge),
        (SharePartition, "release", watch_release),
        (SharePartition, "expire", watch_expire),
        (SharePartition, "archive", watch_archive),
        (SharePartition, "raise_start", watch_raise),
    ]


def state_methods(checker: ShareChecker) -> Changed:
    """Loads, writes, and starts of state epochs."""
    loaded, flush = SharePartitions._on_loaded, SharePartitions.flush
    write, initialize = SharePersister.write, SharePersister.initialize
    states: list[ShareState] = []
    """The state of the load in progress. The first flush ends the load and may write."""
    writing: list[SharePartition | None] = []

    def watch_loaded(self: SharePartitions, shared: Shared, state: ShareState) -> None:
        states.append(state)
        loaded(self, shared, state)

    def watch_flush(self: SharePartitions, shared: Shared) -> None:
        if states:
            checker.loaded(shared, states.pop())
        writing.append(shared.core)
        try:
            flush(self, shared)
        finally:
            writing.pop()

    def watch_write(
        self: SharePersister,
        place: SharePartitionKey,
        state_epoch: int,
        update: StateUpdate,
        done: Callable[[int], None],
        needed: Callable[[], bool],
    ) -> None:
        core = writing[-1]
        assert core is not None
        late = checker.writes(core, update)

        def written(error: int) -> None:
            checker.wrote(place, state_epoch, update, late, error)
            done(error)

        write(self, place, state_epoch, update, written, needed)

    def watch_initialize(
        self: SharePersister, place: SharePartitionKey, state_epoch: int, start: int, done: Callable[[int], None]
    ) -> None:
        checker.initializes(place, state_epoch, start)

        def initialized(error: int) -> None:
            if not error:
                checker.initialized(place, state_epoch)
            done(error)

        initialize(self, place, state_epoch, start, initialized)

    return [
        (SharePartitions, "_on_loaded", watch_loaded),
        (SharePartitions, "flush", watch_flush),
        (SharePersister, "write", watch_write),
        (SharePersister, "initialize", watch_initialize),
    ]


def delivery_methods(checker: ShareChecker) -> Changed:
    """Share sessions, deliveries to them, and answers."""
    acquire, answer = SharePartitions.acquire, SharePartitions.acknowledge
    begin, session_acquire = ShareSessions.begin, ShareFetchApi._acquire
    sessions: dict[int, tuple[ShareSession, int]] = {}
    """{id: (session, its begin in us)}."""
    acquiring: list[ShareSession] = []

    def watch_acquire(self: SharePartitions, shared: Shared, member: str, limits: Any) -> Fetched | None:
        fetched = acquire(self, shared, member, limits)
        if fetched is not None:
            began_us = sessions[id(acquiring[-1])][1] if acquiring else None
            checker.acquired(shared, member, fetched, self._clock().mono_ms, began_us)
        return fetched

    def watch_answer(
        self: SharePartitions, shared: Shared, member: str, steps: list[Acknowledgement], renew: bool, done: Any
    ) -> None:
        core = shared.core
        start = core.start if core is not None else NO_START

        def answered(error: int) -> None:
            if not error:
                assert core is not None
                checker.confirmed(core, start, steps)
            done(error)

        answer(self, shared, member, steps, renew, answered)

    def watch_begin(self: ShareSessions, group_id: str, member_id: str, connection: Any) -> ShareSession | ErrorCode:
        session = begin(self, group_id, member_id, connection)
        if isinstance(session, ShareSession):
            sessions[id(session)] = session, checker.world.now_us
        return session

    def watch_session(self: ShareFetchApi, work: Any, session: ShareSession, ready: Any) -> bool:
        acquiring.append(session)
        try:
            return session_acquire(self, work, session, ready)
        finally:
            acquiring.pop()

    return [
        (SharePartitions, "acquire", watch_acquire),
        (SharePartitions, "acknowledge", watch_answer),
        (ShareSessions, "begin", watch_begin),
        (ShareFetchApi, "_acquire", watch_session),
    ]


@contextmanager
def watched(checker: ShareChecker) -> Iterator[None]:
    """Report to the checker each load, delivery, acceptance, answer and write of every leader."""
    changed = [*machine_methods(checker), *state_methods(checker), *delivery_methods(checker)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changed]
    for owner, name, new in changed:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old in before:
            setattr(owner, name, old)
