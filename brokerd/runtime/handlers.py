"""The registry of request handlers: builds each API and maps API keys to its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokerd.apis.admin import AdminApi
from brokerd.apis.configs import ConfigsApi
from brokerd.apis.consumer_groups import ConsumerGroupsApi
from brokerd.apis.elections import ElectionsApi
from brokerd.apis.features import FeaturesApi
from brokerd.apis.fetch import FetchApi
from brokerd.apis.fetch_sessions import Sessions
from brokerd.apis.forwarding import SendToController
from brokerd.apis.group_offsets import GroupOffsetsApi
from brokerd.apis.groups import GroupsApi
from brokerd.apis.log_dirs import LogDirsApi
from brokerd.apis.metadata import MetadataApi
from brokerd.apis.offsets import OffsetsApi
from brokerd.apis.private_fetches import PrivateFetches
from brokerd.apis.produce import ProduceApi
from brokerd.apis.quotas import QuotasApi
from brokerd.apis.reassignments import ReassignmentsApi
from brokerd.apis.security import SecurityApi
from brokerd.apis.share_fetch import ShareFetchApi
from brokerd.apis.share_groups import ShareGroupsApi
from brokerd.apis.share_offsets import ShareOffsetsApi
from brokerd.apis.share_state import ShareStateApi
from brokerd.apis.streams_groups import StreamsGroupsApi
from brokerd.apis.streams_internal_topics import StreamsInternalTopics
from brokerd.apis.tokens import TokensApi
from brokerd.apis.topic_partitions import TopicPartitionsApi
from brokerd.apis.transaction_participants import ParticipantsApi
from brokerd.apis.transactions import TransactionsApi
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.authorizer import Authorizer
from brokerd.authz.mutations import Mutations
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now, ProcessStart
from brokerd.config.broker import BrokerConfig
from brokerd.config.groups import CONSUMER, STREAMS
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.net.loop import Loop
from brokerd.net.request import Handler
from brokerd.replication.history_reads import HistoryReads
from brokerd.replication.purgatory import WaitingFetches
from brokerd.replication.relocations import Relocations
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import Throttles
from brokerd.runtime.coordinators import Coordinators
from brokerd.runtime.listeners import Listeners
from brokerd.runtime.remote_logs import RemoteLogs
from brokerd.server.background_work import BackgroundWork
from brokerd.server.dispatch import Dispatch
from brokerd.sharing.sessions import ShareSessions
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.apis import ApiKey


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """The parts of a broker that request handlers use."""

    config: BrokerConfig
    loop: Loop
    replica_manager: ReplicaManager
    fetch_sessions: Sessions
    throttles: Throttles
    background_work: BackgroundWork
    waiting_fetches: WaitingFetches
    history_reads: HistoryReads
    remote_logs: RemoteLogs
    read_ahead: ReadAhead
    listeners: Listeners
    dispatch: Dispatch
    relocations: Relocations
    produce: ProduceApi
    delayed_fronts: LedFronts[DelayedFront]
    coordinators: Coordinators
    authorizer: Authorizer
    auth: AuthHelper
    send_to_controller: SendToController
    draw_producer_id: Callable[[], int]
    unclean_start: bool = False
    """True if the run before ended without a clean shutdown."""


def build_handler_registry(parts: BrokerParts) -> dict[int, Handler]:
    """The registry of request handlers, by API key."""

    def image() -> Image:
        return parts.replica_manager.image

    def now() -> Now:
        return parts.loop.now

    send_to_controller = parts.send_to_controller
    fetch = FetchApi(
        parts.loop,
        parts.replica_manager,
        parts.fetch_sessions,
        bytes_max=parts.config["fetch.max.bytes"],
        throttles=parts.throttles,
        background_work=parts.background_work,
        waiting=parts.waiting_fetches,
        auth=parts.auth,
        history_reads=parts.history_reads,
        by_rack=bool(parts.config["replica.selector.class"]),
        read_ahead=parts.read_ahead,
        produced=lambda: parts.produce.times.total,
        private=PrivateFetches(
            parts.replica_manager,
            parts.background_work,
            lambda: parts.loop.now.mono_ms,
            parts.produce.appender.half_fronts,
            parts.delayed_fronts,
            parts.remote_logs.key_lookups,
        ),
    )
    offsets = OffsetsApi(
        parts.loop,
        parts.replica_manager,
        parts.history_reads,
        parts.background_work,
        parts.auth,
        parts.remote_logs.request_start,
    )
    metadata = MetadataApi(parts.loop, parts.config, parts.listeners.endpoints, image, send_to_controller, parts.auth)
    admin = AdminApi(
        parts.config,
        image,
        send_to_controller,
        Mutations(parts.dispatch.quotas),
        now,
        parts.auth,
    )
    log_dirs = LogDirsApi(
        parts.replica_manager,
        parts.relocations,
        now,
        parts.produce.times,
        parts.auth,
        parts.dispatch.quotas,
        lambda: parts.listeners.connections(),
        parts.remote_logs.sizes,
        lambda: parts.dispatch.metrics.all(),
        share_letters=parts.coordinators.share_dead_letters.counts,
        share_partitions=parts.coordinators.share_partitions,
        rejections=parts.dispatch.rejections,
        start=ProcessStart(now().wall_ms, parts.unclean_start),
    )
    share_offsets = ShareOffsetsApi(
        parts.coordinators.groups, parts.coordinators.persister, parts.coordinators.share_send, image, parts.auth
    )
    groups = GroupsApi(
        parts.coordinators.groups,
        parts.coordinators.find,
        session_ms_min=parts.config["group.min.session.timeout.ms"],
        session_ms_max=parts.config["group.max.session.timeout.ms"],
        auth=parts.auth,
        delete_share_state=share_offsets.delete_all,
    )
    consumer_groups = ConsumerGroupsApi(
        parts.coordinators.groups,
        image,
        parts.auth,
        enabled=CONSUMER in parts.config["group.coordinator.rebalance.protocols"],
    )
    streams_groups = StreamsGroupsApi(
        parts.coordinators.groups,
        image,
        parts.auth,
        StreamsInternalTopics(parts.config.values, send_to_controller, now, parts.auth),
        enabled=STREAMS in parts.config["group.coordinator.rebalance.protocols"],
    )
    group_offsets = GroupOffsetsApi(parts.coordinators.groups, now, parts.auth, image)
    security = SecurityApi(image, send_to_controller, parts.authorizer, parts.auth)
    quotas = QuotasApi(parts.dispatch.quotas, send_to_controller, parts.auth)
    reassignments = ReassignmentsApi(image, send_to_controller, parts.auth)
    transactions = TransactionsApi(
        parts.coordinators.transactions,
        image,
        now,
        parts.draw_producer_id,
        parts.auth,
        timeout_ms_max=parts.config["transaction.max.timeout.ms"],
    )
    participants = ParticipantsApi(parts.replica_manager, parts.produce, parts.coordinators.groups, now, parts.auth)
    share_fetch = ShareFetchApi(
        parts.loop,
        parts.replica_manager,
        parts.coordinators.share_partitions,
        ShareSessions(parts.config["group.share.max.share.sessions"]),
        parts.waiting_fetches,
        parts.auth,
        parts.coordinators.share_config,
        parts.coordinators.endpoint,
        bytes_max=parts.config["fetch.max.bytes"],
        observer=parts.coordinators.share_observer,
    )
    return {
        **ShareGroupsApi(parts.coordinators.groups, image, parts.auth).handlers(),
        **ShareStateApi(parts.coordinators.share_states, parts.auth).handlers(),
        **share_fetch.handlers(),
        **share_offsets.handlers(),
        **TokensApi(parts.auth).handlers(),
        **TopicPartitionsApi(image, parts.auth).handlers(),
        **ConfigsApi(parts.config, image, send_to_controller, parts.auth).handlers(),
        **FeaturesApi(image, send_to_controller, parts.auth).handlers(),
        **ElectionsApi(image, send_to_controller, parts.auth).handlers(),
        **groups.handlers(),
        **consumer_groups.handlers(),
        **streams_groups.handlers(),
        **group_offsets.handlers(),
        **security.handlers(),
        **quotas.handlers(),
        **transactions.handlers(),
        **participants.handlers(),
        **reassignments.handlers(),
        ApiKey.PRODUCE: parts.produce.handle,
        ApiKey.FETCH: fetch.handle,
        ApiKey.LIST_OFFSETS: offsets.list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
        ApiKey.DELETE_RECORDS: offsets.delete_records,
        ApiKey.API_VERSIONS: metadata.api_versions,
        ApiKey.METADATA: metadata.metadata,
        ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
        ApiKey.CREATE_TOPICS: admin.create_topics,
        ApiKey.DELETE_TOPICS: admin.delete_topics,
        ApiKey.CREATE_PARTITIONS: admin.create_partitions,
        ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.alter_replica_log_dirs,
        ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    }
