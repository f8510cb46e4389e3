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
from brokerd.apis.tokens import TokensApi
from brokerd.apis.topic_partitions import TopicPartitionsApi
from brokerd.apis.transaction_participants import ParticipantsApi
from brokerd.apis.transactions import TransactionsApi
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.authorizer import Authorizer
from brokerd.authz.mutations import Mutations
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.config.broker import BrokerConfig
from brokerd.config.groups import CONSUMER
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


def build_handler_registry(b: BrokerParts) -> dict[int, Handler]:
    """The registry of request handlers, by API key."""

    def image() -> Image:
        return b.replica_manager.image

    def now() -> Now:
        return b.loop.now

    send_to_controller = b.send_to_controller
    fetch = FetchApi(
        b.loop,
        b.replica_manager,
        b.fetch_sessions,
        bytes_max=b.config["fetch.max.bytes"],
        throttles=b.throttles,
        background_work=b.background_work,
        waiting=b.waiting_fetches,
        auth=b.auth,
        history_reads=b.history_reads,
        by_rack=bool(b.config["replica.selector.class"]),
        read_ahead=b.read_ahead,
        produced=lambda: b.produce.times.total,
        private=PrivateFetches(
            b.replica_manager,
            b.background_work,
            lambda: b.loop.now.mono_ms,
            b.produce.appender.half_fronts,
            b.delayed_fronts,
            b.remote_logs.key_lookups,
        ),
    )
    offsets = OffsetsApi(
        b.loop, b.replica_manager, b.history_reads, b.background_work, b.auth, b.remote_logs.request_start
    )
    metadata = MetadataApi(b.loop, b.config, b.listeners.endpoints, image, send_to_controller, b.auth)
    admin = AdminApi(
        b.config,
        image,
        send_to_controller,
        Mutations(b.dispatch.quotas),
        now,
        b.auth,
    )
    log_dirs = LogDirsApi(
        b.replica_manager,
        b.relocations,
        now,
        b.produce.times,
        b.auth,
        b.dispatch.quotas,
        lambda: b.listeners.connections(),
        b.remote_logs.sizes,
        lambda: b.dispatch.metrics.all(),
        share_letters=b.coordinators.share_dead_letters.counts,
        share_partitions=b.coordinators.share_partitions,
        rejections=b.dispatch.rejections,
    )
    share_offsets = ShareOffsetsApi(
        b.coordinators.groups, b.coordinators.persister, b.coordinators.share_send, image, b.auth
    )
    groups = GroupsApi(
        b.coordinators.groups,
        b.coordinators.find,
        session_ms_min=b.config["group.min.session.timeout.ms"],
        session_ms_max=b.config["group.max.session.timeout.ms"],
        auth=b.auth,
        delete_share_state=share_offsets.delete_all,
    )
    consumer_groups = ConsumerGroupsApi(
        b.coordinators.groups,
        image,
        b.auth,
        enabled=CONSUMER in b.config["group.coordinator.rebalance.protocols"],
    )
    group_offsets = GroupOffsetsApi(b.coordinators.groups, now, b.auth)
    security = SecurityApi(image, send_to_controller, b.authorizer, b.auth)
    quotas = QuotasApi(b.dispatch.quotas, send_to_controller, b.auth)
    reassignments = ReassignmentsApi(image, send_to_controller, b.auth)
    transactions = TransactionsApi(
        b.coordinators.transactions,
        image,
        now,
        b.draw_producer_id,
        b.auth,
        timeout_ms_max=b.config["transaction.max.timeout.ms"],
    )
    participants = ParticipantsApi(b.replica_manager, b.produce, b.coordinators.groups, now, b.auth)
    share_fetch = ShareFetchApi(
        b.loop,
        b.replica_manager,
        b.coordinators.share_partitions,
        ShareSessions(b.config["group.share.max.share.sessions"]),
        b.waiting_fetches,
        b.auth,
        b.coordinators.share_config,
        b.coordinators.endpoint,
        bytes_max=b.config["fetch.max.bytes"],
        observer=b.coordinators.share_observer,
    )
    return {
        **ShareGroupsApi(b.coordinators.groups, image, b.auth).handlers(),
        **ShareStateApi(b.coordinators.share_states, b.auth).handlers(),
        **share_fetch.handlers(),
        **share_offsets.handlers(),
        **TokensApi(b.auth).handlers(),
        **TopicPartitionsApi(image, b.auth).handlers(),
        **ConfigsApi(b.config, image, send_to_controller, b.auth).handlers(),
        **FeaturesApi(image, send_to_controller, b.auth).handlers(),
        **ElectionsApi(image, send_to_controller, b.auth).handlers(),
        **groups.handlers(),
        **consumer_groups.handlers(),
        **group_offsets.handlers(),
        **security.handlers(),
        **quotas.handlers(),
        **transactions.handlers(),
        **participants.handlers(),
        **reassignments.handlers(),
        ApiKey.PRODUCE: b.produce.handle,
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
