"""What each API asks of its caller: Kafka's table of API, resource and operation, and what is told to whom may not.

Laws: an API without a line here is refused while there is an authoriser; what may not be asked is taken out of the request before its handler sees it, and put into the answer as
refused; a fetch is judged again when it is answered, so that what is taken away is taken away from those who wait. Called by `dispatch`. Must not come in: how a decision is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from brokerd.access.acls import CLUSTER_NAME, Acls, Operation, Resource
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

if TYPE_CHECKING:
    from brokerd.dispatch import Request

TOPIC, GROUP, CLUSTER, TRANSACTION = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)  # fmt: skip
O = Operation  # noqa: E741
FREE = frozenset(
    {
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_CLUSTER,
        ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)  # fmt: skip
"""What anybody may ask. (Delegation tokens are refused to everybody.)"""
UNKNOWN = -(2**31)
GROUP_CONFIG = 32
"""The resource type of a group where settings are meant."""


class Asked:
    """A request under judgement. Each guard either replies (and says True) or lets the rest of the request pass."""

    def __init__(self, request: Request, acls: Callable[[], Acls], topic_name: Callable[[Any], str | None]) -> None:
        self.request, self.body, self.acls, self.topic_name = request, request.body, acls, topic_name
        self.version: int = request.header.api_version

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        request = self.request
        return self.acls().allowed(request.principal, request.client_host, operation, resource, name)

    def operations(self, resource: Resource, name: str) -> int:
        return self.acls().operations(self.request.principal, self.request.client_host, resource, name)

    def refuse(self, body: Any) -> bool:
        self.request.reply(body)
        return True

    def then(self, amend: Callable[[Any], None]) -> None:
        """`amend(answer)` before it is written."""
        if self.request.amends is None:
            self.request.amends = []
        self.request.amends.append(amend)

    def only(
        self, operation: Operation, wanted: Iterable[Any], resource: Resource = TOPIC
    ) -> tuple[list[Any], list[Any]]:
        """(may, may not) of things with a name."""
        may: list[Any] = []
        may_not: list[Any] = []
        for x in wanted:
            (may if self.may(operation, resource, x.name) else may_not).append(x)
        return may, may_not


Guard = Callable[[Asked], bool]


# -- records -----------------------------------------------------------------------------------------------------------------
def produce(a: Asked) -> bool:
    r = m.ProduceResponse
    lost = a.body.transactional_id is not None and not a.may(O.WRITE, TRANSACTION, a.body.transactional_id)
    may: list[Any] = []
    may_not: list[Any] = []
    for t in a.body.topic_data:
        name = a.topic_name(t.topic_id) if a.version >= 13 else t.name
        # An unknown id is the handler's to tell.
        (may if not lost and (name is None or a.may(O.WRITE, TOPIC, name)) else may_not).append(t)
    if not may_not:
        return False
    if a.body.acks == 0:
        a.request.close()  # Kafka's only way to tell a producer that wants no answers
        return True
    error = NO_TRANSACTION if lost else NO_TOPIC
    a.body.topic_data = may
    refused = [
        r.TopicProduceResponse(name=t.name, topic_id=t.topic_id, partition_responses=[
            r.PartitionProduceResponse(index=p.index, error_code=error, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1)
            for p in t.partition_data])
        for t in may_not
    ]  # fmt: skip
    a.then(lambda answer: answer.responses.extend(refused))
    return False


def fetch(a: Asked) -> bool:
    r = m.FetchResponse
    follower = (
        a.body.replica_state.replica_id if a.version >= 15 and a.body.replica_state is not None else a.body.replica_id
    )
    if a.version >= 15 and a.body.replica_state is None:
        follower = -1
    if follower >= 0:
        return a.refuse(r(error_code=NO_CLUSTER)) if not a.may(O.CLUSTER_ACTION, CLUSTER) else False

    def name(topic: Any) -> str | None:
        return a.topic_name(topic.topic_id) if a.version >= 13 else topic.topic

    def readable(topic: Any) -> bool:
        known = name(topic)
        return known is None or a.may(O.READ, TOPIC, known)  # an unknown id is the handler's to tell

    may_not = [t for t in a.body.topics if not readable(t)]
    a.body.topics = [t for t in a.body.topics if readable(t)]

    def again(answer: Any) -> None:
        for topic in answer.responses:
            if not readable(topic):
                topic.partitions = [unreadable(p.partition_index) for p in topic.partitions]
        for t in may_not:
            parts = [unreadable(p.partition) for p in t.partitions]
            answer.responses.append(r.FetchableTopicResponse(topic=t.topic, topic_id=t.topic_id, partitions=parts))

    def unreadable(index: int) -> Any:
        return r.PartitionData(
            partition_index=index, error_code=NO_TOPIC, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1,
            aborted_transactions=None, preferred_read_replica=-1, records=b"",
        )  # fmt: skip

    if may_not:
        a.body.max_wait_ms = 0  # who is refused something hears of it now
    a.then(again)
    return False


def list_offsets(a: Asked) -> bool:
    r = m.ListOffsetsResponse
    a.body.topics, may_not = a.only(O.DESCRIBE, a.body.topics)
    refused = [
        r.ListOffsetsTopicResponse(name=t.name, partitions=[
            r.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=NO_TOPIC, timestamp=-1, offset=-1, leader_epoch=-1)
            for p in t.partitions])
        for t in may_not
    ]  # fmt: skip
    a.then(lambda answer: answer.topics.extend(refused))
    return False


def offset_for_leader_epoch(a: Asked) -> bool:
    r = m.OffsetForLeaderEpochResponse
    if a.may(O.CLUSTER_ACTION, CLUSTER):
        return False
    may_not = [t for t in a.body.topics if not a.may(O.DESCRIBE, TOPIC, t.topic)]
    a.body.topics = [t for t in a.body.topics if t not in may_not]
    refused = [
        r.OffsetForLeaderTopicResult(topic=t.topic, partitions=[
            r.EpochEndOffset(partition=p.partition, error_code=NO_TOPIC, leader_epoch=-1, end_offset=-1) for p in t.partitions])
        for t in may_not
    ]  # fmt: skip
    a.then(lambda answer: answer.topics.extend(refused))
    return False


def delete_records(a: Asked) -> bool:
    r = m.DeleteRecordsResponse
    a.body.topics, may_not = a.only(O.DELETE, a.body.topics)
    refused = [
        r.DeleteRecordsTopicResult(name=t.name, partitions=[
            r.DeleteRecordsPartitionResult(partition_index=p.partition_index, low_watermark=-1, error_code=NO_TOPIC) for p in t.partitions])
        for t in may_not
    ]  # fmt: skip
    a.then(lambda answer: answer.topics.extend(refused))
    return False


def init_producer_id(a: Asked) -> bool:
    request = a.request
    if a.body.transactional_id is not None:
        fine, error = a.may(O.WRITE, TRANSACTION, a.body.transactional_id), NO_TRANSACTION
    else:
        fine, error = a.may(O.IDEMPOTENT_WRITE, CLUSTER), NO_CLUSTER
        fine = fine or a.acls().allowed_anywhere(request.principal, request.client_host, O.WRITE, TOPIC)
    return False if fine else a.refuse(m.InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))


# -- what there is -----------------------------------------------------------------------------------------------------------
def metadata(a: Asked) -> bool:
    t = m.MetadataResponse.MetadataResponseTopic
    wanted, refused = a.body.topics, []
    named = wanted is not None and not (a.version == 0 and not wanted)
    if named:
        may = []
        for w in wanted or ():
            name = w.name if w.name is not None else a.topic_name(w.topic_id)
            exists = name is not None and a.topic_name(name) is not None
            creates = a.version < 4 or a.body.allow_auto_topic_creation
            if name is None or (
                a.may(O.DESCRIBE, TOPIC, name)
                and (exists or not creates or a.may(O.CREATE, CLUSTER) or a.may(O.CREATE, TOPIC, name))
            ):
                may.append(w)
            else:
                shown = name if w.name is not None else (None if a.version >= 12 else "")
                refused.append(t(error_code=NO_TOPIC, name=shown, topic_id=w.topic_id))
        a.body.topics = may
        if not may and a.version == 0:
            a.then(lambda answer: answer.topics.clear())  # an empty list means all of them there

    def amend(answer: m.MetadataResponse) -> None:
        if not named:
            answer.topics = [x for x in answer.topics if a.may(O.DESCRIBE, TOPIC, x.name or "")]
        answer.topics.extend(refused)
        if a.version >= 8 and a.body.include_topic_authorized_operations:
            for x in answer.topics:
                if not x.error_code:
                    x.topic_authorized_operations = a.operations(TOPIC, x.name or "")
        if 8 <= a.version <= 10 and a.body.include_cluster_authorized_operations:
            seen = a.may(O.DESCRIBE, CLUSTER)
            answer.cluster_authorized_operations = a.operations(CLUSTER, CLUSTER_NAME) if seen else 0

    a.then(amend)
    return False


def describe_cluster(a: Asked) -> bool:
    def amend(answer: m.DescribeClusterResponse) -> None:
        seen = a.may(O.DESCRIBE, CLUSTER)
        answer.cluster_authorized_operations = a.operations(CLUSTER, CLUSTER_NAME) if seen else 0

    if a.body.include_cluster_authorized_operations:
        a.then(amend)
    return False


# -- administration ----------------------------------------------------------------------------------------------------------
def create_topics(a: Asked) -> bool:
    if a.may(O.CREATE, CLUSTER):
        return False
    a.body.topics, may_not = a.only(O.CREATE, a.body.topics)
    result = m.CreateTopicsResponse.CreatableTopicResult
    refused = [result(name=t.name, error_code=NO_TOPIC, error_message="Authorization failed.") for t in may_not]
    a.then(lambda answer: answer.topics.extend(refused))
    return False


def delete_topics(a: Asked) -> bool:
    result = m.DeleteTopicsResponse.DeletableTopicResult
    if a.version < 6:
        may_not = [n for n in a.body.topic_names if not a.may(O.DELETE, TOPIC, n)]
        a.body.topic_names = [n for n in a.body.topic_names if n not in may_not]
        refused = [result(name=n, error_code=NO_TOPIC) for n in may_not]
    else:
        refused, may = [], []
        for t in a.body.topics:
            name = t.name if t.name is not None else a.topic_name(t.topic_id)
            if name is None or a.may(O.DELETE, TOPIC, name):
                may.append(t)
                continue
            shown = name if t.name is not None or a.may(O.DESCRIBE, TOPIC, name) else None
            refused.append(result(name=shown, topic_id=t.topic_id, error_code=NO_TOPIC))
        a.body.topics = may
    a.then(lambda answer: answer.responses.extend(refused))
    return False


def create_partitions(a: Asked) -> bool:
    a.body.topics, may_not = a.only(O.ALTER, a.body.topics)
    result = m.CreatePartitionsResponse.CreatePartitionsTopicResult
    a.then(lambda answer: answer.results.extend(result(name=t.name, error_code=NO_TOPIC) for t in may_not))
    return False


def configs(operation: Operation, field: str, shape: type[Any]) -> Guard:
    """Of topics and groups by their name, of anything else by the cluster."""
    named = {Resource.TOPIC: (TOPIC, NO_TOPIC), GROUP_CONFIG: (GROUP, NO_GROUP)}

    def guard(a: Asked) -> bool:
        def fine(x: Any) -> bool:
            resource, _ = named.get(x.resource_type, (CLUSTER, NO_CLUSTER))
            return a.may(operation, resource, CLUSTER_NAME if resource is CLUSTER else x.resource_name)

        may_not = [x for x in a.body.resources if not fine(x)]
        a.body.resources = [x for x in a.body.resources if x not in may_not]
        refused = [
            shape(resource_type=x.resource_type, resource_name=x.resource_name, error_message="Authorization failed.",
                  error_code=named.get(x.resource_type, (CLUSTER, NO_CLUSTER))[1])
            for x in may_not
        ]  # fmt: skip
        a.then(lambda answer: getattr(answer, field).extend(refused))
        return False

    return guard


def cluster(operation: Operation, refusal: Callable[[Asked], Any]) -> Guard:
    def guard(a: Asked) -> bool:
        return False if a.may(operation, CLUSTER) else a.refuse(refusal(a))

    return guard


def _no_moves(a: Asked) -> m.AlterReplicaLogDirsResponse:
    r = m.AlterReplicaLogDirsResponse
    part = r.AlterReplicaLogDirPartitionResult
    return r(results=[
        r.AlterReplicaLogDirTopicResult(topic_name=t.name, partitions=[part(partition_index=p, error_code=NO_CLUSTER) for p in t.partitions])
        for d in a.body.dirs for t in d.topics
    ])  # fmt: skip


def _no_acls_made(a: Asked) -> m.CreateAclsResponse:
    result = m.CreateAclsResponse.AclCreationResult
    return m.CreateAclsResponse(results=[result(error_code=NO_CLUSTER) for _ in a.body.creations])


def _no_acls_gone(a: Asked) -> m.DeleteAclsResponse:
    result = m.DeleteAclsResponse.DeleteAclsFilterResult
    return m.DeleteAclsResponse(filter_results=[result(error_code=NO_CLUSTER) for _ in a.body.filters])


def _no_credentials(a: Asked) -> m.AlterUserScramCredentialsResponse:
    result = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    users = dict.fromkeys(c.name for c in [*a.body.deletions, *a.body.upsertions])
    return m.AlterUserScramCredentialsResponse(results=[result(user=u, error_code=NO_CLUSTER) for u in users])


def _no_quotas(a: Asked) -> m.AlterClientQuotasResponse:
    r = m.AlterClientQuotasResponse
    return r(entries=[
        r.EntryData(error_code=NO_CLUSTER, entity=[r.EntityData(entity_type=x.entity_type, entity_name=x.entity_name) for x in e.entity])
        for e in a.body.entries
    ])  # fmt: skip


GUARDS: dict[int, Guard] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: configs(O.DESCRIBE_CONFIGS, "results", m.DescribeConfigsResponse.DescribeConfigsResult),
    ApiKey.ALTER_CONFIGS: configs(O.ALTER_CONFIGS, "responses", m.AlterConfigsResponse.AlterConfigsResourceResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs(
        O.ALTER_CONFIGS, "responses", m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(
        O.ALTER, lambda a: m.AlterPartitionReassignmentsResponse(error_code=NO_CLUSTER)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(
        O.DESCRIBE, lambda a: m.ListPartitionReassignmentsResponse(error_code=NO_CLUSTER)
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster(O.ALTER, _no_moves),
    ApiKey.DESCRIBE_LOG_DIRS: cluster(O.DESCRIBE, lambda a: m.DescribeLogDirsResponse(error_code=NO_CLUSTER)),
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_ACLS: cluster(O.DESCRIBE, lambda a: m.DescribeAclsResponse(error_code=NO_CLUSTER)),
    ApiKey.CREATE_ACLS: cluster(O.ALTER, _no_acls_made),
    ApiKey.DELETE_ACLS: cluster(O.ALTER, _no_acls_gone),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(
        O.DESCRIBE_CONFIGS, lambda a: m.DescribeClientQuotasResponse(error_code=NO_CLUSTER, entries=None)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(O.ALTER_CONFIGS, _no_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(
        O.DESCRIBE, lambda a: m.DescribeUserScramCredentialsResponse(error_code=NO_CLUSTER)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(O.ALTER, _no_credentials),
}
