"""Every API: a caller without permission gets the authorization error of that API, in every version, and the broker does nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.authz.authorizer import OPTIONALLY_AUTHORIZED
from brokerd.coordinator.transactions.transaction import TransactionMachineState
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.errors import ErrorCode
from tests.protocol.generate import Generator
from tests.unit.authz.scene import Broker, ComponentUsed, UnusedComponent, respond
from tests.unit.replication.test_relocations import TP

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOKEN, NO_TOKENS = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
NO_SASL = ErrorCode.ILLEGAL_SASL_STATE
LISTS = (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)
"""APIs that omit what the caller may not describe."""
OMITTED: frozenset[ErrorCode] = frozenset()
"""The response has no entry, and no error."""
EXPECTED: dict[ApiKey, set[ErrorCode] | frozenset[ErrorCode]] = {
    ApiKey.PRODUCE: {TOPIC, TRANSACTION},
    ApiKey.FETCH: {TOPIC, CLUSTER},
    ApiKey.LIST_OFFSETS: {TOPIC},
    ApiKey.METADATA: {TOPIC},
    ApiKey.OFFSET_COMMIT: {GROUP},
    ApiKey.OFFSET_FETCH: {GROUP},
    ApiKey.FIND_COORDINATOR: {GROUP, TRANSACTION, CLUSTER},
    ApiKey.JOIN_GROUP: {GROUP},
    ApiKey.HEARTBEAT: {GROUP},
    ApiKey.LEAVE_GROUP: {GROUP},
    ApiKey.SYNC_GROUP: {GROUP},
    ApiKey.DESCRIBE_GROUPS: {GROUP},
    ApiKey.LIST_GROUPS: OMITTED,
    ApiKey.CREATE_TOPICS: {TOPIC},
    ApiKey.DELETE_TOPICS: {TOPIC},
    ApiKey.DELETE_RECORDS: {TOPIC},
    ApiKey.INIT_PRODUCER_ID: {TRANSACTION, CLUSTER},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {TOPIC},
    ApiKey.ADD_PARTITIONS_TO_TXN: {TRANSACTION, CLUSTER},
    ApiKey.ADD_OFFSETS_TO_TXN: {TRANSACTION},
    ApiKey.END_TXN: {TRANSACTION},
    ApiKey.WRITE_TXN_MARKERS: {CLUSTER},
    ApiKey.TXN_OFFSET_COMMIT: {TRANSACTION},
    ApiKey.DESCRIBE_ACLS: {CLUSTER},
    ApiKey.CREATE_ACLS: {CLUSTER},
    ApiKey.DELETE_ACLS: {CLUSTER},
    ApiKey.DESCRIBE_CONFIGS: {TOPIC, GROUP, CLUSTER},
    ApiKey.ALTER_CONFIGS: {TOPIC, GROUP, CLUSTER},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {CLUSTER},
    ApiKey.DESCRIBE_LOG_DIRS: {CLUSTER},
    ApiKey.CREATE_PARTITIONS: {TOPIC},
    ApiKey.CREATE_DELEGATION_TOKEN: {TOKEN, NO_TOKENS},
    ApiKey.DELETE_GROUPS: {GROUP},
    ApiKey.ELECT_LEADERS: {CLUSTER},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {TOPIC, GROUP, CLUSTER},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {CLUSTER},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {CLUSTER},
    ApiKey.OFFSET_DELETE: {GROUP},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {CLUSTER},
    ApiKey.ALTER_CLIENT_QUOTAS: {CLUSTER},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {CLUSTER},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {CLUSTER},
    ApiKey.UPDATE_FEATURES: {CLUSTER},
    ApiKey.DESCRIBE_PRODUCERS: {TOPIC},
    ApiKey.DESCRIBE_TRANSACTIONS: {TRANSACTION},
    ApiKey.LIST_TRANSACTIONS: {ErrorCode.INVALID_REGULAR_EXPRESSION},  # of the pattern; transactions are omitted
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {GROUP},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {GROUP},
    ApiKey.LIST_CONFIG_RESOURCES: {CLUSTER},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {TOPIC},
    ApiKey.SHARE_GROUP_HEARTBEAT: {GROUP},
    ApiKey.SHARE_GROUP_DESCRIBE: {GROUP},
    ApiKey.SHARE_FETCH: {GROUP},
    ApiKey.SHARE_ACKNOWLEDGE: {GROUP},
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: {CLUSTER},
    ApiKey.READ_SHARE_GROUP_STATE: {CLUSTER},
    ApiKey.WRITE_SHARE_GROUP_STATE: {CLUSTER},
    ApiKey.DELETE_SHARE_GROUP_STATE: {CLUSTER},
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: {CLUSTER},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {GROUP},
    ApiKey.STREAMS_GROUP_DESCRIBE: {GROUP},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {GROUP},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {GROUP},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {GROUP},
}
"""The errors of each API for a caller without permission. A new API needs a line."""
PUBLIC: dict[ApiKey, set[ErrorCode]] = {
    ApiKey.API_VERSIONS: set(),
    ApiKey.SASL_HANDSHAKE: {NO_SASL},
    ApiKey.SASL_AUTHENTICATE: {NO_SASL},
    ApiKey.DESCRIBE_CLUSTER: set(),
    ApiKey.RENEW_DELEGATION_TOKEN: {NO_TOKENS},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {NO_TOKENS},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {NO_TOKENS},
}
"""APIs that need no permission, as in Kafka, with their errors on a listener without SASL and in a cluster without delegation tokens."""
RESOURCE_TYPES = (2, 4, 8, 32)
SEEDS = 25


class KnownIds(Generator):
    """Topic ids are those of an existing topic."""

    def value_of(self, cls: type, kind: str, version: int) -> Any:
        return TP.topic_id if kind == "uuid" else super().value_of(cls, kind, version)


def request(key: ApiKey, version: int, seed: int) -> Any:
    generator = KnownIds(seed)
    body = generator.message(APIS[key].request, version)
    match key:
        case ApiKey.PRODUCE:
            body.acks = -1  # 0 has no response
        case ApiKey.FETCH:
            body.max_wait_ms, body.session_epoch = 10_000, -1
        case ApiKey.DESCRIBE_CONFIGS | ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
            for resource in body.resources:
                resource.resource_type = generator.rng.choice(RESOURCE_TYPES)
        case ApiKey.API_VERSIONS:
            body.client_software_name = body.client_software_version = "a"
        case ApiKey.DESCRIBE_CLUSTER:
            body.endpoint_type = 1
    return body


def errors(shown: Any, version: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """(depth in the response, error code), of each field for errors."""
    for field in dataclasses.fields(shown):
        value = getattr(shown, field.name)
        if field.name in ("error_code", "partition_error_code") and version in field.metadata["spec"].versions:
            yield depth, value
        for item in value if isinstance(value, list) else ():
            if dataclasses.is_dataclass(item):
                yield from errors(item, version, depth + 1)


def unused_but_listed() -> Broker:
    """No part of the broker may be used, except that groups and transactions are listed and then omitted."""
    group = SimpleNamespace(group_id="g", state=SimpleNamespace(value="Stable"))
    ongoing = TransactionMachineState.ONGOING
    transaction = SimpleNamespace(
        transactional_id="x",
        state=ongoing,
        record=SimpleNamespace(producer_id=1, state=ongoing, started_wall_ms=-1),
    )
    return Broker(
        groups=UnusedComponent("groups", shards={0: SimpleNamespace(loaded=True, groups={"g": group})}),
        transactions=UnusedComponent("transactions", shards={}, each=lambda: [transaction]),
    )


def test_every_api_is_in_this_test_and_has_a_handler() -> None:
    assert set(EXPECTED) | set(PUBLIC) == set(APIS) and not set(EXPECTED) & set(PUBLIC)
    assert set(Broker().handlers) == set(APIS)
    assert set(PUBLIC) | {ApiKey.CREATE_DELEGATION_TOKEN} == OPTIONALLY_AUTHORIZED


@pytest.mark.parametrize("key", EXPECTED, ids=[APIS[key].name for key in EXPECTED])
def test_a_caller_without_permission_gets_the_error_in_every_version(key: ApiKey) -> None:
    broker, found = unused_but_listed(), set[int]()
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        for seed in range(SEEDS):
            body = request(key, version, seed)
            reported = respond(broker.send(key, version, body), key, version)
            codes = [(depth, code) for depth, code in errors(reported, version) if depth or code]
            assert {code for _, code in codes} <= EXPECTED[key], (version, seed)
            found |= {code for _, code in codes}
            for entries in ("groups", "transaction_states") if key in LISTS else ():
                assert not getattr(reported, entries, None)
    assert found == EXPECTED[key]
    assert not broker.forwarded and broker.log.end_offset == 0


@pytest.mark.parametrize("key", PUBLIC, ids=[APIS[key].name for key in PUBLIC])
def test_an_api_without_authorization_answers_a_caller_without_permission(key: ApiKey) -> None:
    broker = unused_but_listed()
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        reported = respond(broker.send(key, version, request(key, version, 1)), key, version)
        assert {code for _, code in errors(reported, version)} <= PUBLIC[key] | {0}


@pytest.mark.parametrize("key", EXPECTED, ids=[APIS[key].name for key in EXPECTED])
def test_a_super_user_gets_no_authorization_error(key: ApiKey) -> None:
    for seed in range(SEEDS):
        broker, version = unused_but_listed(), APIS[key].max_version
        try:
            connection = broker.send(key, version, request(key, version, seed), "User:root")
        except ComponentUsed:
            continue
        assert not connection.closed
        if connection.parts is not None:
            codes = {code for _, code in errors(respond(connection, key, version), version)}
            assert not codes & {TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN}


@pytest.mark.parametrize("key", EXPECTED, ids=[APIS[key].name for key in EXPECTED])
def test_a_handler_that_authorizes_nothing_does_not_respond(key: ApiKey) -> None:
    """A new handler that forgets the authorization closes the connection. Without an authorizer it answers."""
    for secured in (True, False):
        broker = Broker(**({} if secured else {"authorizer.class.name": ""}))
        broker.handlers[key] = lambda request: request.reply(APIS[key].response())
        connection = broker.send(key, APIS[key].max_version, APIS[key].request())
        unanswered = secured and key not in OPTIONALLY_AUTHORIZED
        assert (connection.closed, connection.parts is None) == (unanswered, unanswered)
