"""A consumer group in memory, with the interface of `GroupOffsetsClient`: for tests of offset resets without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import NoResponse
from controlplane.clients.group_offsets import GroupStatus, MemberStatus
from controlplane.clients.group_samples import GroupType
from controlplane.domain.offset_reset_types import CommittedOffset, Key, LogRange
from controlplane.services import group_members, offset_reset_worker, offset_reset_writes, offset_resets

OFFSETS = {("orders", 0): CommittedOffset(50, 2, "mark"), ("orders", 1): CommittedOffset(100, 2, "")}


class GroupWorld:
    """`offsets` of each group; `logs` of the partitions that exist. `silent`: requests that get no response. `before_commit`: runs when a commit
    arrives, as a competing client. `drop_response`: the commit is processed and its response is lost."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Key, CommittedOffset]] = {"g": dict(OFFSETS)}
        self.logs = {("orders", i): LogRange(10, 100) for i in range(3)}
        self.members: list[MemberStatus] = []
        self.type = GroupType.CLASSIC
        self.unstable: set[Key] = set()
        self.silent: set[str] = set()
        self.errors: dict[Key, ErrorCode] = {}
        self.drop_response = False
        self.before_commit: Callable[[], None] = lambda: None
        self.calls: list[str] = []

    def client(self, group_id: str, deadline_s: float = 0) -> GroupWorldClient:
        return GroupWorldClient(self, group_id)

    def commit(self, offset: int, index: int = 0) -> None:
        """A commit of another client."""
        self.offsets["g"]["orders", index] = CommittedOffset(offset)


class GroupWorldClient:
    def __init__(self, world: GroupWorld, group_id: str) -> None:
        self.world, self.group_id = world, group_id
        self.requests = {"ANY": 1}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def _record_call(self, name: str) -> None:
        self.world.calls.append(name)
        if name in self.world.silent:
            raise NoResponse(f"{name}: no response")

    def status(self) -> GroupStatus:
        self._record_call("status")
        state = "Stable" if self.world.members else "Empty"
        return GroupStatus(state, self.world.type, tuple(self.world.members))

    def fetch_committed(
        self, keys: Iterable[Key] | None = None, group_id: str = ""
    ) -> tuple[dict[Key, CommittedOffset], set[Key]]:
        self._record_call("committed")
        found = self.world.offsets.get(group_id or self.group_id, {})
        wanted = set(found) if keys is None else set(keys)
        return {k: o for k, o in found.items() if k in wanted - self.world.unstable}, self.world.unstable & wanted

    def leaders(self, topics: Iterable[str]) -> dict[Key, int]:
        wanted = set(topics)
        return {k: 1 for k in self.world.logs if k[0] in wanted}

    def log_ranges(self, leaders: Mapping[Key, int]) -> dict[Key, LogRange]:
        self._record_call("log_ranges")
        return {k: self.world.logs[k] for k in leaders}

    def offsets_at(self, leaders: Mapping[Key, int], timestamp: int) -> dict[Key, int]:
        return dict.fromkeys(leaders, timestamp)

    def commit(self, offsets: Mapping[Key, CommittedOffset]) -> dict[Key, ErrorCode]:
        self.world.before_commit()
        self._record_call("commit")
        if self.world.members:
            return dict.fromkeys(offsets, ErrorCode.UNKNOWN_MEMBER_ID)
        rejected = {k: e for k, e in self.world.errors.items() if k in offsets}
        self.world.offsets.setdefault(self.group_id, {}).update({k: o for k, o in offsets.items() if k not in rejected})
        if self.world.drop_response:
            self.world.silent.add("committed")
            raise NoResponse("commit: no response")
        return rejected

    def delete(self, keys: Iterable[Key]) -> dict[Key, ErrorCode]:
        self._record_call("delete")
        if self.world.members:
            return dict.fromkeys(keys, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        for key in keys:
            self.world.offsets[self.group_id].pop(key, None)
        return {}

    def remove_member(self, member: MemberStatus, group_type: GroupType, reason: str) -> None:
        self._record_call("remove_member")
        assert group_type is self.world.type
        self.world.members.remove(member)


def group_world(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    world = GroupWorld()
    module: Any
    for module in (offset_resets, offset_reset_writes, offset_reset_worker):
        monkeypatch.setattr(module, "offsets_client", world.client)
    monkeypatch.setattr(group_members, "GroupOffsetsClient", world.client)
    return world


def member(name: str = "m-1", instance_id: str | None = None) -> MemberStatus:
    return MemberStatus(name, instance_id, "client", "127.0.0.1")
