"""Configs of a group at one broker: their values (DescribeConfigs), and the check of a change (IncrementalAlterConfigs with ValidateOnly). Every broker
knows them from the metadata log. Does not change anything."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import Declined, KafkaConnection
from controlplane.domain.group_config import GroupConfigRow, kind_of

DESCRIBE_SECONDS = 1.0
"""Deadline of one broker. A page waits for it."""
CHECK_SECONDS = 5.0
RESOURCE_GROUP = 32
SOURCE_GROUP = 8
SOURCE_DEFAULT = 5
SET, DELETE = 0, 1


def describe_group(connection: KafkaConnection, group_id: str) -> list[GroupConfigRow]:
    """All configs by name. The group need not exist. Raises NoResponse, or Declined with the broker's error."""
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=RESOURCE_GROUP, resource_name=group_id, configuration_keys=None
    )
    body = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = connection.call(ApiKey.DESCRIBE_CONFIGS, 4, body, DESCRIBE_SECONDS).results
    if result.error_code:
        raise Declined(result.error_message or ErrorCode(result.error_code).name)
    return [
        GroupConfigRow(
            name=c.name,
            kind=kind_of(c.name),
            value=c.value or "",
            own=c.config_source == SOURCE_GROUP,
            default=next((s.value for s in c.synonyms if s.source == SOURCE_DEFAULT), "") or "",
            doc=c.documentation or "",
        )
        for c in sorted(result.configs, key=lambda c: c.name)
    ]


def check_change(connection: KafkaConnection, group_id: str, configs: Mapping[str, str | None]) -> None:
    """Let a broker check a change. None removes a value of the group. Raises NoResponse, or Declined with the reason."""
    r = m.IncrementalAlterConfigsRequest
    changes = [
        r.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in configs.items()
    ]
    resource = r.AlterConfigsResource(resource_type=RESOURCE_GROUP, resource_name=group_id, configs=changes)
    body = r(resources=[resource], validate_only=True)
    (result,) = connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body, CHECK_SECONDS).responses
    if result.error_code:
        raise Declined(result.error_message or ErrorCode(result.error_code).name)
