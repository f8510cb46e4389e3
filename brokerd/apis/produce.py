"""The Produce API.

Invariant: a batch is acknowledged only after it is written, after it is flushed where the topic requires that, and with acks=all after
the high watermark has passed it. Does not contain: appends (`local_append`), acknowledgements (`delayed_produce`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import repeat
from types import MappingProxyType

from brokerd.apis.batch_inspection import SHORT_RECORDS, Data, Inspections, records_of
from brokerd.apis.delayed_produce import ACKS_ALL, Acknowledgements
from brokerd.apis.local_append import ZSTD_SINCE, LocalAppender
from brokerd.apis.produce_results import (
    NOT_LEADER,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    AppendOutcome,
    ClientAppendOutcome,
    PartitionResult,
    PendingAppend,
    ProducerRejection,
    produce_response,
)
from brokerd.apis.routed_appends import RoutedAppends
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC, TopicState
from brokerd.net.loop import Loop
from brokerd.net.request import Request
from brokerd.replication.produce_latency import ProduceLatency
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.transaction_verification import TransactionVerification
from brokerd.server.background_work import BackgroundWork
from brokerd.storage.producers import ACCEPTED
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.record_walks import plain_records

ABORTABLE_SINCE, TRANSACTIONS_V2_SINCE = 11, 12
"""Versions that know TRANSACTION_ABORTABLE, and versions in which the partition leader adds the partition to the transaction (KIP-890)."""
FIRST_BY_ID = 13
"""First version that names topics by id only (KIP-516)."""
RETRIABLE_VERIFICATION_ERRORS = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Topic = ProduceRequest.TopicProduceData
PartitionBatches = ProduceRequest.PartitionProduceData
Unauthorized = Mapping[int, PartitionResult]
"""The errors of unauthorized topics, by position in the request."""
NOTHING: Unauthorized = MappingProxyType({})
Unverified = tuple[int, Replica, Data]
"""A transactional batch whose coordinator must verify it first: its position in the results, the replica, its bytes."""


def verification_error(error: ErrorCode, version: int) -> ErrorCode:
    """The producer's error when its transaction could not be verified. A temporary error becomes one that the producer retries."""
    if error in RETRIABLE_VERIFICATION_ERRORS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return error


