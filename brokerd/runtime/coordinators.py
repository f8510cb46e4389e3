"""The group, transaction and share coordinators of a broker, and its share partitions. Starts and stops them with the leadership of their partitions, and finds
the coordinator of a key.

Does not contain: the rules of groups and transactions (`coordinator`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from brokerd.apis.produce import ProduceApi
from brokerd.apis.share_dead_letters import SendDeadLetters, ShareDeadLetters
from brokerd.apis.share_observer import ShareObserver
from brokerd.apis.share_partitions import SharePartitions
from brokerd.cluster.metadata import GROUP, AccessChanged, AccessKind, MetadataRecord, TopicDeleted
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Now
from brokerd.cluster.routes import ROUTE_GROUP_PREFIX
from brokerd.config.broker import BrokerConfig
from brokerd.config.groups import GroupConfig, group_config
from brokerd.config.share_groups import DEAD_LETTER_PREFIX, ShareGroupConfig, share_group_config
from brokerd.config.streams_groups import StreamsGroupConfig, streams_group_config
from brokerd.coordinator.groups import GroupCoordinator, TypeConfigs
from brokerd.coordinator.share_group.events import InitializeState, StateInitialized
from brokerd.coordinator.share_state.coordinator import ShareCoordinator
from brokerd.coordinator.share_state.persister import SharePersister, request_all
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START
from brokerd.coordinator.transactions.manager import TransactionCoordinator
from brokerd.coordinator.transactions.markers import TransactionMarkerChannelManager
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.runtime.coordinator_ports import ImageTopics, InternalLog, coordinator_of, leadership_confirmed
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.apis import ApiKey

MARKERS_VERSION = 2
"""Version of WriteTxnMarkers between brokers."""


class Coordinators:
    """`leader_client` sends transaction markers. `persister` is the client of the share coordinators. `draw_id` returns a new member id."""

    def __init__(
        self,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        produce: ProduceApi,
        clock: Callable[[], Now],
        read_ahead: ReadAhead,
        leader_client: InterBrokerClient,
        share_client: InterBrokerClient,
        call_later: Callable[[int, Callable[[Now], None]], object],
        draw_id: Callable[[], str],
        send_dead_letters: SendDeadLetters,
        *,
        share_observer: ShareObserver | None = None,
    ) -> None:
        self._config, self._replica_manager, self.share_observer = config, replica_manager, share_observer
        self.topics = ImageTopics(lambda: replica_manager.image)
        self.share_send = share_client.send_request
        self.persister = SharePersister(
            share_client.send_request,
            lambda key: coordinator_of(replica_manager.image, SHARE_STATE_TOPIC, key),
            call_later,
            share_observer,
        )
        self.share_dead_letters = ShareDeadLetters(
            replica_manager,
            self.share_config,
            replica_manager.topic_config,
            clock,
            read_ahead,
            send_dead_letters,
            config[DEAD_LETTER_PREFIX],
            share_observer,
        )
        self.share_partitions = SharePartitions(
            replica_manager,
            self.persister,
            self.share_config,
            clock,
            read_ahead,
            lambda replica: leadership_confirmed(replica_manager, replica, clock()),
            self.share_dead_letters,
            share_observer,
        )
        self.share_states = ShareCoordinator(
            InternalLog(SHARE_STATE_TOPIC, replica_manager, produce, clock, read_ahead),
            clock,
            updates_per_snapshot=config["share.coordinator.snapshot.update.records.per.snapshot"],
            topic_exists=lambda topic_id: topic_id in replica_manager.image.topics,
        )
        self.groups = GroupCoordinator(
            InternalLog(GROUP_OFFSETS_TOPIC, replica_manager, produce, clock, read_ahead),
            clock,
            initial_delay_ms=config["group.initial.rebalance.delay.ms"],
            size_max=config["group.max.size"],
            retention_ms=config["offsets.retention.minutes"] * 60_000,
            metadata_bytes_max=config["offset.metadata.max.bytes"],
            topics=self.topics,
            group_config=self._group_config,
            migration=config["group.consumer.migration.policy"],
            draw=draw_id,
            permanent=self._is_of_route,
            type_configs=TypeConfigs(self.share_config, self._streams_config),
            initialize_state=self._initialize_state,
        )
        markers = TransactionMarkerChannelManager(
            lambda broker_id, body, done: leader_client.send_request(
                broker_id, ApiKey.WRITE_TXN_MARKERS, MARKERS_VERSION, body, done
            ),
            self._leader_of,
            clock,
        )
        self.transactions = TransactionCoordinator(
            InternalLog(TRANSACTION_STATE_TOPIC, replica_manager, produce, clock, read_ahead),
            markers,
            clock,
            id_expiration_ms=config["transactional.id.expiration.ms"],
            timeout_check_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        )

    def on_election(self, topic: str, partition: int, epoch: int, now: Now) -> None:
        """Called when this broker becomes the leader of a partition. Only internal topics have a coordinator; other topics are ignored."""
        if topic == GROUP_OFFSETS_TOPIC:
            self.groups.on_election(partition, epoch, now)
        elif topic == TRANSACTION_STATE_TOPIC:
            self.transactions.on_election(partition, epoch, now)
        elif topic == SHARE_STATE_TOPIC:
            self.share_states.on_election(partition, epoch, now)

    def on_resignation(self, topic: str, partition: int, now: Now) -> None:
        if topic == GROUP_OFFSETS_TOPIC:
            self.groups.on_resignation(partition, now)
        elif topic == TRANSACTION_STATE_TOPIC:
            self.transactions.on_resignation(partition, now)
        elif topic == SHARE_STATE_TOPIC:
            self.share_states.on_resignation(partition, now)

    def image_loaded(self) -> None:
        """Called when a complete new image was loaded."""
        self.topics.on_reloaded()

    def entry_applied(self, records: Sequence[MetadataRecord]) -> None:
        """These records of the metadata log were applied to the image."""
        self.topics.apply_records(records)
        for record in records:
            if isinstance(record, AccessChanged) and record.kind == GROUP:
                self.groups.group_config_changed(record.key)
            elif isinstance(record, TopicDeleted):
                self.groups.topic_deleted(record.name)
                self.share_states.topics_deleted([record.topic_id])

    def tick(self, now: Now) -> None:
        self.groups.tick(now)
        self.transactions.tick(now)
        self.share_partitions.tick(now)
        self.share_states.tick(now)

    def find(self, topic: str, key: str, listener: str) -> tuple[int, str, int] | None:
        """Broker id, host and port of the coordinator of `key` at `listener`. None if no coordinator is available."""
        broker_id = coordinator_of(self._replica_manager.image, topic, key)
        endpoint = self.endpoint(broker_id, listener)
        return (broker_id, *endpoint[:2]) if endpoint is not None else None

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int, str | None] | None:
        """Host, port and rack of a live broker at `listener`."""
        broker = self._replica_manager.image.brokers.get(broker_id)
        address = broker.address(listener) if broker is not None and broker.alive else None
        return (*address, broker.rack) if broker is not None and address is not None else None

    def _leader_of(self, topic: str, partition: int) -> int | None:
        state = self._replica_manager.image.topic_named(topic)
        if state is None or partition not in state.partitions:
            return None
        return state.partitions[partition].leader

    def _is_of_route(self, group_id: str) -> bool:
        """Return whether the group stores the positions of an existing route."""
        name = group_id.removeprefix(ROUTE_GROUP_PREFIX)
        return name != group_id and self._replica_manager.image.access_to(AccessKind.ROUTE, name)[1] is not None

    def _group_config(self, group_id: str) -> GroupConfig:
        return group_config(self._config.values, self._replica_manager.image.configs_of_group(group_id))

    def share_config(self, group_id: str) -> ShareGroupConfig:
        return share_group_config(self._config.values, self._replica_manager.image.configs_of_group(group_id))

    def _streams_config(self, group_id: str) -> StreamsGroupConfig:
        return streams_group_config(self._config.values, self._replica_manager.image.configs_of_group(group_id))

    def _initialize_state(
        self, group_id: str, request: InitializeState, done: Callable[[StateInitialized], None]
    ) -> None:
        """Initialize share partitions of a group. `done` receives the initialized partitions."""

        def start(place: SharePartitionKey, on_result: Callable[[int], None]) -> None:
            self.persister.initialize(place, request.state_epoch, NO_START, on_result)

        def on_result(errors: dict[SharePartitionKey, int]) -> None:
            initialized: dict[UUID, tuple[str, frozenset[int]]] = {}
            for topic_id, (name, partitions) in request.partitions.items():
                good = frozenset(p for p in partitions if not errors[SharePartitionKey(group_id, topic_id, p)])
                if good:
                    initialized[topic_id] = (name, good)
            done(StateInitialized(initialized))

        request_all(
            [
                SharePartitionKey(group_id, t, p)
                for t, (_, partitions) in request.partitions.items()
                for p in sorted(partitions)
            ],
            start,
            on_result,
        )
