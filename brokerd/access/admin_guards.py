"""What the administrator's younger APIs ask of their caller: the rest of Kafka's table, beside `guards`.

Law: `guards`'s. Called by `authorizer`. Must not come in: how a decision is made.
"""

from __future__ import annotations

from brokerd.access.acls import Operation, Resource
from brokerd.access.guards import CLUSTER, NO_CLUSTER, NO_TOPIC, TOPIC, Asked, Guard, cluster
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode


def describe_topic_partitions(a: Asked) -> bool:
    r = m.DescribeTopicPartitionsResponse
    named = bool(a.body.topics)
    a.body.topics, may_not = a.only(Operation.DESCRIBE, a.body.topics)
    refused = [r.DescribeTopicPartitionsResponseTopic(name=t.name, error_code=NO_TOPIC) for t in may_not]
    if named and not a.body.topics:
        return a.refuse(r(topics=refused))  # an empty list would mean all of them

    def amend(answer: m.DescribeTopicPartitionsResponse) -> None:
        answer.topics = [t for t in answer.topics if a.may(Operation.DESCRIBE, TOPIC, t.name or "")]
        for t in answer.topics:
            if not t.error_code:
                t.topic_authorized_operations = a.operations(TOPIC, t.name or "")
        answer.topics = sorted([*answer.topics, *refused], key=lambda t: t.name or "")

    a.then(amend)
    return False


def elect_leaders(a: Asked) -> bool:
    r = m.ElectLeadersResponse
    if a.may(Operation.ALTER, CLUSTER):
        return False
    result = r.PartitionResult
    return a.refuse(
        r(
            error_code=NO_CLUSTER,
            replica_election_results=[
                r.ReplicaElectionResult(topic=t.topic, partition_result=[
                    result(partition_id=i, error_code=NO_CLUSTER, error_message="Authorization failed.") for i in t.partitions])
                for t in a.body.topic_partitions or ()
            ],
        )
    )  # fmt: skip


def create_token(a: Asked) -> bool:
    """For another user than the one who asks (KIP-373). The others' APIs of tokens are refused before anything is asked of an ACL, as in Kafka."""
    kind, name = a.body.owner_principal_type, a.body.owner_principal_name
    if a.version < 3 or not name or f"{kind}:{name}" == a.request.principal:
        return False
    if a.may(Operation.CREATE_TOKENS, Resource.USER, f"{kind}:{name}"):
        return False
    return a.refuse(m.CreateDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))


GUARDS: dict[int, Guard] = {
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.CREATE_DELEGATION_TOKEN: create_token,
    ApiKey.UPDATE_FEATURES: cluster(Operation.ALTER, lambda a: m.UpdateFeaturesResponse(error_code=NO_CLUSTER)),
    ApiKey.LIST_CONFIG_RESOURCES: cluster(
        Operation.DESCRIBE_CONFIGS, lambda a: m.ListConfigResourcesResponse(error_code=NO_CLUSTER)
    ),
}
