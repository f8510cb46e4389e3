"""The group coordinator: the groups of the __consumer_offsets partitions that this broker leads (Kafka: GroupCoordinatorService).

Invariant: a group gets `Persisted` for its records only after they are replicated. `shard` decides when a partition may be served. No sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.config.groups import BIDIRECTIONAL, DOWNGRADE, UPGRADE, GroupConfig
from brokerd.config.share_groups import ShareGroupConfig
from brokerd.config.streams_groups import StreamsGroupConfig
from brokerd.coordinator import offset_expiration
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic import records as formats
from brokerd.coordinator.classic.events import Reply
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.consumer import migration
from brokerd.coordinator.consumer import records as consumer_records
from brokerd.coordinator.consumer.events import ConsumerHeartbeat, PersistChanges, Topics
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.group_choice import Event, GroupAction, choose_group
from brokerd.coordinator.group_replay import AnyGroup, Replay, has_only_tombstones
from brokerd.coordinator.group_shard import GroupShard
from brokerd.coordinator.group_writes import GroupWrites
from brokerd.coordinator.shard import (
    FOLLOWER_SILENCE_MS_MAX,
    REJECTED_BEFORE_APPEND,
    CoordinatorLog,
)
from brokerd.coordinator.share_group import group as share_group
from brokerd.coordinator.share_group import records as share_records
from brokerd.coordinator.share_group.events import (
    InitializeState,
    PersistShareChanges,
    StateInitialized,
)
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group import group as streams_group
from brokerd.coordinator.streams_group import records as streams_records
from brokerd.coordinator.streams_group.events import PersistStreamsChanges
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.wire.end_transaction_marker import marker_of
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, Record, records_of

log = logging.getLogger(__name__)

Effect = events.Effect | PersistChanges | share_group.Effect | streams_group.Effect
InitializeShareState = Callable[[str, InitializeState, Callable[[StateInitialized], None]], None]
"""Sends a request to the share coordinators: (group id, request, callback for the response)."""


@dataclass(frozen=True, slots=True)
class TypeConfigs:
    """The settings of share groups and streams groups, by group id."""

    share: Callable[[str], ShareGroupConfig] = lambda group_id: ShareGroupConfig()
    streams: Callable[[str], StreamsGroupConfig] = lambda group_id: StreamsGroupConfig()


class GroupCoordinator(GroupWrites):
    def __init__(
        self,
        coordinator_log: CoordinatorLog,
        clock: Callable[[], Now],
        *,
        initial_delay_ms: int,
        size_max: int,
        retention_ms: int,
        metadata_bytes_max: int,
        topics: Topics,
        group_config: Callable[[str], GroupConfig],
        migration: str = BIDIRECTIONAL,
        draw: Callable[[], str] = lambda: str(uuid4()),
        permanent: Callable[[str], bool] = lambda group_id: False,
        type_configs: TypeConfigs = TypeConfigs(),
        initialize_state: InitializeShareState = lambda group_id, request, done: None,
    ) -> None:
        super().__init__(GROUP_OFFSETS_TOPIC, coordinator_log, clock, GroupShard)
        self._draw, self._topics, self._group_config = draw, topics, group_config
        self._initial_delay_ms, self._size_max, self._expired_ms = initial_delay_ms, size_max, 0
        self._retention_ms, self.metadata_bytes_max, self._permanent = retention_ms, metadata_bytes_max, permanent
        self._upgrades, self._downgrades = (migration in (BIDIRECTIONAL, way) for way in (UPGRADE, DOWNGRADE))
        self._type_configs, self._initialize_state = type_configs, initialize_state
        self._replayed = Replay(self._classic, self._consumer, self._share, self._streams)

    def _classic(self, group_id: str, commits: GroupOffsets) -> Group:
        return Group(group_id, self._initial_delay_ms, self._size_max, commits=commits)

    def _consumer(self, group_id: str, commits: GroupOffsets) -> MixedGroup:
        return MixedGroup(group_id, topics=self._topics, group_config=self._group_config(group_id), commits=commits)

    def _share(self, group_id: str) -> ShareGroup:
        return ShareGroup(group_id, topics=self._topics, config=self._type_configs.share(group_id))

    def _streams(self, group_id: str, commits: GroupOffsets) -> StreamsGroup:
        return StreamsGroup(group_id, topics=self._topics, config=self._type_configs.streams(group_id), commits=commits)

    # -- time ------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        for partition, shard in list(self.shards.items()):
            if not shard.loaded:
                self._load(partition, shard, now)
                continue
            if not self._log.leadership_confirmed(partition):
                shard.was_unavailable = True  # heartbeats are rejected now, so no session may expire
                continue
            if shard.was_unavailable:
                shard.was_unavailable = False
                self._reset_session_timeouts(shard, now)
            for group in list(shard.groups.values()):
                deadline = group.deadline_ms()
                if deadline is not None and deadline <= now.mono_ms:
                    self._deliver(partition, shard, group, events.Tick(), now)
        if now.mono_ms - self._expired_ms > 60_000:
            self._expired_ms = now.mono_ms
            self._expire(now)

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _on_unloaded(self, partition: int, shard: GroupShard) -> None:
        for group in (*shard.groups.values(), *shard.replaced):
            self._run_effects(partition, shard, group, group.unload())

    def _on_loaded(self, partition: int, shard: GroupShard, now: Now) -> None:
        for group_id in [g for g, x in shard.groups.items() if has_only_tombstones(x)]:
            del shard.groups[group_id]
        # A deposed coordinator may answer heartbeats for this long. Its members then keep their partitions for one more session timeout.
        self._reset_session_timeouts(shard, now._replace(mono_ms=now.mono_ms + FOLLOWER_SILENCE_MS_MAX))
        log.info(
            "group coordinator partition loaded: partition=__consumer_offsets-%d groups=%d",
            partition,
            len(shard.groups),
        )

    @staticmethod
    def _reset_session_timeouts(shard: GroupShard, now: Now) -> None:
        """No member could send a heartbeat until now: start every session again."""
        for group in shard.groups.values():
            group.reset_session_timeouts(now)

    def _replay(self, shard: GroupShard, data: bytes, at: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = marker_of(data, at, header)
            if marker is not None:
                shard.on_transaction_ended(header.producer_id, marker.commit, header.base_offset)
            return
        producer_id = header.producer_id if header.is_transactional else None
        for record in records_of(data, at, header):
            if record.offset < shard.next_offset:
                continue
            try:
                touched = self._replayed.read(shard.groups, record, producer_id)
            except ValueError as e:
                log.warning("invalid record skipped: topic=__consumer_offsets offset=%d error=%s", record.offset, e)
                continue
            if touched is not None and producer_id is not None:
                shard.touched.setdefault(producer_id, set()).add(touched)

    def group_config_changed(self, group_id: str) -> None:
        """Apply changed settings. Members receive the new values with their next heartbeat. Sessions keep their current deadlines."""
        group, _ = self.find_existing(group_id)
        if isinstance(group, MixedGroup):
            group.group_config = self._group_config(group_id)
        elif isinstance(group, ShareGroup):
            group.config = self._type_configs.share(group_id)
        elif isinstance(group, StreamsGroup):
            group.config = self._type_configs.streams(group_id)

    # -- finding -----------------------------------------------------------------------------------------------------------
    def find_existing(self, group_id: str) -> tuple[AnyGroup | None, int]:
        """(group, or None if there is no group; error code)."""
        _, shard, error = self.find(group_id)
        if error or shard is None:
            return None, error
        return shard.groups.get(group_id), ErrorCode.NONE

    def generate_member_id(self, client_id: str, instance_id: str | None) -> str:
        return f"{instance_id or client_id or 'member'}-{self._draw()}"

    def partition_count(self, topic: str) -> int:
        """0: the topic does not exist."""
        found = self._topics.topic_named(topic)
        return found[1] if found is not None else 0

    def handle(self, group_id: str, event: Event) -> int:
        """Pass `event` to the group, which is created if necessary. Returns an error code. If it is not NONE, the group did not get the event, and the
        caller sends the error."""
        partition, shard, error = self.find(group_id)
        if error or shard is None:
            return error
        if group_id in shard.deleting:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # clients retry until the tombstones are written
        present = shard.groups.get(group_id)
        choice = choose_group(present, event)
        if isinstance(choice, ErrorCode):
            return choice
        if choice is GroupAction.UPGRADE:
            assert isinstance(present, Group) and isinstance(event, ConsumerHeartbeat)
            return self._upgrade(partition, shard, present, event)
        group = self._create(partition, shard, group_id, choice) if isinstance(choice, GroupAction) else choice
        self._deliver(partition, shard, group, event, self._clock())
        return ErrorCode.NONE

    def _deliver(self, partition: int, shard: GroupShard, group: AnyGroup, event: Event, now: Now) -> None:
        # the group accepts the event, because `choose_group` has checked it
        self._run_effects(partition, shard, group, group.handle(event, now))  # type: ignore[arg-type]
        if isinstance(group, MixedGroup) and group.all_members_classic:
            self._downgrade(partition, shard, group)

    def _create(self, partition: int, shard: GroupShard, group_id: str, action: GroupAction) -> AnyGroup:
        """A new group. An empty group of the other protocol is replaced by it: the new one keeps its offsets and continues its generations."""
        replaced = shard.groups.get(group_id)
        commits = replaced.commits if isinstance(replaced, Group | MixedGroup | StreamsGroup) else GroupOffsets()
        created: AnyGroup
        match action:
            case GroupAction.CREATE_SHARE:
                created = self._share(group_id)
            case GroupAction.CREATE_CONSUMER:
                created = self._consumer(group_id, commits)
                created.epoch = replaced.generation if isinstance(replaced, Group) else 0
            case GroupAction.CREATE_STREAMS:
                created = self._streams(group_id, commits)
            case _:
                created = self._classic(group_id, commits)
                created.generation = replaced.epoch if isinstance(replaced, MixedGroup | StreamsGroup) else 0
        if replaced is not None:
            self._write(partition, shard, self._group_tombstones(replaced), lambda error: None)
            shard.replace(replaced, created)
        shard.groups[group_id] = created
        return created

    # -- conversion between the protocols ------------------------------------------------------------------------------------
    def _upgrade(self, partition: int, shard: GroupShard, old: Group, event: ConsumerHeartbeat) -> int:
        """Convert a classic group with members because a member of the consumer protocol joins it."""
        if not self._upgrades:
            return ErrorCode.GROUP_ID_NOT_FOUND
        try:
            changes = migration.changes_from_classic(old, self._topics)
        except ValueError as e:
            log.info("classic group cannot be converted: group=%r reason=%s", old.group_id, e)
            return ErrorCode.GROUP_ID_NOT_FOUND
        new = shard.groups[old.group_id] = self._consumer(old.group_id, old.commits)
        self._run_effects(partition, shard, new, new.create_from_classic(changes, event, self._clock()))
        if self.shards.get(partition) is not shard:
            self._run_effects(partition, shard, old, old.unload())
            return ErrorCode.NONE
        if not new.members:
            shard.groups[old.group_id] = old  # the group or the log rejected the conversion
            return ErrorCode.NONE
        log.info("group converted to the consumer protocol: group=%r members=%d", old.group_id, len(new.members))
        new.pending_members.update(old.pending_members)
        replies, joins = migration.detach_waiting(old)
        self._run_effects(partition, shard, new, replies)
        for join in joins:
            self.handle(old.group_id, join)
        return ErrorCode.NONE

    def _downgrade(self, partition: int, shard: GroupShard, old: MixedGroup) -> None:
        """Convert the group back: all remaining members use the classic protocol."""
        if not self._downgrades or shard.groups.get(old.group_id) is not old or len(old.members) > self._size_max:
            return
        new = self._classic(old.group_id, old.commits)
        removal = [(consumer_records.key(old.group_id, c), None) for c in old.tombstones()]
        migration.convert_to_classic(old, new, self._clock())
        value = formats.group_value(
            new, {m.member_id: m.assignment for m in new.members.values()}, self._clock().wall_ms
        )
        log.info("group converted to the classic protocol: group=%r members=%d", old.group_id, len(new.members))
        shard.groups[old.group_id] = new
        appended = 0

        def done(error: int) -> None:
            if not error or self.shards.get(partition) is not shard:
                return
            if error in REJECTED_BEFORE_APPEND and not appended:
                shard.groups[old.group_id] = old  # the next event of the group retries the conversion
            else:
                self._reload(partition, shard, error)

        # The record of the classic group comes first: after it, any part of the tombstones leaves a valid group for the next coordinator.
        for portion in formats.batches_of([(formats.group_key(old.group_id), value), *removal]):
            if shard.groups.get(old.group_id) is new and self.shards.get(partition) is shard:
                self._write(partition, shard, self._records(portion), done)
                appended += 1
        if shard.groups.get(old.group_id) is new:
            old.end()

    # -- effects -----------------------------------------------------------------------------------------------------------
    def _run_effects(self, partition: int, shard: GroupShard, group: AnyGroup, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    effect.token(effect.response)
                case events.PersistOffsets():
                    pairs = [
                        (formats.offset_key(group.group_id, t, p), formats.offset_value(o))
                        for (t, p), o in effect.offsets.items()
                    ]
                    if effect.producer is not None:
                        shard.touched.setdefault(effect.producer[0], set()).add(group.group_id)
                    self._persist(partition, shard, group, effect.number, self._records(pairs), effect.producer)
                case events.PersistGroup():
                    assert isinstance(group, Group)
                    value = formats.group_value(group, effect.assignments, self._clock().wall_ms)
                    records = self._records([(formats.group_key(group.group_id), value)])
                    self._persist(partition, shard, group, effect.number, records)
                case PersistShareChanges():
                    made = [(share_records.key(group.group_id, c), share_records.value(c)) for c in effect.changes]
                    self._persist_portions(partition, shard, group, effect.number, made)
                case PersistStreamsChanges():
                    parts = [(streams_records.key(group.group_id, c), streams_records.value(c)) for c in effect.changes]
                    self._persist_portions(partition, shard, group, effect.number, parts)
                case InitializeState():
                    self._initialize(partition, shard, group, effect)
                case PersistChanges():
                    facts = [
                        (consumer_records.key(group.group_id, c), consumer_records.value(c)) for c in effect.changes
                    ]
                    if effect.after_classic:
                        facts.append((formats.group_key(group.group_id), None))
                    self._persist_portions(partition, shard, group, effect.number, facts)

    def _persist_portions(
        self,
        partition: int,
        shard: GroupShard,
        group: AnyGroup,
        number: int,
        pairs: Sequence[tuple[bytes, bytes | None]],
    ) -> None:
        *before, last = formats.batches_of(pairs)
        for portion in before:
            self._write(partition, shard, self._records(portion), partial(self._part_written, partition, shard))
            if self.shards.get(partition) is not shard:
                return  # the shard is loaded again
        self._persist(partition, shard, group, number, self._records(last), alone=not before)

    def _initialize(self, partition: int, shard: GroupShard, group: AnyGroup, effect: InitializeState) -> None:
        def done(response: StateInitialized) -> None:
            if self.shards.get(partition) is shard and shard.groups.get(group.group_id) is group:
                self._deliver(partition, shard, group, response, self._clock())

        self._initialize_state(group.group_id, effect, done)

    def _part_written(self, partition: int, shard: GroupShard, error: int) -> None:
        if error and self.shards.get(partition) is shard:
            self._reload(partition, shard, error)

    def _persist(
        self,
        partition: int,
        shard: GroupShard,
        group: AnyGroup,
        number: int,
        records: Sequence[Record],
        producer: tuple[int, int] | None = None,
        alone: bool = True,
    ) -> None:
        """Append records of a change. `alone`: they are all records of the change, so a failure before the append leaves no part of it in the log."""
        log_offset = self._log.end_offset(partition)
        at_once = True

        def done(error: int) -> None:
            if self.shards.get(partition) is not shard:
                return  # the broker has resigned since: waiting requests were answered then
            if error == ErrorCode.NONE:
                self._deliver(partition, shard, group, events.Persisted(number, log_offset), self._clock())
                return
            rejected = error in REJECTED_BEFORE_APPEND
            if rejected and not at_once and not isinstance(group, Group):
                rejected = False  # the group has changed since, so its earlier state can only be read from the log
            if rejected and alone:
                failed = events.PersistFailed(number, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                self._run_effects(partition, shard, group, group.handle(failed, self._clock()))
                return
            failed = events.PersistFailed(number, ErrorCode.NOT_COORDINATOR)
            if isinstance(group, Group):
                self._run_effects(partition, shard, group, group.handle(failed, self._clock()))
            self._reload(partition, shard, error)

        self._write(partition, shard, records, done, producer)
        at_once = False

    def transaction_ended(self, partition: int, producer_id: int, committed: bool, marker_offset: int) -> None:
        """A transaction marker is replicated. A shard that is still loading reads it from the log."""
        shard = self.shards.get(partition)
        if shard is not None and shard.loaded:
            shard.on_transaction_ended(producer_id, committed, marker_offset)

    # -- expiration --------------------------------------------------------------------------------------------------------
    def _expire(self, now: Now) -> None:
        for shard in list(self.shards.values()):
            for group_id, group in list(shard.groups.items()) if shard.loaded else ():
                expires = not self._permanent(group_id)
                old, whole = offset_expiration.find_expired(group, now, self._retention_ms) if expires else ([], False)
                if old or whole:
                    self.tombstones(group_id, group, old, whole, lambda e: None)
            for topic in list(shard.deleted_topics) if shard.loaded else ():
                if not self._delete_topic_offsets(shard, topic):
                    del shard.deleted_topics[topic]

    def topic_deleted(self, name: str) -> None:
        for partition, shard in list(self.shards.items()):
            shard.deleted_topics[name] = self._log.end_offset(partition)
            if shard.loaded:
                self._delete_topic_offsets(shard, name)

    def _delete_topic_offsets(self, shard: GroupShard, topic: str) -> bool:
        """Return whether the shard still had offsets of the topic."""
        found = shard.offsets_of_deleted(topic)
        for group_id, keys in found.items():
            self.tombstones(group_id, shard.groups[group_id], keys, False, lambda e: None)
        return bool(found)
