"""Notifications of a whole local cluster: a broker dies and returns, and a receiver gets one message for its cause and one for its end.

Does not check retries and formats (tests/unit/controlplane/services/test_notifications.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.unit.controlplane.receivers import HttpReceiver, http_receiver

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(420)]
SECRET = "of-the-test"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        yield devcluster
    finally:
        devcluster.end()


def events(receiver: HttpReceiver, event: str) -> list[Any]:
    return [b for b in (json.loads(p.body) for p in receiver.posts) if b["event"] == event]


def test_a_broker_that_dies_and_returns_is_one_message_and_its_end(devcluster: DevCluster) -> None:
    devcluster.topic("flights", partitions=6, replication_factor=3)
    wait_for(lambda: devcluster.get("overview")["health"]["word"] == "healthy", "a healthy cluster", 60)
    with http_receiver() as receiver:
        channel = devcluster.post(
            "notification-channels", {"name": "ops", "kind": "webhook", "url": receiver.url, "secret": SECRET}
        )
        tested = devcluster.post(f"notification-channels/{channel['id']}/test", {})
        assert tested["state"] == "delivered" and len(events(receiver, "test")) == 1
        devcluster.manage("process", "kill", "broker-2")
        (begun,) = wait_for(lambda: events(receiver, "triggered"), "the notification", 90)
        assert (begun["alert"]["kind"], begun["alert"]["subject"]) == ("broker_down", "2")
        assert begun["alert"]["url"] == f"{devcluster.console}alerts/{begun['alert']['id']}/"
        devcluster.manage("process", "start", "broker-2")
        (ended,) = wait_for(lambda: events(receiver, "resolved"), "the end", 240)
        assert ended["key"] == begun["key"] and ended["alert"]["ended_at"] is not None
        assert len(events(receiver, "triggered")) == 1, "what the cause explains is part of its message"
        for post in receiver.posts:
            signature = "sha256=" + hmac.new(SECRET.encode(), post.body, hashlib.sha256).hexdigest()
            assert post.headers["X-Weir-Signature-256"] == signature
    sent = devcluster.get(f"notification-deliveries?alert={begun['alert']['id']}")["rows"]
    assert sorted((d["event"], d["state"]) for d in sent) == [("resolved", "delivered"), ("triggered", "delivered")]
