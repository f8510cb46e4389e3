"""The APIs of the transaction coordinator.

Invariants: producer ids are random 62-bit numbers. Brokers need no coordination for them, and no id repeats after a loss of ZooKeeper (safety.md section 5).
Older versions of a request receive INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator.consumer.patterns import Pattern, PatternError
from brokerd.coordinator.shard import partition_of
from brokerd.coordinator.transactions import transaction_events as core
from brokerd.coordinator.transactions.manager import TransactionCoordinator
from brokerd.coordinator.transactions.transaction import (
    Transaction,
)
from brokerd.coordinator.transactions.transaction_events import (
    TopicIndex,
    TransactionMachineState,
    TransactionResponse,
)
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

EPOCH_MAX = core.EPOCH_MAX
BROKERS_SINCE = 4
"""First version in which brokers send AddPartitionsToTxn to the coordinator (KIP-890)."""
DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
LISTED = {s.value: s for s in TransactionMachineState}


class TransactionsApi:
    """`draw` returns a new producer id. `image` returns the image of the metadata log."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        image: Callable[[], Image],
        clock: Callable[[], Now],
        draw: Callable[[], int],
        auth: AuthHelper,
        *,
        timeout_ms_max: int,
    ) -> None:
        self._transactions, self._image, self._clock, self._draw = transactions, image, clock, draw
        self._auth = auth
        self._timeout_ms_max = timeout_ms_max

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.END_TXN: self.end,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe,
            ApiKey.LIST_TRANSACTIONS: self.list,
        }

    def _may_write(self, request: Request, transactional_id: str) -> bool:
        return self._auth.authorize(request, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)

    # -- producer ids ----------------------------------------------------------------------------------------------------
    def init_producer_id(self, request: Request) -> None:
        body: m.InitProducerIdRequest = request.body
        version = request.header.api_version

        def reply(response: TransactionResponse) -> None:
            request.reply(
                m.InitProducerIdResponse(
                    error_code=map_transaction_error(response.error, version >= 4),
                    producer_id=response.producer_id,
                    producer_epoch=response.epoch,
                )
            )

        denied = self._producer_denied(request)
        if denied:
            request.reply(m.InitProducerIdResponse(error_code=denied, producer_id=-1, producer_epoch=-1))
            return
        known = body.producer_id >= 0
        if known != (body.producer_epoch >= 0):
            reply(TransactionResponse(ErrorCode.INVALID_REQUEST))
        elif body.transactional_id is None:
            if known and body.producer_epoch < EPOCH_MAX - 1:
                # KIP-360: the producer requests a higher epoch.
                reply(TransactionResponse(ErrorCode.NONE, body.producer_id, body.producer_epoch + 1))
            else:
                reply(TransactionResponse(ErrorCode.NONE, self._draw(), 0))
        elif not body.transactional_id:
            reply(TransactionResponse(ErrorCode.INVALID_REQUEST))
        elif not 0 < body.transaction_timeout_ms <= self._timeout_ms_max:
            reply(TransactionResponse(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        else:
            new_id = self._draw()
            event = core.Init(reply, body.transaction_timeout_ms, new_id, body.producer_id, body.producer_epoch)
            error = self._transactions.handle(body.transactional_id, event, new_producer_id=new_id)
            if error:
                reply(TransactionResponse(error))

    def _producer_denied(self, request: Request) -> ErrorCode:
        """The authorization error of InitProducerId, or NONE. A transactional producer needs WRITE on its transactional id. An idempotent producer
        needs IDEMPOTENT_WRITE on the cluster or, as in Kafka, WRITE on any topic."""
        transactional_id = request.body.transactional_id
        if transactional_id is not None:
            return ErrorCode.NONE if self._may_write(request, transactional_id) else DENIED
        fine = self._auth.authorize(request, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
        fine = fine or self._auth.authorize_by_resource_type(request, Operation.WRITE, Resource.TOPIC)
        return ErrorCode.NONE if fine else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    # -- partitions of a transaction ---------------------------------------------------------------------------------------
    def add_partitions(self, request: Request) -> None:
        body: m.AddPartitionsToTxnRequest = request.body
        version = request.header.api_version
        if version < BROKERS_SINCE:
            denied = self._partitions_denied(request)
            if denied is not None:
                request.reply(denied)
                return
            requested = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=body.v3_and_below_transactional_id,
                producer_id=body.v3_and_below_producer_id,
                producer_epoch=body.v3_and_below_producer_epoch,
                topics=body.v3_and_below_topics,
            )
            self._add(
                requested,
                0,
                lambda errors: request.reply(
                    m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(errors, version))
                ),
            )
            return
        if not self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            request.reply(m.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        results: dict[int, dict[TopicIndex, int]] = {}

        def on_transaction_result(i: int, errors: dict[TopicIndex, int]) -> None:
            results[i] = errors
            if len(results) == len(body.transactions):
                request.reply(
                    m.AddPartitionsToTxnResponse(
                        results_by_transaction=[
                            m.AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                                transactional_id=t.transactional_id, topic_results=_topics(results[i], version)
                            )
                            for i, t in enumerate(body.transactions)
                        ]
                    )
                )

        if not body.transactions:
            request.reply(m.AddPartitionsToTxnResponse())
        for i, requested in enumerate(body.transactions):
            if requested.verify_only:
                on_transaction_result(i, self._verify_partitions(requested))
            else:
                self._add(requested, 2, partial(on_transaction_result, i))

    def _partitions_denied(self, request: Request) -> m.AddPartitionsToTxnResponse | None:
        """Return the errors of all partitions if one topic is unauthorized, because then no partition is added. None if all topics are authorized."""
        body: m.AddPartitionsToTxnRequest = request.body
        topics = body.v3_and_below_topics
        errors: dict[str, ErrorCode] = {}
        if not self._may_write(request, body.v3_and_below_transactional_id):
            errors = {t.name: DENIED for t in topics}
        else:
            _, unauthorized = self._auth.partition_by_authorized(
                request, Operation.WRITE, Resource.TOPIC, topics, lambda t: t.name
            )
            if not unauthorized:
                return None
            errors = {t.name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for t in unauthorized}
        r = m.AddPartitionsToTxnResponse
        part = r.AddPartitionsToTxnPartitionResult
        return r(
            results_by_topic_v3_and_below=[
                r.AddPartitionsToTxnTopicResult(
                    name=t.name,
                    results_by_partition=[
                        part(partition_index=i, partition_error_code=errors.get(t.name, NOT_ATTEMPTED))
                        for i in t.partitions
                    ],
                )
                for t in topics
            ]
        )

    def _verify_partitions(
        self, requested: m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    ) -> dict[TopicIndex, int]:
        places = _places(requested)
        transaction, error = self._transactions.find_existing(requested.transactional_id)
        if not error and transaction is None:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if error or transaction is None:
            return dict.fromkeys(places, error)
        return transaction.verify(requested.producer_id, requested.producer_epoch, places)

    def _add(
        self,
        requested: m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
        kind: int,
        done: Callable[[dict[TopicIndex, int]], None],
    ) -> None:
        """Add all partitions to the transaction, or none."""
        places = _places(requested)
        rejected = {p: UNKNOWN for p in places if not self._partition_exists(*p)}
        # The topic __transaction_state gets no markers.
        rejected |= {p: FORBIDDEN for p in places if p[0] == TRANSACTION_STATE_TOPIC}
        if rejected:
            done({p: rejected.get(p, NOT_ATTEMPTED) for p in places})
            return

        def reply(response: TransactionResponse) -> None:
            done(dict.fromkeys(places, response.error))

        event = core.Add(reply, requested.producer_id, requested.producer_epoch, frozenset(places), kind)
        error = self._transactions.handle(requested.transactional_id, event)
        if error:
            reply(TransactionResponse(error))

    def _partition_exists(self, topic: str, index: int) -> bool:
        state = self._image().topic_named(topic)
        return state is not None and state.ready and index in state.partitions

    def add_offsets(self, request: Request) -> None:
        """Add the group's partition of __consumer_offsets to the transaction."""
        body: m.AddOffsetsToTxnRequest = request.body
        version = request.header.api_version
        if not self._may_write(request, body.transactional_id):
            request.reply(m.AddOffsetsToTxnResponse(error_code=DENIED))
            return
        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            request.reply(m.AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return

        def reply(response: TransactionResponse) -> None:
            request.reply(m.AddOffsetsToTxnResponse(error_code=map_transaction_error(response.error, version >= 2)))

        topic = self._image().topic_named(GROUP_OFFSETS_TOPIC)
        if topic is None or not topic.ready:
            reply(TransactionResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        place = (GROUP_OFFSETS_TOPIC, partition_of(body.group_id, topic.partition_count))
        event = core.Add(reply, body.producer_id, body.producer_epoch, frozenset({place}))
        error = self._transactions.handle(body.transactional_id, event)
        if error:
            reply(TransactionResponse(error))

    # -- end of a transaction ----------------------------------------------------------------------------------------------
    def end(self, request: Request) -> None:
        body: m.EndTxnRequest = request.body
        version = request.header.api_version
        if not self._may_write(request, body.transactional_id):
            request.reply(m.EndTxnResponse(error_code=DENIED))
            return

        def reply(response: TransactionResponse) -> None:
            request.reply(
                m.EndTxnResponse(
                    error_code=map_transaction_error(response.error, version >= 2),
                    producer_id=response.producer_id,
                    producer_epoch=response.epoch,
                )
            )

        event = core.End(
            reply,
            body.producer_id,
            body.producer_epoch,
            body.committed,
            self._draw() if version >= 5 else core.NO_ID,
            2 if version >= 5 else 0,
        )
        error = self._transactions.handle(body.transactional_id, event)
        if error:
            reply(TransactionResponse(error))

    # -- administration ----------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeTransactionsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, body.transactional_ids, lambda i: i
        )
        states = [self._describe_transaction(i) for i in authorized]
        for state in states:
            state.topics = self._auth.filter_by_authorized(
                request, Operation.DESCRIBE, Resource.TOPIC, state.topics, lambda t: t.topic
            )
        denied = m.DescribeTransactionsResponse.TransactionState
        states += [denied(error_code=DENIED, transactional_id=i) for i in unauthorized]
        request.reply(m.DescribeTransactionsResponse(transaction_states=states))

    def _describe_transaction(self, transactional_id: str) -> m.DescribeTransactionsResponse.TransactionState:
        transaction, error = self._transactions.find_existing(transactional_id)
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        elif not error and transaction is None:
            error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        out = m.DescribeTransactionsResponse.TransactionState(error_code=error, transactional_id=transactional_id)
        if error or transaction is None:
            return out
        r = transaction.record
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(r.partitions):
            topics.setdefault(topic, []).append(index)
        out.transaction_state, out.transaction_timeout_ms = r.state.value, r.timeout_ms
        out.transaction_start_time_ms = r.started_wall_ms
        out.producer_id, out.producer_epoch = r.producer_id, max(0, r.epoch)
        out.topics = [m.DescribeTransactionsResponse.TopicData(topic=t, partitions=ids) for t, ids in topics.items()]
        return out

    def list(self, request: Request) -> None:
        body: m.ListTransactionsRequest = request.body
        loading = any(not led.loaded for led in self._transactions.shards.values())
        states = {LISTED[s] for s in body.state_filters if s in LISTED}
        visible = self._auth.filter_by_authorized(
            request,
            Operation.DESCRIBE,
            Resource.TRANSACTIONAL_ID,
            self._transactions.each(),
            lambda t: t.transactional_id,
        )
        if body.transactional_id_pattern:
            try:
                named = match_transactional_ids(body.transactional_id_pattern, [t.transactional_id for t in visible])
            except PatternError:
                request.reply(m.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
                return
            visible = [t for t in visible if t.transactional_id in named]
        now = self._clock().wall_ms

        def matches(t: Transaction) -> bool:
            r = t.record
            return (
                (not body.state_filters or r.state in states)
                and (not body.producer_id_filters or r.producer_id in body.producer_id_filters)
                and (
                    body.duration_filter < 0
                    or (r.started_wall_ms >= 0 and now - r.started_wall_ms > body.duration_filter)
                )
            )

        request.reply(
            m.ListTransactionsResponse(
                error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE,
                unknown_state_filters=[s for s in body.state_filters if s not in LISTED],
                transaction_states=[]
                if loading
                else [
                    m.ListTransactionsResponse.TransactionState(
                        transactional_id=t.transactional_id,
                        producer_id=t.record.producer_id,
                        transaction_state=t.state.value,
                    )
                    for t in visible
                    if matches(t)
                ],
            )
        )


UNKNOWN, NOT_ATTEMPTED = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.OPERATION_NOT_ATTEMPTED)
FORBIDDEN = int(ErrorCode.INVALID_TOPIC_EXCEPTION)


def match_transactional_ids(pattern: str, ids: Iterable[str]) -> frozenset[str]:
    """The ids that a pattern matches (KIP-1152). Raises PatternError."""
    if not pattern.isascii():
        raise PatternError("characters outside of ASCII are not supported")
    return Pattern(pattern).among(ids)


def map_transaction_error(error: int, knows_fenced: bool) -> int:
    """The error code for the version of the request."""
    return error if knows_fenced or error != ErrorCode.PRODUCER_FENCED else int(ErrorCode.INVALID_PRODUCER_EPOCH)


def _places(requested: m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction) -> list[TopicIndex]:
    return list(dict.fromkeys((t.name, i) for t in requested.topics for i in t.partitions))


def _topics(
    errors: dict[TopicIndex, int], version: int
) -> list[m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in errors.items():
        if version >= 5 and error == ErrorCode.INVALID_TXN_STATE:
            error = int(ErrorCode.TRANSACTION_ABORTABLE)
        topics.setdefault(topic, []).append(
            m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=map_transaction_error(error, version >= 2)
            )
        )
    return [
        m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=t, results_by_partition=rs)
        for t, rs in topics.items()
    ]
