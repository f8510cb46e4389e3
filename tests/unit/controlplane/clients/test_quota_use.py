"""The request for the use of quotas, and its response."""

from __future__ import annotations

from typing import Any

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.quota_use import MeasuredRate, quota_use


class Broker:
    def __init__(self) -> None:
        self.requests: list[Any] = []

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        self.requests.append((api, version, body.topics, body.quota_use))
        rate = m.DescribeLogDirsResponse.QuotaUse(entity='{"user":"ann"}', quota="producer_byte_rate", per_second=2.5)
        return m.DescribeLogDirsResponse(quota_use=[rate])


def test_the_rates_of_a_broker() -> None:
    broker = Broker()
    assert quota_use(broker) == [MeasuredRate('{"user":"ann"}', "producer_byte_rate", 2.5)]  # type: ignore[arg-type]
    assert broker.requests == [(ApiKey.DESCRIBE_LOG_DIRS, 4, [], True)]
