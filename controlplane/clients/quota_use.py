"""The current use of client quotas, as each broker measures it."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.connection import KafkaConnection

QUOTA_USE_SECONDS = 1.0
"""Deadline of one broker. A page waits for it."""


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """`bucket`: the entity key of the clients that share this rate. `per_second`: over the last ten seconds."""

    bucket: str
    quota: str
    per_second: float


def quota_use(connection: KafkaConnection) -> list[MeasuredRate]:
    """The rates above zero at this broker, at most 1,000. Raises NoResponse."""
    body = m.DescribeLogDirsRequest(topics=[], quota_use=True)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, body, QUOTA_USE_SECONDS)
    return [MeasuredRate(u.entity, u.quota, u.per_second) for u in response.quota_use]
