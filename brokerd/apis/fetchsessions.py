"""Fetch sessions (KIP-227): what each client asks for and what it was told, so that both name only what has changed.

Laws: a session answers for every partition in it; one that is not named in an answer stands where it was last told to stand. Only what has
changed since is looked at (`Waiters.watch`), so that a fetch costs what moves and not what is there. A session's epoch counts its fetches:
one that was lost or answered twice shows. Called by `fetch`. Must not come in: reading, waiting, the wire beyond the request's own structs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from brokerd.cluster.model import Seat
from brokerd.partition_events import Pulse
from brokerd.replica import Replica
from brokerd.waiters import Waiters
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest

Key = tuple[Hashable, int]
"""Topic id (Fetch 13 and later) or topic name, and partition."""

NO_SESSION = 0
FULL_EPOCH, LAST_EPOCH = 0, -1
"""Session epochs of requests that name everything: one begins a session, the other wants none. Either ends the one it names."""
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000
"""Kafka's: a session unused for longer goes first, and one younger than this is not pushed out by a larger one."""


class Told(NamedTuple):
    """Of one partition, as the client last heard it."""

    high_watermark: int
    last_stable: int
    log_start: int


@dataclass(slots=True)
class Ask:
    """One partition of a fetch, looked up. `epoch` is the leader's at that moment; `may_follow`: a follower may answer it."""

    topic_name: str
    topic_id: UUID
    wanted: FetchRequest.FetchPartition
    replica: Replica | None
    error: ErrorCode
    epoch: int = -1
    told: Told | None = None
    may_follow: bool = False


class Session:
    """`unheard` are the partitions of which there may be something to tell, those served least lately first."""

    def __init__(
        self, session_id: int, follower: Seat | None, by_id: bool, waiters: Waiters, now_ms: int, pulse: Pulse | None
    ) -> None:
        self.session_id, self.follower, self.by_id, self._waiters = session_id, follower, by_id, waiters
        self.epoch = 1
        """Of the next fetch."""
        self.made_ms = self.used_ms = now_ms
        self.pulse = pulse
        self.asks: dict[Key, Ask] = {}
        self.unheard: dict[Key, None] = {}
        self.closed = False

    def put(self, key: Key, ask: Ask) -> None:
        """Named in a request: new, or asked for otherwise than before."""
        old = self.asks.get(key)
        if old is not None and self.follower is None and old.replica is ask.replica:
            ask.told = old.told  # a follower hears all again of what it names: it may have dropped the last answer
        if old is None or old.replica is not ask.replica:
            self._unwatch(old)
            self._watch(key, ask)
        self.asks[key] = ask
        self.unheard[key] = None

    def drop(self, key: Key) -> Ask | None:
        ask = self.asks.pop(key, None)
        self.unheard.pop(key, None)
        self._unwatch(ask)
        return ask

    def end(self) -> None:
        self.closed = True
        for ask in self.asks.values():
            self._unwatch(ask)

    def heard(self, key: Key, *, served: bool, more: bool) -> None:
        """It was told all there was (or there is `more`); what was `served` records has its next turn after the others."""
        if served or not more:
            self.unheard.pop(key, None)
        if more and key in self.asks:
            self.unheard[key] = None

    def _watch(self, key: Key, ask: Ask) -> None:
        if ask.replica is not None and not self.closed:
            if self.follower is not None:
                self._waiters.watch(ask.replica.end_key(), self, partial(self._changed, key))
                self._waiters.watch(ask.replica.hw_key(), self, partial(self._noted, key))
            else:
                self._waiters.watch(ask.replica.hw_key(), self, partial(self._changed, key))

    def _unwatch(self, ask: Ask | None) -> None:
        if ask is not None and ask.replica is not None:
            self._waiters.unwatch(ask.replica.end_key(), self)
            self._waiters.unwatch(ask.replica.hw_key(), self)

    def _noted(self, key: Key) -> None:
        """Told with the next answer: as in Kafka a new high watermark alone does not end a follower's wait."""
        if key in self.asks:
            self.unheard[key] = None

    def _changed(self, key: Key) -> None:
        self._noted(key)
        self._waiters.check(self)


class Sessions:
    """All of a broker. What is over `slots` takes the place of another by Kafka's rules, or is not kept: the client goes on with full fetches."""

    def __init__(self, waiters: Waiters, draw: Callable[[], int], *, slots: int) -> None:
        self._waiters, self._draw, self._slots = waiters, draw, slots
        self._by_id: dict[int, Session] = {}
        """Those used least lately first."""
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: int, epoch: int, follower: Seat | None, by_id: bool) -> Session | ErrorCode:
        """The session of an incremental fetch, or why there is none."""
        session = self._by_id.get(session_id)
        if session is None or session.follower != follower:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def used(self, session: Session, now_ms: int) -> None:
        """One more fetch of it is answered."""
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)

    def begin(
        self, asks: dict[Key, Ask], follower: Seat | None, by_id: bool, now_ms: int, pulse: Pulse | None
    ) -> Session | None:
        if not asks or not self._room(follower is not None, len(asks), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = self._draw() % EPOCH_MAX + 1
        session = self._by_id[session_id] = Session(session_id, follower, by_id, self._waiters, now_ms, pulse)
        for key, ask in asks.items():
            session.put(key, ask)
        return session

    def end(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.end()

    def end_all(self) -> None:
        for session_id in list(self._by_id):
            self.end(session_id)

    def _room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Kafka's eviction: one that has not been used for two minutes; else, of those two minutes old, the smallest that weighs less than
        the newcomer, followers weighing more than consumers. A follower may take any consumer's place."""
        if len(self._by_id) < self._slots:
            return True
        if not self._by_id:
            return False
        oldest = next(iter(self._by_id.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            victim = oldest
        else:
            candidates = [
                s
                for s in self._by_id.values()
                if now_ms - s.made_ms > EVICTION_MS or (privileged and s.follower is None)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_weight)
            if (privileged, size, NO_SESSION) < _weight(victim):
                return False
        self.end(victim.session_id)
        self.evicted += 1
        return True


def _weight(session: Session) -> tuple[bool, int, int]:
    return session.follower is not None, len(session.asks), session.session_id
