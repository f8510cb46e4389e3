"""The settings that a real handler reports, read by the client."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.configs import ConfigsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.config.broker import BY_NAME, BrokerConfig
from brokerd.wire.apis import ApiKey
from controlplane.clients.broker_configs import describe_broker
from controlplane.clients.connection import Declined

GIVEN = {
    "broker.id": "1",
    "log.dirs": "/tmp/x",
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "ssl.key.password": "hush-hush",
}


class Broker:
    """The handler of a broker without its sockets."""

    def __init__(self) -> None:
        self.config = BrokerConfig.parse(GIVEN, lambda name: False)
        self.config.live.follow(BY_NAME, {"log.retention.ms": "1000"}, {"max.connections": "9"}, 1)
        self.api = ConfigsApi(self.config, Image, lambda *_: None, ALLOW_ALL)  # type: ignore[arg-type]

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        assert (api, version) == (ApiKey.DESCRIBE_CONFIGS, 4)
        responses: list[Any] = []
        request = type("R", (), {"body": body, "reply": lambda self, response: responses.append(response)})()
        self.api.describe(request)
        return responses[0]


def test_each_setting_has_its_source_its_default_and_no_secret() -> None:
    found = describe_broker(Broker(), 1)  # type: ignore[arg-type]
    assert (found["log.retention.ms"].value, found["log.retention.ms"].source) == ("1000", "dynamic_cluster")
    assert (found["max.connections"].value, found["max.connections"].source) == ("9", "dynamic_broker")
    assert found["max.connections"].default is not None and not found["max.connections"].read_only
    assert (found["listeners"].source, found["listeners"].read_only) == ("file", True)
    assert {c.source for c in found.values()} == {"dynamic_cluster", "dynamic_broker", "file", "default"}
    secret = found["ssl.key.password"]
    assert (secret.value, secret.default, secret.sensitive, secret.source) == (None, None, True, "file")
    assert "hush-hush" not in repr(found)


def test_a_broker_declines_to_describe_another_one() -> None:
    with pytest.raises(Declined, match="can describe topics and itself"):
        describe_broker(Broker(), 2)  # type: ignore[arg-type]