class ProduceApi:
    def __init__(
        self,
        loop: Loop,
        replica_manager: ReplicaManager,
        verification: TransactionVerification,
        background_work: BackgroundWork,
        auth: AuthHelper,
    ) -> None:
        self._loop, self._replica_manager, self._background_work = loop, replica_manager, background_work
        self._auth = auth
        self.transaction_verification = verification
        self.appender = LocalAppender(loop, replica_manager)
        self.acknowledgements = Acknowledgements(loop, replica_manager.purgatory)
        self._routed = RoutedAppends(replica_manager, self.appender, self.acknowledgements, auth)
        self.times = ProduceLatency()

    def handle(self, request: Request) -> None:
        body: ProduceRequest = request.body
        if body.route:
            self._routed.handle(request)
            return
        unauthorized = self._unauthorized_topics(request) if self._auth.enabled else NOTHING
        if unauthorized and body.acks == 0:
            request.close()  # as in Kafka: with acks=0 there is no response for the error
            return
        if body.acks not in (ACKS_ALL, 0, 1):
            request.reply(produce_response(body, repeat(PartitionResult(ErrorCode.INVALID_REQUIRED_ACKS))))
            return
        long = self._long_batches(body, request.header.api_version, unauthorized)
        if not long:
            self._append_all(request, None, unauthorized)
            return
        self._copy_batches(body)
        inspections = Inspections(self._loop.now.wall_ms)
        appended = False

        def on_inspected(_: object) -> None:
            nonlocal appended
            appended = True
            self._append_all(request, inspections, unauthorized)

        self._background_work.start(
            request, inspections.steps([(part.records, config) for part, config in long]), on_inspected
        )
        if not appended:
            # Meanwhile no further requests of the connection are read, so that the batches of a producer are written in the order in which it sent them.
            request.block(needs_client=False)

    def _unauthorized_topics(self, request: Request) -> Unauthorized:
        body: ProduceRequest = request.body
        auth, transactional_id, topics = self._auth, body.transactional_id, range(len(body.topic_data))
        if transactional_id is not None and not auth.authorize(
            request, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id
        ):
            return dict.fromkeys(topics, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

        def name_of(position: int) -> str | None:
            topic = body.topic_data[position]
            if request.header.api_version < FIRST_BY_ID:
                return topic.name
            state = self._replica_manager.image.topics.get(topic.topic_id)
            return state.name if state is not None else None

        _, rejected = auth.partition_by_authorized(request, Operation.WRITE, Resource.TOPIC, topics, name_of)
        own = [position for position in topics if name_of(position) == REMOTE_LOG_METADATA_TOPIC]
        if own and not auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            rejected += own  # only brokers may write this topic: a wrong record could delete remote segments
        return dict.fromkeys(rejected, TOPIC_AUTHORIZATION_FAILED)

    def _long_batches(
        self, body: ProduceRequest, version: int, unauthorized: Unauthorized
    ) -> list[tuple[PartitionBatches, TopicConfig]]:
        """The partitions whose batches may take long to inspect, with their topic settings."""
        count = 0
        for topic in body.topic_data:
            for part in topic.partition_data:
                data = part.records
                if data:
                    plain = plain_records(data)
                    count += plain if plain >= 0 else records_of(data)
        if count <= SHORT_RECORDS:
            return []
        found: list[tuple[PartitionBatches, TopicConfig]] = []
        count = 0
        for position, topic in enumerate(body.topic_data):
            state = unauthorized.get(position) or self._state(topic, version)
            for part in topic.partition_data:
                replica = self._replica(state, part.index)
                if isinstance(replica, PartitionResult) or not part.records:
                    continue
                count += records_of(part.records)
                if count > SHORT_RECORDS:
                    found.append((part, replica.config))
        return found

    @staticmethod
    def _copy_batches(body: ProduceRequest) -> None:
        """Copy the batches of a request that is answered later, because the connection reuses its receive buffer."""
        for topic in body.topic_data:
            for part in topic.partition_data:
                part.records = bytearray(part.records) if part.records is not None else None

    def _append_all(self, request: Request, inspections: Inspections | None, unauthorized: Unauthorized) -> None:
        body: ProduceRequest = request.body
        version = request.header.api_version
        acks, zstd = body.acks, version >= ZSTD_SINCE
        outcomes: list[ClientAppendOutcome] = []
        unverified: list[Unverified] = []
        for position, topic in enumerate(body.topic_data):
            state = unauthorized.get(position) or self._state(topic, version)
            for part in topic.partition_data:
                data, replica = part.records, self._replica(state, part.index)
                if isinstance(replica, PartitionResult):
                    outcomes.append(replica)
                elif data is None or len(data) < records.HEADER_BYTES or not data[22] & records.TRANSACTIONAL:
                    outcomes.append(self.appender.append(replica, data, acks, zstd, inspections))
                else:
                    outcome = self._append_transactional(replica, data, body, version, inspections)
                    if outcome is None:
                        unverified.append((len(outcomes), replica, data))
                        outcome = NOT_LEADER  # replaced when the batch is verified
                    outcomes.append(outcome)
        if unverified:
            self._verify(request, outcomes, unverified, inspections)
        else:
            self._respond(request, outcomes)

    def _respond(self, request: Request, outcomes: list[ClientAppendOutcome]) -> None:
        body: ProduceRequest = request.body
        if body.acks == 0:
            if any(not isinstance(o, PendingAppend) and o.error for o in outcomes):
                # As in Kafka: a producer with acks=0 notices a closed connection, reconnects and refreshes its metadata.
                request.close()
            else:
                request.reply(None)
            return
        certain = [o for o in outcomes if not isinstance(o, ProducerRejection)]
        if len(certain) == len(outcomes):
            self._acknowledge(request, certain)
        else:
            self._replica_manager.hooks.confirm_leadership(
                lambda confirmed: self._respond_rejected(request, outcomes, confirmed)
            )

    def _respond_rejected(self, request: Request, outcomes: list[ClientAppendOutcome], confirmed: bool) -> None:
        certain = [o.result(confirmed=confirmed) if isinstance(o, ProducerRejection) else o for o in outcomes]
        if not request.abandoned:
            self._acknowledge(request, certain)

    def _acknowledge(self, request: Request, outcomes: list[AppendOutcome]) -> None:
        body: ProduceRequest = request.body
        began_ms = self._loop.now.mono_ms

        def on_acknowledged(results: list[PartitionResult]) -> None:
            self.times.add(self._loop.now.mono_ms - began_ms)
            request.reply(produce_response(body, results))

        self.acknowledgements.wait(outcomes, body.acks, body.timeout_ms, on_acknowledged, lambda: request.abandoned)

    # -- transactional batches -------------------------------------------------------------------------------------------
    def _append_transactional(
        self, replica: Replica, data: Data, body: ProduceRequest, version: int, inspections: Inspections | None
    ) -> ClientAppendOutcome | None:
        """The result, or None if the batch starts a transaction, so that its coordinator must verify it first."""
        problem = self.appender.append_problem(replica, body.acks)
        if problem is not None:
            return problem
        header = records.peek(data)
        if body.transactional_id is None:
            return PartitionResult(
                ErrorCode.INVALID_RECORD, "the batch is transactional, but the request has no transactional id"
            )
        add = version >= TRANSACTIONS_V2_SINCE
        needed = self.transaction_verification.needed(replica, header.producer_id, header.producer_epoch, add=add)
        # The sequence number is not checked while an earlier batch waits for the coordinator, because this batch continues the earlier one.
        follows = self.transaction_verification.is_pending(replica, header.producer_id)
        if not needed or (not follows and replica.log.check_producer(header, self._loop.now) is not ACCEPTED):
            return self.appender.append_validated(replica, data, True, inspections)
        return None

    def _verify(
        self,
        request: Request,
        outcomes: list[ClientAppendOutcome],
        unverified: list[Unverified],
        inspections: Inspections | None,
    ) -> None:
        """Answer the request after the coordinators have verified these batches and the valid ones are appended."""
        body: ProduceRequest = request.body
        version = request.header.api_version
        left = len(unverified)

        def on_verified(i: int, replica: Replica, data: bytearray, error: ErrorCode, reason: str | None) -> None:
            nonlocal left
            if error:
                outcomes[i] = PartitionResult(verification_error(error, version), reason)
            elif request.abandoned:
                outcomes[i] = PartitionResult(ErrorCode.REQUEST_TIMED_OUT)
            else:
                outcomes[i] = self.appender.append(replica, data, body.acks, True, inspections)
            left -= 1
            if not left:
                self._respond(request, outcomes)

        for i, replica, data in unverified:
            # The connection reuses its receive buffer before the coordinator has answered.
            copy = data if isinstance(data, bytearray) else bytearray(data)
            header = records.peek(copy)
            self.transaction_verification.verify(
                replica,
                body.transactional_id or "",
                header.producer_id,
                header.producer_epoch,
                partial(on_verified, i, replica, copy),
                add=version >= TRANSACTIONS_V2_SINCE,
            )

    # -- one partition -----------------------------------------------------------------------------------------------
    def _state(self, topic: Topic, version: int) -> TopicState | PartitionResult:
        """The topic that the request names, or an error."""
        image = self._replica_manager.image
        if version >= FIRST_BY_ID:
            state, missing = image.topics.get(topic.topic_id), UNKNOWN_TOPIC_ID
        else:
            state, missing = image.topic_named(topic.name), UNKNOWN_TOPIC_OR_PARTITION
        return missing if state is None or not state.ready else state

    def _replica(self, state: TopicState | PartitionResult, index: int) -> Replica | PartitionResult:
        """The local replica of the partition, or an error."""
        if isinstance(state, PartitionResult):
            return state
        if index not in state.partitions:
            return UNKNOWN_TOPIC_OR_PARTITION
        if state.internal and state.name != REMOTE_LOG_METADATA_TOPIC:
            return PartitionResult(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {state.name} is internal: only brokers write to it"
            )
        replica = self._replica_manager.find(state, index)
        return NOT_LEADER if replica is None else replica
