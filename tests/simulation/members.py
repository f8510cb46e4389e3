"""Group members in a world with the real coordinator: they join, get partitions, commit, stop sending heartbeats, leave and join again.

`GroupHistory` checks: no partition has two owners in one generation; no commit of an older generation is acknowledged after a newer one was formed; no
committed offset is lost. Does not check offsets that a replaced coordinator returns (a stale offset means reading twice, as in Kafka).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.simulation.checkers import Violation
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster

GROUP = "workers"
SESSION_MS, REBALANCE_MS = 2_000, 2_500
BEAT_MS = 400
Place = tuple[str, int]


@dataclass(slots=True)
class Commit:
    number: int
    generation: int
    asked_us: int
    overtaken: int
    """The newest generation that any member knew when the commit was sent."""
    responded_us: int | None = None
    acknowledged: bool = False


@dataclass
class GroupHistory:
    owners: dict[tuple[int, Place], str] = field(default_factory=dict)
    newest: int = -1
    commits: dict[Place, list[Commit]] = field(default_factory=dict)
    numbers: int = 0
    acks: int = 0

    def on_assigned(self, generation: int, places: list[Place], owner: str) -> None:
        for place in places:
            first = self.owners.setdefault((generation, place), owner)
            if first != owner:
                raise Violation(f"{place} belongs to {first} and to {owner} in generation {generation}")
        self.newest = max(self.newest, generation)

    def commit_request(self, place: Place, generation: int, now_us: int) -> Commit:
        self.numbers += 1
        commit = Commit(self.numbers, generation, now_us, self.newest)
        self.commits.setdefault(place, []).append(commit)
        return commit

    def on_response(self, place: Place, commit: Commit, error: int, now_us: int) -> None:
        commit.responded_us, commit.acknowledged = now_us, error == ErrorCode.NONE
        if commit.acknowledged:
            self.acks += 1
            if commit.overtaken > commit.generation:
                raise Violation(
                    f"{place}: generation {commit.generation} committed although {commit.overtaken} was formed"
                )

    def verify(self, committed: dict[Place, int]) -> None:
        for place, commits in self.commits.items():
            stands = next((c for c in commits if c.number == committed.get(place)), None)
            for c in commits:
                later = stands is None or (stands.responded_us is not None and stands.responded_us < c.asked_us)
                if c.acknowledged and later:
                    raise Violation(f"{place}: commit {c.number} was acknowledged, {committed.get(place)} stands")


class Member(Client):
    def __init__(
        self, cluster: Cluster, history: GroupHistory, name: str, places: list[Place], group: str = GROUP
    ) -> None:
        super().__init__(cluster, name)
        self.history, self.places, self.group = history, places, group
        self.coordinator = -1
        self.member_id = ""
        self.generation = -1
        self.owned: list[Place] = []
        self.calm = False
        """Stops random actions."""
        self.enter(self._find)

    def _rejoin(self, code: int | None) -> None:
        """After any error: look up the coordinator and join."""
        self.owned = []
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.call_later(self._find)

    def _find(self) -> None:
        def on_response(body: Any) -> None:
            if body is None or body.error_code:
                self.call_later(self._find)
                return
            self.coordinator = body.node_id
            self._join()

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        self.send_request(
            any_broker, ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=self.group, key_type=0), on_response
        )

    def _join(self) -> None:
        self.owned = []
        body = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=self.name.encode())],
        )
        self.send_request(self.coordinator, ApiKey.JOIN_GROUP, 5, body, self._on_joined)

    def _on_joined(self, body: Any) -> None:
        if body is not None and body.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = body.member_id
            self._join()
        elif body is None or body.error_code:
            self._rejoin(None if body is None else body.error_code)
        else:
            self.member_id, self.generation = body.member_id, body.generation_id
            ids = [m.member_id for m in body.members]  # in the response to the group leader only
            shares = {m: [i for i in range(len(self.places)) if i % len(ids) == at] for at, m in enumerate(ids)}
            self._sync({m: json.dumps(share).encode() for m, share in shares.items()})

    def _sync(self, shares: dict[str, bytes]) -> None:
        assigned = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in shares.items()]
        body = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=assigned
        )

        def on_response(body: Any) -> None:
            if body is None or body.error_code:
                self._rejoin(None if body is None else body.error_code)
                return
            self.owned = [self.places[i] for i in json.loads(bytes(body.assignment) or b"[]")]
            self.history.on_assigned(self.generation, self.owned, f"{self.name} {self.member_id}")
            self.call_later(self._beat, BEAT_MS)

        self.send_request(self.coordinator, ApiKey.SYNC_GROUP, 3, body, on_response)

    def _beat(self) -> None:
        if self.stopped:
            return
        if not self.calm and self.world.chance(0.02):
            self.call_later(
                self._commit, self.world.between(SESSION_MS, 3 * SESSION_MS)
            )  # removed after a long time without a heartbeat, and not notified of that
            return
        if not self.calm and self.world.chance(0.02):
            self._leave()
            return

        def on_response(body: Any) -> None:
            if body is None or body.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self._rejoin(None if body is None else body.error_code)
            elif body.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._join()
            else:
                self._commit()

        body = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        self.send_request(self.coordinator, ApiKey.HEARTBEAT, 3, body, on_response)

    def _leave(self) -> None:
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        body = LeaveGroupRequest(group_id=self.group, members=[member])
        self.send_request(
            self.coordinator, ApiKey.LEAVE_GROUP, 3, body, lambda body: self._rejoin(ErrorCode.UNKNOWN_MEMBER_ID)
        )

    def _commit(self) -> None:
        if not self.owned or self.stopped:
            self.call_later(self._beat, BEAT_MS)
            return
        place = self.world.rng.choice(self.owned)
        commit = self.history.commit_request(place, self.generation, self.world.now_us)
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=place[1], committed_offset=commit.number, committed_metadata=None
        )
        body = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=place[0], partitions=[part])],
        )

        def on_response(body: Any) -> None:
            if body is None:
                self._rejoin(None)
                return
            error = body.topics[0].partitions[0].error_code
            self.history.on_response(place, commit, error, self.world.now_us)
            if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.call_later(self._beat, BEAT_MS)
            else:
                self._rejoin(error)

        self.send_request(self.coordinator, ApiKey.OFFSET_COMMIT, 9, body, on_response)


class Auditor(Member):
    """Requests the committed offsets until it gets them."""

    def __init__(self, cluster: Cluster, places: list[Place], group: str = GROUP) -> None:
        self.committed: dict[Place, int] | None = None
        super().__init__(cluster, GroupHistory(), "auditor", places, group)

    def _join(self) -> None:
        names = dict.fromkeys(t for t, _ in self.places)
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=n, partition_indexes=[i for t, i in self.places if t == n])
            for n in names
        ]
        body = OffsetFetchRequest(group_id=self.group, topics=topics)
        self.send_request(self.coordinator, ApiKey.OFFSET_FETCH, 5, body, self._got_offsets)

    def _got_offsets(self, body: Any) -> None:
        parts = [] if body is None else [(t.name, p) for t in body.topics for p in t.partitions]
        if not parts or body.error_code or any(p.error_code for _, p in parts):
            self.call_later(self._find)
            return
        self.committed = {(name, p.partition_index): p.committed_offset for name, p in parts}


def in_step(members: list[Member]) -> bool:
    """One generation, and every partition has exactly one owner."""
    owned = [place for m in members for place in m.owned]
    return len({m.generation for m in members}) == 1 and sorted(owned) == sorted(members[0].places)
