"""Broker settings of tiered storage."""

from __future__ import annotations

import pytest

from brokerd.config.broker import BrokerConfig, ConfigError

BASE = {"broker.id": "1", "log.dirs": "/data"}


def test_tiered_storage_is_disabled_by_default() -> None:
    assert BrokerConfig.parse(BASE)["remote.log.storage.system.enable"] is False


def test_a_store_is_required() -> None:
    with pytest.raises(ConfigError, match=r"requires remote\.log\.storage\.url"):
        BrokerConfig.parse({**BASE, "remote.log.storage.system.enable": "true"})


@pytest.mark.parametrize("url", ["http://x", "file://host/x", "file:///", "s3:///x", "/data"])
def test_other_urls_are_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match="expected file:///folder or s3://"):
        BrokerConfig.parse({**BASE, "remote.log.storage.url": url})


@pytest.mark.parametrize("url", ["", "file:///data/tier", "s3://bucket", "s3://bucket/a/b"])
def test_urls(url: str) -> None:
    assert BrokerConfig.parse({**BASE, "remote.log.storage.url": url})["remote.log.storage.url"] == url
