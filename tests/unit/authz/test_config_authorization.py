"""Authorization of DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources: topics and groups by name, others by cluster."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.requests import AlterAccess, AlterBrokerConfigs, AlterTopicConfigs
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker

RESOURCES = {"t": 2, "u": 2, "1": 4, "g": 32, "h": 32}
DENIED = {
    2: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    4: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    32: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}


@pytest.mark.parametrize(
    ("rules", "authorized"),
    [
        ([], set()),
        (["describe_configs topic t"], {"t"}),
        (["describe_configs group g"], {"g"}),
        (["alter_configs topic t", "alter_configs group h"], {"t", "h"}),
        (["describe_configs cluster kafka-cluster"], {"1"}),
        (["describe_configs topic g", "describe_configs group t"], set()),
    ],
)
def test_each_resource_is_described_or_has_its_own_error(rules: list[str], authorized: set[str]) -> None:
    broker, resource = Broker(), m.DescribeConfigsRequest.DescribeConfigsResource
    broker.allow(*rules)
    body = m.DescribeConfigsRequest([resource(kind, name, None) for name, kind in RESOURCES.items()])
    results = broker.send_request(ApiKey.DESCRIBE_CONFIGS, 1, body).results
    unauthorized = [name for name in RESOURCES if name not in authorized]
    assert [r.resource_name for r in results] == [*(n for n in RESOURCES if n in authorized), *unauthorized]
    for r in results:
        fine = r.resource_name in authorized
        assert (r.error_code, r.error_message) == (
            (0, "") if fine else (DENIED[r.resource_type], "Authorization failed.")
        )
        assert bool(r.configs) == fine


def alter_config_request(key: ApiKey, *names: str) -> Any:
    if key == ApiKey.ALTER_CONFIGS:
        old = m.AlterConfigsRequest
        return old([old.AlterConfigsResource(RESOURCES[n], n, []) for n in names])
    new = m.IncrementalAlterConfigsRequest
    config = new.AlterableConfig(name="retention.ms", config_operation=0, value="5")
    return new([new.AlterConfigsResource(RESOURCES[n], n, [config] if n == "t" else []) for n in names])


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
@pytest.mark.parametrize(
    ("rule", "forwarded"),
    [
        ("describe_configs topic t", []),
        ("alter_configs topic t", [AlterTopicConfigs]),
        ("alter_configs group g", [AlterAccess]),
        ("alter_configs cluster kafka-cluster", [AlterBrokerConfigs]),
    ],
)
def test_only_authorized_resources_are_altered(key: ApiKey, rule: str, forwarded: list[type]) -> None:
    broker = Broker()
    broker.allow(rule)
    connection = broker.send(key, 1, alter_config_request(key, "t", "u", "1", "g"))
    assert [type(p) for p in broker.forwarded] == forwarded
    assert [len(p.items) for p in broker.forwarded] == [1] * len(forwarded)  # type: ignore[union-attr]
    assert (connection.parts is None) == bool(forwarded)  # the response waits for the controller


def test_listing_resources_with_configs_needs_describe_configs_permission_on_the_cluster() -> None:
    broker = Broker()
    body = m.ListConfigResourcesRequest(resource_types=[2])
    shown = broker.send_request(ApiKey.LIST_CONFIG_RESOURCES, 1, body)
    assert (shown.error_code, shown.config_resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    broker.allow("describe_configs cluster kafka-cluster")
    assert [r.resource_name for r in broker.send_request(ApiKey.LIST_CONFIG_RESOURCES, 1, body).config_resources] == [
        "t"
    ]
