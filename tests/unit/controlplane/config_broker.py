"""A broker whose real handler describes configs and checks their changes, in place of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import pytest

from brokerd.apis.configs import ConfigsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP, AccessChanged
from brokerd.cluster.requests import ItemResult
from brokerd.config.broker import BrokerConfig
from brokerd.wire.apis import ApiKey
from controlplane.clients import all_brokers
from controlplane.clients.connection import NoResponse
from controlplane.services import group_configs as services

SETTINGS = {
    "broker.id": "1",
    "log.dirs": "/tmp/x",
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}


class ConfigBroker:
    """`groups`: {group: its configs}. `silent`: no response."""

    def __init__(self, groups: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self.silent = False
        self.image = Image()
        for group_id, configs in (groups or {}).items():
            self.image.apply(AccessChanged(GROUP, group_id, 1, dict(configs)))
        self.api = ConfigsApi(BrokerConfig.parse(SETTINGS, lambda name: False), lambda: self.image, None, ALLOW_ALL)  # type: ignore[arg-type]
        self.api._forward = self._accept  # type: ignore[assignment]
        self.checked: list[Any] = []

    def _accept(self, payload: Any, timeout_ms: int, done: Any) -> None:
        assert payload.validate_only
        self.checked.append(payload)
        done([ItemResult(item.name) for item in payload.items])

    def replace_connections(self, patch: pytest.MonkeyPatch) -> Self:
        for module in (all_brokers, services):
            patch.setattr(module, "KafkaConnection", lambda host, port: self)
        return self

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        if self.silent:
            raise NoResponse("it is down")
        responses: list[Any] = []
        request: Any = SimpleNamespace(
            body=body, principal="User:weir", header=SimpleNamespace(api_key=api), reply=responses.append
        )
        handlers = {ApiKey.DESCRIBE_CONFIGS: self.api.describe, ApiKey.INCREMENTAL_ALTER_CONFIGS: self.api.alter}
        handlers[api](request)
        return responses[0]

    def close(self) -> None:
        """Nothing is open."""
