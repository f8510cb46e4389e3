"""Authorization of ACLs, SCRAM credentials, quotas, log directories and delegation tokens: permissions on the cluster, and on users."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker, ComponentUsed

CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "t",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 3,
    "permission_type": 3,
}


def changes() -> dict[ApiKey, Any]:
    """A request of two changes for each API that makes changes."""
    acls, scram, quotas = m.CreateAclsRequest, m.AlterUserScramCredentialsRequest, m.AlterClientQuotasRequest
    acl = acls.AclCreation(2, "t", 3, "User:bob", "*", 3, 3)
    upsertions = [scram.ScramCredentialUpsertion(u, 1, 4096, b"salt", b"password") for u in ("bob", "carol")]
    entity = [quotas.EntityData(entity_type="user", entity_name="bob")]
    return {
        ApiKey.CREATE_ACLS: acls([acl, acl]),
        ApiKey.DELETE_ACLS: m.DeleteAclsRequest([m.DeleteAclsRequest.DeleteAclsFilter(**FILTER)] * 2),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram([], upsertions),
        ApiKey.ALTER_CLIENT_QUOTAS: quotas([quotas.EntryData(entity, [quotas.OpData("producer_byte_rate", 1.0)])] * 2),
    }


RULES = dict.fromkeys(changes(), "alter cluster kafka-cluster") | {
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_configs cluster kafka-cluster"
}


@pytest.mark.parametrize("key", RULES, ids=[APIS[key].name for key in RULES])
def test_each_change_needs_a_permission_on_the_cluster(key: ApiKey) -> None:
    broker, version = Broker(), APIS[key].max_version
    broker.allow("describe cluster kafka-cluster", "describe_configs cluster kafka-cluster")
    shown = broker.send_request(key, version, changes()[key])
    results = getattr(shown, "results", None) or getattr(shown, "filter_results", None) or shown.entries
    assert [r.error_code for r in results] == [CLUSTER, CLUSTER] and not broker.forwarded
    broker.allow(RULES[key])
    connection = broker.send(key, version, changes()[key])
    if key == ApiKey.DELETE_ACLS:
        assert connection.parts is not None  # no ACL fits, so nothing is forwarded
    else:
        assert connection.parts is None and len(broker.forwarded) == 1


@pytest.mark.parametrize(
    ("key", "body", "rule"),
    [
        (ApiKey.DESCRIBE_ACLS, m.DescribeAclsRequest(**FILTER), "describe"),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, m.DescribeUserScramCredentialsRequest(None), "describe"),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, m.DescribeClientQuotasRequest([]), "describe_configs"),
        (ApiKey.DESCRIBE_LOG_DIRS, m.DescribeLogDirsRequest(topics=None), "describe"),
    ],
)
def test_descriptions_need_a_permission_on_the_cluster(key: ApiKey, body: Any, rule: str) -> None:
    broker, version = Broker(), APIS[key].max_version
    broker.allow("create cluster kafka-cluster", "describe topic *")
    assert broker.send_request(key, version, body).error_code == CLUSTER
    broker.allow(f"{rule} cluster kafka-cluster")
    if key == ApiKey.DESCRIBE_LOG_DIRS:
        with pytest.raises(ComponentUsed, match="relocations"):
            broker.send(key, version, body)
    else:
        assert broker.send_request(key, version, body).error_code == 0


def test_each_partition_of_an_unauthorized_relocation_has_the_error() -> None:
    r = m.AlterReplicaLogDirsRequest
    body = r([r.AlterReplicaLogDir("/d", [r.AlterReplicaLogDirTopic("t", [0, 1])])])
    broker = Broker()
    (topic,) = broker.send_request(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, body).results
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, CLUSTER), (1, CLUSTER)]
    broker.allow("alter cluster kafka-cluster")
    with pytest.raises(ComponentUsed, match="relocations"):
        broker.send(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, body)
