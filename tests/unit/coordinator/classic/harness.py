"""A classic group and the requests of its members, for the tests of its state machine."""

from __future__ import annotations

from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group

SESSION_MS, REBALANCE_MS = 10_000, 20_000
PROTOCOLS = (("range", b"x"),)


class GroupHarness:
    """A group and helpers to send requests to it. The test completes the writes. Each request has its own token."""

    def __init__(self, initial_delay_ms: int = 0, size_max: int = 10_000) -> None:
        self.group = Group("g", initial_delay_ms=initial_delay_ms, size_max=size_max)
        self.now, self.serial = Now(0, 0), 0
        self.responses: dict[int, Any] = {}
        self.stored: list[Any] = []

    def deliver(self, event: Any) -> Any:
        self.run(self.group.handle(event, self.now))
        return self.responses.get(getattr(event, "token", None))

    def run(self, effects: list[g.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, g.Reply):
                assert effect.token not in self.responses, "answered twice"
                self.responses[effect.token] = effect.response
            else:
                self.stored.append(effect)
        self.group.validate()

    def next(self) -> int:
        self.serial += 1
        return self.serial

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.deliver(g.Tick())

    def persist(self) -> None:
        """The last write succeeds."""
        self.deliver(g.Persisted(self.stored[-1].number))

    def join(
        self,
        member_id: str = "",
        new_id: str = "",
        instance: str | None = None,
        require_known_member_id: bool = False,
        protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS,
        rebalance_ms: int = REBALANCE_MS,
        session_ms: int = SESSION_MS,
    ) -> int:
        token = self.next()
        self.deliver(
            g.Join(
                token,
                member_id,
                new_id or f"m{token}",
                instance,
                "c",
                "h",
                session_ms,
                rebalance_ms,
                "consumer",
                protocols,
                require_known_member_id,
            )
        )
        return token

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> int:
        token = self.next()
        self.deliver(g.Sync(token, member_id, None, generation, protocol_type, protocol, assignments or {}))
        return token

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> int:
        generation = self.group.generation if generation is None else generation
        error: int = self.deliver(g.Heartbeat(self.next(), member_id, instance, generation)).error
        return error

    def leave(self, member_id: str = "", instance: str | None = None) -> tuple[int, ...]:
        errors: tuple[int, ...] = self.deliver(g.Leave(self.next(), ((member_id, instance),))).errors
        return errors

    def commit(self, member_id: str = "", generation: int = -1, instance: str | None = None, offsets: int = 1) -> Any:
        """The response, or None while the offset is being written."""
        values = {("t", i): g.Offset(5, -1, "", 0) for i in range(offsets)}
        return self.deliver(g.Commit(self.next(), member_id, instance, generation, values))

    def commit_in_transaction(
        self, member_id: str = "", generation: int = -1, instance: str | None = None, offsets: int = 1
    ) -> Any:
        """The response, or None while the offset is being written."""
        values = {("t", i): g.Offset(5, -1, "", 0) for i in range(offsets)}
        return self.deliver(g.TransactionalCommit(self.next(), member_id, instance, generation, values, 7, 0))

    def stable_with_one(self) -> str:
        joined = self.responses[self.join()]
        self.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
        self.persist()
        assert self.group.state is State.STABLE
        return str(joined.member_id)

    def stabilize(self, *members: str, static: tuple[str, ...] = ()) -> None:
        """A stable group of these members, the first is the leader. A member in `static` has the instance id `i-` and its name."""
        for name in members:
            self.join(new_id=name, instance=f"i-{name}" if name in static else None)
        for name in members[: len(members) - 1]:
            if self.group.members[name].join is None:
                self.join(name, instance=f"i-{name}" if name in static else None)
        for name in members:
            self.sync(name, self.group.generation, {m: m.encode() for m in members})
        self.persist()
        assert self.group.state is State.STABLE and self.group.leader == members[0]


def stable_group(*members: str, static: tuple[str, ...] = (), **settings: Any) -> GroupHarness:
    """A stable group of these members, the first is the leader."""
    harness = GroupHarness(**settings)
    harness.stabilize(*members, static=static)
    return harness


def group_completing_rebalance(*members: str) -> GroupHarness:
    """All members have joined, and none has sent SyncGroup."""
    harness = GroupHarness()
    for name in members:
        harness.join(new_id=name)
    for name in members[:-1]:
        if harness.group.members[name].join is None:
            harness.join(name)
    assert harness.group.state is State.COMPLETING
    return harness
