"""The settings of one broker, as it reports them (DescribeConfigs). Invariant: the values of sensitive settings are unknown here. The broker does
not send them, and no other source is used."""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import Declined, KafkaConnection
from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig

CONFIG_SECONDS = 1.0
"""Deadline of one broker. A page waits for it."""
RESOURCE_BROKER = 4
SOURCES = {
    2: BrokerConfigSource.DYNAMIC_BROKER,
    3: BrokerConfigSource.DYNAMIC_CLUSTER,
    4: BrokerConfigSource.FILE,
    5: BrokerConfigSource.DEFAULT,
}
"""Sources of configs by Kafka's code."""
DEFAULT_CODE = 5


def describe_broker(connection: KafkaConnection, broker_id: int) -> dict[str, ReportedConfig]:
    """The settings by name. Raises NoResponse, or Declined with the broker's error."""
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=RESOURCE_BROKER, resource_name=str(broker_id), configuration_keys=None
    )
    body = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = connection.call(ApiKey.DESCRIBE_CONFIGS, 4, body, CONFIG_SECONDS).results
    if result.error_code:
        raise Declined(result.error_message or ErrorCode(result.error_code).name)
    return {
        c.name: ReportedConfig(
            name=c.name,
            value=None if c.is_sensitive else c.value,
            source=SOURCES.get(c.config_source, BrokerConfigSource.UNKNOWN),
            default=next((s.value for s in c.synonyms if s.source == DEFAULT_CODE), None),
            read_only=c.read_only,
            sensitive=c.is_sensitive,
            doc=c.documentation or "",
        )
        for c in result.configs
    }
