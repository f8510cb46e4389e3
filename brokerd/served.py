"""Which part of a broker answers each API. Law: only who answers is said here, and what he is given to do it. Called by `broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerd.access.mutations import Mutations
from brokerd.apis.admin import AdminApi
from brokerd.apis.configs import ConfigsApi
from brokerd.apis.consumer_groups import ConsumerGroupsApi
from brokerd.apis.elections import ElectionsApi
from brokerd.apis.features import FeaturesApi
from brokerd.apis.fetch import FetchApi
from brokerd.apis.group_offsets import GroupOffsetsApi
from brokerd.apis.groups import GroupsApi
from brokerd.apis.logdirs import LogDirsApi
from brokerd.apis.metadata import MetadataApi
from brokerd.apis.offsets import OffsetsApi
from brokerd.apis.participants import ParticipantsApi
from brokerd.apis.quotas import QuotasApi
from brokerd.apis.reassignments import ReassignmentsApi
from brokerd.apis.security import SecurityApi
from brokerd.apis.tokens import HANDLERS as TOKEN_HANDLERS
from brokerd.apis.topicpartitions import TopicPartitionsApi
from brokerd.apis.transactions import TransactionsApi
from brokerd.coordinator.settings import CONSUMER
from brokerd.dispatch import Handler
from brokerd.wire.apis import ApiKey

if TYPE_CHECKING:
    from brokerd.broker import Broker
    from brokerd.cluster.image import Image
    from brokerd.cluster.model import Now


def handlers(b: Broker) -> dict[int, Handler]:
    """By API key, for a broker whose parts stand."""

    def image() -> Image:
        return b.partitions.image

    def now() -> Now:
        return b.loop.now

    ask = b.ask_controller
    fetch = FetchApi(
        b.loop, b.partitions, b.fetch_sessions, bytes_max=b.config["fetch.max.bytes"],
        throttles=b.throttles, archives=b.archives, by_rack=bool(b.config["replica.selector.class"]),
    )  # fmt: skip
    offsets = OffsetsApi(b.loop, b.partitions, b.archives)
    metadata = MetadataApi(b.loop, b.config, b.listeners.endpoints, image, ask)
    admin = AdminApi(
        b.config,
        image,
        ask,
        Mutations(b.dispatch.quotas),
        now,
    )
    log_dirs = LogDirsApi(b.partitions, b.relocations, now, b.produce.times)
    groups = GroupsApi(
        b.groups, b.coordinator,
        session_ms_min=b.config["group.min.session.timeout.ms"],
        session_ms_max=b.config["group.max.session.timeout.ms"],
    )  # fmt: skip
    consumer_groups = ConsumerGroupsApi(
        b.groups,
        image,
        enabled=CONSUMER in b.config["group.coordinator.rebalance.protocols"],
    )
    group_offsets = GroupOffsetsApi(b.groups, now)
    security = SecurityApi(image, ask, b.authorizer)
    quotas = QuotasApi(b.dispatch.quotas, ask)
    moving = ReassignmentsApi(image, ask)
    transactions = TransactionsApi(
        b.transactions, image, now, b.draw_producer_id,
        timeout_ms_max=b.config["transaction.max.timeout.ms"],
    )  # fmt: skip
    participants = ParticipantsApi(b.partitions, b.produce, b.groups, now)
    return {
        **TOKEN_HANDLERS,
        **TopicPartitionsApi(image).handlers(),
        **ConfigsApi(b.config, image, ask).handlers(),
        **FeaturesApi(image, ask).handlers(),
        **ElectionsApi(image, ask).handlers(),
        **groups.handlers(),
        **consumer_groups.handlers(),
        **group_offsets.handlers(),
        **security.handlers(),
        **quotas.handlers(),
        **transactions.handlers(),
        **participants.handlers(),
        **moving.handlers(),
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
