"""A candidate's dealings with ZooKeeper: who is controller, and what brokers put there.

Laws: the claim of `/controller` and the step of `/controller_epoch` are one multi; a term begins only after the log was read to a head that
was read after the claim; ephemeral nodes are compared by czxid, watched, and read again every 2 s regardless. Called by `runner`, in
its one thread. Must not come in: decisions (core), the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from brokerd.cluster import znodes
from brokerd.cluster.model import Now
from brokerd.cluster.store import Code, Create, Result, Set, Store
from brokerd.cluster.znodes import ForwardedRequest, IsrProposal, Registration

log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 2_000
CLAIM_AGAIN_MS = 500
"""Milliseconds between tries to claim a seat that is free; a watch usually comes first."""


@dataclass(frozen=True, slots=True)
class Term:
    """`epoch_version` is the znode version of `/controller_epoch` that fences every write of this term."""

    epoch: int
    epoch_version: int


class Election:
    """Claims `/controller`. `won(term)` after each success; `lost(reason)` when a term can no longer be ours."""

    def __init__(
        self, store: Store, controller_id: int, uuid: str, *, won: Callable[[Term], None], lost: Callable[[str], None]
    ) -> None:
        self._store, self._id, self._uuid = store, controller_id, uuid
        self._won, self._lost = won, lost
        self._round = 0
        self._busy = False
        self._tried_ms = 0
        self.term: Term | None = None
        self.holder: int | None = None
        """Id of the acting controller as last read, None = nobody or not known."""

    def connected(self) -> None:
        """A session is there (again): make the folders, then claim, or see whether the seat is still ours."""
        self._round += 1
        self._busy = True
        round_ = self._round
        left = len(znodes.PERSISTENT)

        def made(result: Result) -> None:
            nonlocal left
            left -= 1
            if left == 0 and round_ == self._round:
                self._look()

        for path in znodes.PERSISTENT:
            self._store.create(path, b"", made)

    def disconnected(self) -> None:
        self._round += 1
        self._busy = False

    def expired(self) -> None:
        """The session is gone and the seat with it."""
        self.disconnected()
        if self.term is not None:
            self.term = None
            self._lost("the ZooKeeper session has expired")

    def abandon(self) -> None:
        """Give the seat up (a foreign entry, another epoch): delete it, so that somebody sane may claim it."""
        if self.term is None:
            return
        self.term = None
        if self._store.zk_session:
            self._store.delete(znodes.CONTROLLER, -1, lambda r: None)

    def tick(self, now: Now) -> None:
        if not self._busy and self._store.zk_session and now.mono_ms - self._tried_ms >= CLAIM_AGAIN_MS:
            self._tried_ms = now.mono_ms
            if self.term is None and self.holder is None:
                self._look()

    def _look(self) -> None:
        self._busy = True
        round_ = self._round
        self._store.get(znodes.CONTROLLER, lambda r: self._seen(round_, r), lambda path: self._changed(round_))

    def _changed(self, round_: int) -> None:
        if round_ == self._round and self._store.zk_session:
            self._look()

    def _seen(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        self._busy = False
        if result.ok and result.stat is not None:
            mine = result.stat.owner == self._store.zk_session
            self.holder = _holder(result.data)
            if not mine and self.term is not None:
                self.term = None
                self._lost(f"controller {self.holder} holds the seat now")
            elif mine and self.term is None:
                # Ours, yet we do not act: an abandoned seat, or a claim whose answer was lost. Start over with a new epoch.
                self._store.delete(znodes.CONTROLLER, result.stat.version, lambda r: self._changed(round_))
        elif result.code is Code.NO_NODE:
            self.holder = None
            if self.term is not None:
                self.term = None
                self._lost("the seat was taken away")
            self._claim(round_)

    def _claim(self, round_: int) -> None:
        self._busy = True
        self._store.get(znodes.CONTROLLER_EPOCH, lambda r: self._epoch_read(round_, r))

    def _epoch_read(self, round_: int, result: Result) -> None:
        if round_ != self._round:
            return
        if result.code is Code.NO_NODE:
            term = Term(1, 0)
            step: Create | Set = Create(znodes.CONTROLLER_EPOCH, b"1")
        elif result.ok and result.stat is not None:
            term = Term(int(result.data) + 1, result.stat.version + 1)
            step = Set(znodes.CONTROLLER_EPOCH, str(term.epoch).encode(), result.stat.version)
        else:
            self._busy = False
            return
        seat = Create(
            znodes.CONTROLLER, znodes.to_json({"controller_id": self._id, "uuid": self._uuid}), ephemeral=True
        )
        self._store.multi([seat, step], lambda r: self._claimed(round_, term, r))

    def _claimed(self, round_: int, term: Term, result: Result) -> None:
        if round_ != self._round:
            return
        self._busy = False
        if result.ok:
            self.term, self.holder = term, self._id
            self._store.exists(znodes.CONTROLLER, lambda r: None, lambda path: self._changed(round_))
            self._won(term)
        elif result.code is not Code.CONNECTION_LOSS:
            self._look()  # another candidate was faster; watch its seat


def _holder(data: bytes) -> int | None:
    try:
        return int(json.loads(data)["controller_id"])
    except (ValueError, KeyError, TypeError):
        return None


class Inputs:
    """What brokers put into ZooKeeper for the acting controller: registrations, ISR proposals, requests."""

    def __init__(
        self,
        store: Store,
        *,
        brokers: Callable[[dict[int, Registration]], None],
        proposed: Callable[[int, int, tuple[IsrProposal, ...]], None],
        requested: Callable[[ForwardedRequest], None],
    ) -> None:
        self._store = store
        self._brokers, self._proposed, self._requested = brokers, proposed, requested
        self._round = 0
        self._running = False
        self._looked_ms = 0
        self._registrations: dict[str, Registration] = {}
        self._requests: set[str] = set()

    def start(self) -> None:
        """Read everything anew and watch it, for one term or one reconnect."""
        self._round += 1
        self._running = True
        self._requests.clear()
        self._look()

    def stop(self) -> None:
        self._round += 1
        self._running = False

    def tick(self, now: Now) -> None:
        if self._running and now.mono_ms - self._looked_ms >= LOOK_AGAIN_MS and self._store.zk_session:
            self._looked_ms = now.mono_ms
            self._look()

    def _look(self) -> None:
        self._list_brokers(self._round)
        self._list_proposals(self._round)
        self._list_requests(self._round)

    def _again(self, round_: int, look: Callable[[int], None]) -> Callable[[str], None]:
        def fired(path: str) -> None:
            if round_ == self._round and self._store.zk_session:
                look(round_)

        return fired

    # -- registrations -------------------------------------------------------------------------------------------------
    def _list_brokers(self, round_: int) -> None:
        watch = self._again(round_, self._list_brokers)
        self._store.children(znodes.BROKERS, lambda r: self._brokers_listed(round_, r), watch)

    def _brokers_listed(self, round_: int, result: Result) -> None:
        if round_ != self._round or not result.ok:
            return
        names = [n for n in result.children if n.isdigit()]
        found: dict[int, Registration] = {}
        left = len(names)

        def read(name: str, result: Result) -> None:
            nonlocal left
            left -= 1
            if round_ != self._round:
                return
            if result.ok and result.stat is not None:
                try:
                    found[int(name)] = Registration.decode(result.data, result.stat.czxid)
                except (ValueError, KeyError, TypeError) as e:
                    log.warning("the registration of broker %s cannot be read: %s", name, e)
            elif result.code is not Code.NO_NODE:
                return  # incomplete: the next look will tell
            if left == 0:
                self._brokers(found)

        if not names:
            self._brokers(found)
        for name in names:
            self._store.get(
                f"{znodes.BROKERS}/{name}",
                lambda r, name=name: read(name, r),  # type: ignore[misc]
                self._again(round_, self._list_brokers),
            )

    # -- proposals -----------------------------------------------------------------------------------------------------
    def _list_proposals(self, round_: int) -> None:
        watch = self._again(round_, self._list_proposals)
        self._store.children(znodes.PROPOSALS, lambda r: self._proposals_listed(round_, r), watch)

    def _proposals_listed(self, round_: int, result: Result) -> None:
        if round_ != self._round or not result.ok:
            return
        for name in result.children:
            if name.isdigit():
                self._read_proposals(round_, int(name))

    def _read_proposals(self, round_: int, broker_id: int) -> None:
        def read(result: Result) -> None:
            if round_ != self._round or not result.ok:
                return
            try:
                incarnation, wanted = znodes.decode_proposals(result.data)
            except (ValueError, KeyError, TypeError) as e:
                log.warning("the ISR proposals of broker %s cannot be read: %s", broker_id, e)
                return
            self._proposed(broker_id, incarnation, wanted)

        def fired(path: str) -> None:
            if round_ == self._round and self._store.zk_session:
                self._read_proposals(round_, broker_id)

        self._store.get(znodes.proposals(broker_id), read, fired)

    # -- requests ------------------------------------------------------------------------------------------------------
    def _list_requests(self, round_: int) -> None:
        watch = self._again(round_, self._list_requests)
        self._store.children(znodes.REQUESTS, lambda r: self._requests_listed(round_, r), watch)

    def _requests_listed(self, round_: int, result: Result) -> None:
        if round_ != self._round or not result.ok:
            return
        self._requests &= set(result.children)
        for name in result.children:
            if name not in self._requests:
                self._requests.add(name)
                self._read_request(round_, name)

    def _read_request(self, round_: int, name: str) -> None:
        def read(result: Result) -> None:
            if round_ != self._round:
                return
            if not result.ok:
                self._requests.discard(name)
                return
            try:
                request = ForwardedRequest.decode(name, result.data)
            except (ValueError, KeyError, TypeError) as e:
                log.warning("request %s cannot be read and is removed: %s", name, e)
                self._store.delete(znodes.request(name), -1, lambda r: None)
                return
            self._requested(request)

        self._store.get(znodes.request(name), read)
