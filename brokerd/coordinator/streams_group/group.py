"""A streams group (KIP-1071; Kafka: StreamsGroup). Pure state machine without clock and random numbers.

Invariants: an active task has one owner. A response is sent after all state that it depends on is replicated. A heartbeat with another epoch is
fenced. `state` has the persisted state, `target_assignment` and `assignor` the target assignments, `reconciliation` the steps of a member.

| epoch in the heartbeat  | member                   | result                                                           |
|-------------------------|--------------------------|------------------------------------------------------------------|
| 0                       | is new                   | it joins                                                         |
| 0                       | is known                 | it restarted: it gets its whole assignment                       |
| its epoch               |                          | it stays, next step of the reconciliation                        |
| previous, with owned    | missed the last response | it stays, the response is sent again                             |
| any other               |                          | FENCED_MEMBER_EPOCH                                              |
| -1                      |                          | it leaves                                                        |
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.cluster.model import Now
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Completed, Reply
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.reply_callback import ReplyCallback
from brokerd.coordinator.streams_group.configured_topology import ConfiguredTopology, InvalidTopology
from brokerd.coordinator.streams_group.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    HeartbeatStatus,
    PersistStreamsChanges,
    StatusCode,
    StreamsGroupState,
    StreamsHeartbeat,
    StreamsHeartbeatReply,
    StreamsMemberMetadata,
    StreamsRecordKey,
)
from brokerd.coordinator.streams_group.reconciliation import (
    StreamsMemberAssignment,
    StreamsMemberState,
    is_reconciled,
    reconcile,
)
from brokerd.coordinator.streams_group.target_assignment import StreamsTargetAssignments
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, TaskId, Tasks
from brokerd.wire.errors import ErrorCode

EXPIRY_RETRY_MS = 1_000
"""Pause before the removal of an expired member is tried again after the log rejected it."""

Event = (
    StreamsHeartbeat
    | events.Commit
    | events.TransactionalCommit
    | events.Persisted
    | events.PersistFailed
    | events.Tick
)
Effect = events.Effect | PersistStreamsChanges


@dataclass(slots=True, kw_only=True)
class StreamsGroup(StreamsTargetAssignments):
    commits: GroupOffsets = field(default_factory=GroupOffsets)
    sessions: dict[str, int] = field(default_factory=dict)
    """{member id: end of its session (mono ms)}."""
    revocations: dict[str, tuple[Tasks, int]] = field(default_factory=dict)
    """{member id: (tasks to revoke, deadline (mono ms))}."""
    endpoint_epoch: int = 0
    """Increases when the tasks of a member with an endpoint change. Not persisted: members get the endpoints again from the next coordinator."""
    shutdown_by: str | None = None
    """The member that requested the shutdown of the application. Not persisted, as in Kafka."""
    dead: bool = False
    _first_assignment_ms: int | None = None
    """The end of the initial delay (mono ms). None: there is no delay."""
    _last_assignment_ms: int | None = None
    """Time of the last target assignment by this coordinator (mono ms)."""
    _next_deadline_ms: int | None = None
    _pending_replies: dict[int, list[tuple[ReplyCallback, object]]] = field(default_factory=dict)
    """{number of a write: (token, response) pairs that wait for it}."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case StreamsHeartbeat():
                self.begin(now.wall_ms)
                response = self._heartbeat(event, now)
                if response.error:
                    self.roll_back()
                return self._persist_and_reply((event.token, response))
            case events.Commit():
                return self._commit(event, now)
            case events.TransactionalCommit():
                return self._commit_in_transaction(event)
            case events.Persisted():
                committed = self.commits.on_persisted(event)
                return [*committed] if committed is not None else self._on_persisted(event.number)
            case events.PersistFailed():
                rejected = self.commits.on_persist_failed(event)
                return [*rejected] if rejected is not None else self._on_write_rejected(event)
            case events.Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """Return the earliest time at which a timer may expire (monotonic ms)."""
        return self._next_deadline_ms

    @property
    def state(self) -> StreamsGroupState:
        if self.dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if not self.validated:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        settled = all(is_reconciled(s, self.target_epoch) for s in self.current_assignments.values())
        return StreamsGroupState.STABLE if settled else StreamsGroupState.RECONCILING

    # -- heartbeats ----------------------------------------------------------------------------------------------------
    def _heartbeat(self, event: StreamsHeartbeat, now: Now) -> StreamsHeartbeatReply:
        rejected = self._membership_error(event)
        if rejected is not None:
            return rejected
        if event.epoch == LEAVE_GROUP_MEMBER_EPOCH:
            return self._leave(event)
        problem = self.topology_problem(event)
        if problem is not None:
            return StreamsHeartbeatReply(ErrorCode.INVALID_REQUEST, problem)
        was_empty = not self.members
        before = self.current_assignments.get(event.member_id, StreamsMemberAssignment())
        bumps = self._update_member(event)
        if self.topology is None:
            self.change(StreamsRecordKey.TOPOLOGY, "", event.topology)
            bumps = True
        try:
            configured = self.configure()
        except InvalidTopology as e:
            return StreamsHeartbeatReply(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(e))
        unknown = self._unknown_tasks(configured, event.owned)
        if unknown is not None:
            return StreamsHeartbeatReply(ErrorCode.INVALID_REQUEST, f"unknown task {unknown}")
        self._update_epoch(configured, bumps)
        if was_empty and self.config.initial_delay_ms > 0:
            self._first_assignment_ms = now.mono_ms + self.config.initial_delay_ms
            self._advance_deadline(self._first_assignment_ms)
        delay_ms, delayed = self._update_target(now)
        initial = self._first_assignment_ms is not None
        target = EMPTY_TASKS if initial else self.targets.get(event.member_id, EMPTY_TASKS)
        after = reconcile(
            self.current_assignments[event.member_id],
            target,
            self.target_epoch,
            event.owned,
            lambda tasks: self.free_tasks(event.member_id, tasks),
        )
        self.change(StreamsRecordKey.CURRENT_ASSIGNMENT, event.member_id, after)
        self._restart_session(event.member_id, now)
        if event.shutdown:
            self.shutdown_by = event.member_id
        # A member that reports other tasks may have missed a response.
        changed = event.epoch == JOIN_GROUP_MEMBER_EPOCH or after.assigned != before.assigned
        sends = changed or event.epoch != before.epoch or event.owned not in (None, after.assigned)
        if changed and self.members[event.member_id].endpoint is not None:
            self.endpoint_epoch += 1
        return StreamsHeartbeatReply(
            ErrorCode.NONE,
            None,
            event.member_id,
            after.epoch,
            min(self.config.heartbeat_ms, delay_ms or self.config.heartbeat_ms),
            after.assigned if sends else None,
            tuple(self._statuses(event.member_id, configured, delayed)),
            self.endpoint_epoch,
            self.endpoint_partitions() if event.endpoint_epoch != self.endpoint_epoch else None,
            configured.missing,
        )

    def _membership_error(self, event: StreamsHeartbeat) -> StreamsHeartbeatReply | None:
        if self.dead:
            return StreamsHeartbeatReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        known = event.member_id in self.members
        if not known and event.epoch != JOIN_GROUP_MEMBER_EPOCH:
            text = f"member {event.member_id!r} is not in group {self.group_id!r}: join with epoch 0"
            return StreamsHeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if not known and len(self.members) >= self.config.size_max:
            text = f"the group has {len(self.members)} members, which is the maximum (group.streams.max.size)"
            return StreamsHeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        if known and event.epoch > JOIN_GROUP_MEMBER_EPOCH:
            at = self.current_assignments[event.member_id]
            again = event.epoch == at.previous_epoch and event.owned is not None and event.owned <= at.assigned
            if event.epoch != at.epoch and not again:
                text = f"member epoch is {at.epoch}, not {event.epoch}: close all tasks and rejoin with epoch 0"
                return StreamsHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return None

    def _leave(self, event: StreamsHeartbeat) -> StreamsHeartbeatReply:
        if event.shutdown:
            self.shutdown_by = event.member_id
        self._remove(event.member_id)
        self._raise_epoch()
        return StreamsHeartbeatReply(ErrorCode.NONE, None, event.member_id, event.epoch)

    def _remove(self, member_id: str) -> None:
        if self.members[member_id].endpoint is not None:
            self.endpoint_epoch += 1
        for fact in (
            StreamsRecordKey.CURRENT_ASSIGNMENT,
            StreamsRecordKey.TARGET_ASSIGNMENT,
            StreamsRecordKey.MEMBER,
        ):
            self.change(fact, member_id, None)
        if not self.members:
            self.shutdown_by = None

    def _update_member(self, event: StreamsHeartbeat) -> bool:
        """Update the member's metadata. Returns whether they changed, or the member has no target assignment."""
        old = self.members.get(event.member_id)
        new = StreamsMemberMetadata(
            event.rack_id if event.rack_id is not None or old is None else old.rack_id,
            event.client_id,
            event.client_host,
            event.rebalance_ms if event.rebalance_ms >= 0 or old is None else old.rebalance_ms,
            event.topology.epoch if event.topology is not None else old.topology_epoch if old is not None else -1,
            event.process_id if event.process_id is not None else old.process_id if old is not None else "",
            event.endpoint if event.endpoint is not None or old is None else old.endpoint,
            event.client_tags if event.client_tags is not None else old.client_tags if old is not None else (),
        )
        self.change(StreamsRecordKey.MEMBER, event.member_id, new)
        # A member without a target assignment: the previous coordinator failed during the join.
        lost = event.member_id not in self.targets and self.target_epoch == self.epoch
        return old != new or lost

    @staticmethod
    def _unknown_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> TaskId | None:
        """A task of the heartbeat that the topology does not have."""
        if owned is None or not configured.ready:
            return None
        counts = configured.task_counts
        wrong = [t for tasks in owned for t in tasks if not 0 <= t.partition < counts.get(t.subtopology_id, 0)]
        return min(wrong, default=None)

    def _update_target(self, now: Now) -> tuple[int, str | None]:
        """Compute the target assignment of the group epoch. Returns (delay in ms, its reason), (0, None) if it is not delayed."""
        first = self._first_assignment_ms
        if first is not None and first > now.mono_ms:
            return first - now.mono_ms, "the initial rebalance delay has not passed"
        self._first_assignment_ms = None
        if self.target_epoch >= self.epoch:
            return 0, None
        last = self._last_assignment_ms
        pause_ms = last + self.config.assignment_ms - now.mono_ms if last is not None else 0
        if pause_ms > 0:
            return pause_ms, "the assignment interval has not passed"
        self._assign()
        self._last_assignment_ms = now.mono_ms
        return 0, None

    def _statuses(self, member_id: str, configured: ConfiguredTopology, delayed: str | None) -> list[HeartbeatStatus]:
        assert self.topology is not None, f"{self.group_id}: no topology"
        found = []
        mine, group_epoch = self.members[member_id].topology_epoch, self.topology.epoch
        if mine < group_epoch:
            text = f"the member's topology epoch is {mine}, that of the group is {group_epoch}"
            found.append(HeartbeatStatus(StatusCode.STALE_TOPOLOGY, text))
        if configured.status is not None:
            found.append(configured.status)
        if delayed is not None:
            found.append(HeartbeatStatus(StatusCode.ASSIGNMENT_DELAYED, f"the assignment is delayed: {delayed}"))
        if self.shutdown_by is not None:
            text = f"member {self.shutdown_by} requested the shutdown of the application"
            found.append(HeartbeatStatus(StatusCode.SHUTDOWN_APPLICATION, text))
        return found

    # -- writes ------------------------------------------------------------------------------------------------------------
    def _persist_and_reply(self, *responses: tuple[ReplyCallback, object]) -> list[Effect]:
        """Persist the changes. The responses wait for this write, or for the last pending one if nothing changed."""
        if self.changes:
            number = self.commits.next_number()
            self._pending_replies[number] = list(responses)
            # The record of the group epoch comes first. So after any prefix of the records the next coordinator computes the target assignment again.
            first = sorted(self.changes, key=lambda c: c.fact is not StreamsRecordKey.GROUP)
            return [PersistStreamsChanges(number, tuple(first))]
        if self._pending_replies:
            self._pending_replies[max(self._pending_replies)] += responses
            return []
        return [Reply(token, response) for token, response in responses]

    @property
    def has_pending_replies(self) -> bool:
        return bool(self._pending_replies)

    def _on_persisted(self, number: int) -> list[Effect]:
        """Send the replies of this write and of all earlier ones, which are replicated with it."""
        done = sorted(n for n in self._pending_replies if n <= number)
        return [Reply(token, response) for n in done for token, response in self._pending_replies.pop(n)]

    def _on_write_rejected(self, e: events.PersistFailed) -> list[Effect]:
        """The last write failed before the append, so roll back. After any other failure the shard is loaded again."""
        responses = self._pending_replies.pop(e.number, None)
        if responses is None:
            return []
        self.roll_back()
        return [Reply(token, _with_error(response, e.error)) for token, response in responses]

    def unload(self) -> list[Effect]:
        """Answer all waiting requests: another broker leads the partition."""
        effects: list[Effect] = [
            Reply(token, _with_error(response, ErrorCode.NOT_COORDINATOR))
            for _, responses in sorted(self._pending_replies.items())
            for token, response in responses
        ]
        self._pending_replies.clear()
        self.dead = True
        return [*effects, *self.commits.unload()]

    # -- time ----------------------------------------------------------------------------------------------------------------
    def reset_session_timeouts(self, now: Now) -> None:
        """Start every session again after a load or a time without heartbeats."""
        self.purge()
        for member_id in self.members:
            self._restart_session(member_id, now)

    def end(self) -> None:
        """Mark the deleted group as dead."""
        self.dead = True

    def _restart_session(self, member_id: str, now: Now) -> None:
        ends = self.sessions[member_id] = now.mono_ms + self.config.session_ms
        at = self.current_assignments[member_id]
        if at.state is not StreamsMemberState.UNREVOKED:
            self.revocations.pop(member_id, None)
        elif self.revocations.get(member_id, (EMPTY_TASKS, 0))[0] != at.revoking:
            by = now.mono_ms + self.members[member_id].rebalance_ms
            self.revocations[member_id] = (at.revoking, by)
            ends = min(ends, by)
        self._advance_deadline(ends)

    def _advance_deadline(self, at_ms: int) -> None:
        self._next_deadline_ms = at_ms if self._next_deadline_ms is None else min(self._next_deadline_ms, at_ms)

    def _tick(self, now: Now) -> list[Effect]:
        self.begin(now.wall_ms)
        for member_id in self._expired_members(now):
            self.revocations.pop(member_id, None)
            if member_id in self.members:
                self.sessions[member_id] = now.mono_ms + EXPIRY_RETRY_MS
                self._remove(member_id)
            else:
                del self.sessions[member_id]
        if self.changes:
            self._raise_epoch()
        if self._first_assignment_ms is not None and self._first_assignment_ms <= now.mono_ms:
            self._first_assignment_ms = None
            if self.members:
                self._assign_after_delay(now)
        self._next_deadline_ms = min(self._deadlines(), default=None)
        return self._persist_and_reply()

    def _assign_after_delay(self, now: Now) -> None:
        try:
            self._update_target(now)
        except InvalidTopology:
            pass  # the next heartbeat is rejected with the reason

    def _expired_members(self, now: Now) -> list[str]:
        """Members whose session or revocation deadline has passed."""
        late = [m for m, at in self.sessions.items() if at <= now.mono_ms]
        return late + [m for m, (_, by) in self.revocations.items() if by <= now.mono_ms and m not in late]

    def _deadlines(self) -> list[int]:
        first = [self._first_assignment_ms] if self._first_assignment_ms is not None else []
        return [*self.sessions.values(), *(by for _, by in self.revocations.values()), *first]

    # -- offsets ---------------------------------------------------------------------------------------------------------
    def epoch_error(self, member_id: str, epoch: int, instance_id: str | None = None) -> int:
        """The error of a request of this member and epoch to commit or fetch offsets."""
        if self.dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        at = self.current_assignments.get(member_id)
        if at is None or instance_id is not None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == at.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def _commit(self, event: events.Commit, now: Now) -> list[Effect]:
        if event.generation < 0 and not self.members:
            rejected = Completed(ErrorCode.COORDINATOR_NOT_AVAILABLE if self.dead else ErrorCode.NONE)
            self.empty_since_wall_ms = self.empty_since_wall_ms or now.wall_ms
        else:
            rejected = self._rejected_offsets(event)
        if rejected.error or len(rejected.partition_errors) == len(event.offsets):
            return [Reply(event.token, rejected)]
        return [*self.commits.commit(event, rejected.partition_errors)]

    def _commit_in_transaction(self, event: events.TransactionalCommit) -> list[Effect]:
        """Clients before KIP-447 name no member: they are accepted, because the transaction fences them."""
        named = event.generation >= 0 or event.member_id or event.instance_id is not None
        without_members = event.generation < 0 and not self.members  # as in `_commit`
        rejected = self._rejected_offsets(event) if named and not without_members else Completed(ErrorCode.NONE)
        # Clients expect ILLEGAL_GENERATION as the error of a TxnOffsetCommit with an old member epoch.
        error = ErrorCode.ILLEGAL_GENERATION if rejected.error == ErrorCode.STALE_MEMBER_EPOCH else rejected.error
        rejected = Completed(error, dict.fromkeys(rejected.partition_errors, ErrorCode.ILLEGAL_GENERATION))
        if error or len(rejected.partition_errors) == len(event.offsets):
            return [Reply(event.token, rejected)]
        return [*self.commits.commit_in_transaction(event, rejected.partition_errors)]

    def _rejected_offsets(self, event: events.Commit | events.TransactionalCommit) -> Completed:
        """The errors of a commit. With an old member epoch only partitions of active tasks that the member has owned since then are accepted."""
        error = self.epoch_error(event.member_id, event.generation, event.instance_id)
        at = self.current_assignments.get(event.member_id, StreamsMemberAssignment())
        if error != ErrorCode.STALE_MEMBER_EPOCH or event.generation > at.epoch or self.topology is None:
            return Completed(error)
        may = {
            (topic, partition)
            for topic, partition in event.offsets
            if any(
                at.has_owned_since(TaskId(s, partition), event.generation)
                for s in self.topology.subtopologies_of(topic)
            )
        }
        if not may:
            return Completed(error)
        wrong = [place for place in event.offsets if place not in may]
        return Completed(ErrorCode.NONE, dict.fromkeys(wrong, ErrorCode.STALE_MEMBER_EPOCH))

    # -- checks --------------------------------------------------------------------------------------------------------------
    def validate(self) -> None:
        StreamsTargetAssignments.validate(self)
        assert self.members.keys() <= self.sessions.keys(), f"{self.group_id}: a member without a session"

    def describe(self) -> dict[str, object]:
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "target_epoch": self.target_epoch,
            "members": sorted(self.members),
            "offsets": len(self.commits.offsets),
        }


def _with_error(response: object, error: int) -> StreamsHeartbeatReply | Completed:
    if isinstance(response, StreamsHeartbeatReply):
        return StreamsHeartbeatReply(error, member_id=response.member_id)
    return Completed(error)
