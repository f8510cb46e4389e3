"""Members of a share group (KIP-932) in a world with the real coordinators and leaders: they fetch, accept, release, reject, renew, keep records until
the lock ends, end their share sessions, crash and join again. They know only the responses that they get. The rules are in `share_checker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from brokerd.sharing.delivery import AcknowledgeType
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    FindCoordinatorRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from brokerd.wire.records import iterate
from tests.simulation.checkers import History, Violation
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.share_checker import ShareChecker
from tests.simulation.world import MS

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
REJECT, RENEW = AcknowledgeType.REJECT, AcknowledgeType.RENEW
BEAT_MS, POLL_MS, SILENCE_MS = 400, 40, 6_000
KINDS: dict[AcknowledgeType | None, float] = {ACCEPT: 0.6, RELEASE: 0.15, REJECT: 0.07, RENEW: 0.08, None: 0.1}
"""The acknowledgement of a record by a member, with its probability. None: it keeps the record until its lock ends."""
DECIDE_MS, DECIDE_LATE_MS = 800, 3_500
"""Time until it does that. Some are late: the lock has ended."""


@dataclass(slots=True)
class AcquiredRecord:
    partition: int
    offset: int
    broker: int
    kind: AcknowledgeType | None
    decide_us: int


@dataclass(slots=True)
class Session:
    epoch: int = 0
    partitions: set[int] = field(default_factory=set)


class ShareMember(Client):
    def __init__(
        self,
        cluster: Cluster,
        history: History,
        checker: ShareChecker,
        name: str,
        group: str,
        topic: str,
        topic_id: UUID,
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.checker, self.group, self.topic, self.topic_id = history, checker, group, topic, topic_id
        self.lives = 0
        self.calm = False
        """Accepts everything at once."""
        self.away = False
        """Ends its share sessions, leaves the group and stays outside."""
        self.coordinator = -1
        self.silent_until_us = 0
        self._be_new()
        self.enter(self._find)
        self.enter(self._poll)

    def _be_new(self) -> None:
        self.lives += 1
        self.member_id, self.epoch = f"{self.name}-{self.lives}", 0
        self.assigned: set[int] = set()
        self.leaving = False
        """Has given up its assignment, and leaves the group until the coordinator confirms it, also if it is not away any more."""
        self.sessions: dict[int, Session] = {}
        self.busy: set[int] = set()
        self.hands: dict[tuple[int, int], AcquiredRecord] = {}

    def _crash(self) -> None:
        """As a killed process: the connections end, and nobody leaves the group."""
        self._be_new()
        for peer in self.peers.values():
            peer.close()
        self.peers.clear()
        self.world.reached["share member crashed"] += 1

    # -- membership ----------------------------------------------------------------------------------------------------
    def _find(self) -> None:
        def on_response(body: Any) -> None:
            if body is None or body.error_code:
                self.call_later(self._find)
                return
            self.coordinator = body.node_id
            self._beat()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        body = FindCoordinatorRequest(key=self.group, key_type=0)
        self.send_request(any_broker, ApiKey.FIND_COORDINATOR, 2, body, on_response)

    def _beat(self) -> None:
        if self.stopped:
            return
        if not self.calm and self.world.chance(0.02):
            self._crash()
        elif not self.calm and self.world.chance(0.02):
            self.silent_until_us = self.world.now_us + self.world.between(0, SILENCE_MS * MS)
        if self.silent_until_us > self.world.now_us and not self.calm:
            self.call_later(self._beat, BEAT_MS)
            return
        if self.away and self.epoch == 0:
            self.call_later(self._beat, BEAT_MS)
            return
        life, epoch = self.lives, self.epoch
        leaves = epoch > 0 and (
            self._may_leave() if self.away or self.leaving else not self.calm and self.world.chance(0.01)
        )
        body = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=-1 if leaves else epoch,
            subscribed_topic_names=[self.topic] if epoch == 0 else None,
        )

        def on_response(response: Any) -> None:
            if self.lives != life:
                self.call_later(self._find)
            elif response is None or response.error_code:
                forgotten = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
                if response is not None and response.error_code in forgotten:
                    self.epoch, self.assigned, self.leaving = 0, set(), False
                self.call_later(self._find)
            elif leaves:
                self._be_new()
                self.call_later(self._find)
            else:
                self.epoch = response.member_epoch
                if response.assignment is not None:
                    topics = response.assignment.topic_partitions
                    self.assigned = {p for t in topics if t.topic_id == self.topic_id for p in t.partitions}
                self.call_later(self._beat, BEAT_MS)

        self.send_request(self.coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, 1, body, on_response)

    def _may_leave(self) -> bool:
        """Most members end their share sessions before they leave. The session of the others ends with the connection."""
        self.assigned, self.leaving = set(), True
        return not self.sessions or self.world.chance(0.2)

    # -- records -------------------------------------------------------------------------------------------------------
    def _poll(self) -> None:
        if self.stopped:
            return
        self.call_later(self._poll, self.world.between(1, 2 * POLL_MS))
        if self.silent_until_us > self.world.now_us and not self.calm:
            return
        leaders = {p: self.leaders.get((self.topic, p)) for p in self.assigned}
        if None in leaders.values():
            self.refresh(lambda: None)
        for broker in sorted({b for b in leaders.values() if b is not None} | self.sessions.keys()):
            if broker not in self.busy:
                self._request(broker, {p for p, b in leaders.items() if b == broker})

    def _request(self, broker: int, wanted: set[int]) -> None:
        session = self.sessions.setdefault(broker, Session())
        now_us = self.world.now_us
        due = [h for h in self.hands.values() if h.broker == broker and h.kind is not None and h.decide_us <= now_us]
        renews = any(h.kind is RENEW for h in due)
        if renews:
            due = [h for h in due if h.kind is RENEW]
        due.sort(key=lambda h: (h.partition, h.offset))
        ends = session.epoch > 0 and (not wanted or (not self.calm and self.world.chance(0.02)))
        if session.epoch > 0 and (ends or renews or (due and self.world.chance(0.6))):
            self._acknowledge(broker, session, due, ends, renews)
        elif wanted:
            self._fetch(broker, session, wanted, due if session.epoch > 0 else [])
        else:
            self.sessions.pop(broker, None)

    def _acknowledge(self, broker: int, session: Session, due: list[AcquiredRecord], ends: bool, renews: bool) -> None:
        q = ShareAcknowledgeRequest
        parts = [
            q.AcknowledgePartition(
                partition_index=p, acknowledgement_batches=self._batches(q.AcknowledgementBatch, due, p)
            )
            for p in sorted({h.partition for h in due})
        ]
        body = q(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=-1 if ends else session.epoch,
            is_renew_ack=renews,
            topics=[q.AcknowledgeTopic(topic_id=self.topic_id, partitions=parts)],
        )

        def on_response(response: Any) -> None:
            errors = {p.partition_index: p.error_code for t in response.responses for p in t.partitions}
            self._on_acknowledged(due, errors)
            if ends:
                self._forget(broker)

        self._send_request(broker, session, ApiKey.SHARE_ACKNOWLEDGE, body, due, on_response)

    def _fetch(self, broker: int, session: Session, wanted: set[int], due: list[AcquiredRecord]) -> None:
        q = ShareFetchRequest
        acknowledging = {h.partition for h in due}
        parts = [
            q.FetchPartition(partition_index=p, acknowledgement_batches=self._batches(q.AcknowledgementBatch, due, p))
            for p in sorted((wanted - session.partitions) | acknowledging)
        ]
        gone = sorted(session.partitions - wanted - acknowledging)
        body = q(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=self.world.between(0, 300),
            min_bytes=1,
            max_records=self.world.between(1, 12),
            batch_size=self.world.between(1, 12),
            share_acquire_mode=self.world.between(0, 1),
            topics=[q.FetchTopic(topic_id=self.topic_id, partitions=parts)] if parts else [],
            forgotten_topics_data=[q.ForgottenTopic(topic_id=self.topic_id, partitions=gone)] if gone else [],
        )

        def on_response(response: Any) -> None:
            session.partitions = (session.partitions - set(gone)) | wanted | acknowledging
            data = [p for t in response.responses for p in t.partitions]
            self._on_acknowledged(due, {p.partition_index: p.acknowledge_error_code for p in data})
            for part in data:
                if part.error_code:
                    self.leaders.pop((self.topic, part.partition_index), None)
                self._on_received(broker, part)

        self._send_request(broker, session, ApiKey.SHARE_FETCH, body, due, on_response)

    @staticmethod
    def _batches(shape: Any, due: Sequence[AcquiredRecord], partition: int) -> list[Any]:
        """Adjacent offsets go into one batch, with one type if it is the same for all."""
        runs: list[list[AcquiredRecord]] = []
        for hand in (h for h in due if h.partition == partition):
            if runs and runs[-1][-1].offset + 1 == hand.offset:
                runs[-1].append(hand)
            else:
                runs.append([hand])
        out = []
        for run in runs:
            types = [int(h.kind or 0) for h in run]
            types = types[:1] if len(set(types)) == 1 else types
            out.append(shape(first_offset=run[0].offset, last_offset=run[-1].offset, acknowledge_types=types))
        return out

    def _send_request(
        self, broker: int, session: Session, key: ApiKey, body: Any, due: list[AcquiredRecord], done: Any
    ) -> None:
        life = self.lives
        self.busy.add(broker)
        for hand in due:
            assert hand.kind is not None
            self.checker.on_acknowledgement_sent((hand.partition, hand.offset), hand.kind)

        def on_response(response: Any) -> None:
            if self.lives != life:
                return
            self.busy.discard(broker)
            if response is None or response.error_code:
                self.world.reached["response to a share request lost"] += response is None
                self.world.reached["share session lost"] += response is not None
                self._forget(broker)
                self.leaders.clear()
                return
            session.epoch += 1
            done(response)

        self.send_request(broker, key, 2, body, on_response)

    def _forget(self, broker: int) -> None:
        """The share session has ended, and with it the locks."""
        self.sessions.pop(broker, None)
        self.hands = {place: h for place, h in self.hands.items() if h.broker != broker}

    def _on_acknowledged(self, due: list[AcquiredRecord], errors: dict[int, int]) -> None:
        for hand in due:
            place, kind, error = (hand.partition, hand.offset), hand.kind, errors[hand.partition]
            assert kind is not None
            if error:
                self.world.reached[f"acknowledgement rejected: {ErrorCode(error).name}"] += 1
                self.hands.pop(place, None)
                if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID):
                    self.leaders.pop((self.topic, hand.partition), None)
                continue
            self.checker.on_acknowledgement_confirmed(place, kind, self.member_id)
            self.history.acks += 1
            if kind is RENEW:
                hand.kind, hand.decide_us = ACCEPT, self.world.now_us + self.world.between(0, DECIDE_LATE_MS * MS)
            else:
                self.hands.pop(place, None)

    def _on_received(self, broker: int, part: Any) -> None:
        found = {r.offset: r.value for r in iterate(memoryview(bytes(part.records or b"")))}
        for a in part.acquired_records:
            for offset in range(a.first_offset, a.last_offset + 1):
                place = (part.partition_index, offset)
                if offset not in found:
                    raise Violation(f"{place} is acquired for {self.member_id}, which did not get it")
                self.history.on_read(self.topic, part.partition_index, offset, found[offset] or b"")
                kind, wait_ms = self._plan()
                self.hands[place] = AcquiredRecord(*place, broker, kind, self.world.now_us + wait_ms * MS)

    def _plan(self) -> tuple[AcknowledgeType | None, int]:
        if self.calm:
            return ACCEPT, 0
        kind = self.world.rng.choices([*KINDS], [*KINDS.values()])[0]
        return kind, self.world.between(0, DECIDE_LATE_MS if self.world.chance(0.1) else DECIDE_MS)
