"""The metadata log reaches a broker's components in order; listeners open after the first image."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, call
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, AccessKind, BrokerConfigChanged, MetadataRecord, TopicReady
from brokerd.cluster.model import Now
from brokerd.runtime.metadata_publisher import MetadataPublisher

NOW = Now(5, 5)


class Components:
    """A publisher whose components record their calls in one list."""

    def __init__(self) -> None:
        self.mock = Mock()
        self.mock.replica_manager.image.access, self.mock.replica_manager.hosted = {}, {}
        self.mock.throttles.apply.return_value = False
        self.mock.config.follow.return_value = set()
        names = (
            "replica_manager",
            "coordinators",
            "routing",
            "throttles",
            "fetcher_manager",
            "relocations",
            "fetch_sessions",
        )
        parts: dict[str, Any] = {n: getattr(self.mock, n) for n in (*names, "authorizer", "dispatch", "listeners")}
        self.publisher = MetadataPublisher(self.mock.config, **parts)
        self.mock.reset_mock()

    def calls(self, *names: str) -> list[str]:
        return [c[0] for c in self.mock.mock_calls if c[0] in names]

    def apply(self, *records: MetadataRecord) -> None:
        self.publisher.entry_applied(Image(), records, NOW)


def test_listeners_open_after_the_image_is_applied() -> None:
    components = Components()
    components.publisher.image_loaded(Image(), NOW)
    order = ("config.follow", "replica_manager.load", "throttles.load", "authorizer.on_acls_changed", "listeners.open")
    assert components.calls(*order) == list(order)
    assert components.mock.mock_calls[-1] == call.listeners.open()


def test_changed_topic_defaults_reconfigure_the_logs_and_other_settings_do_not() -> None:
    components = Components()
    components.mock.config.follow.return_value = {"num.io.threads"}
    components.apply(BrokerConfigChanged(None, 1, {}))
    assert not components.mock.replica_manager.reconfigure.called and components.mock.listeners.limits_changed.called
    components.mock.config.follow.return_value = {"log.retention.ms"}
    components.apply(BrokerConfigChanged(None, 2, {}))
    components.mock.replica_manager.reconfigure.assert_called_once_with(NOW)


@pytest.mark.parametrize("kind", AccessKind)
def test_only_a_changed_acl_ends_the_fetch_sessions(kind: AccessKind) -> None:
    components = Components()
    components.apply(AccessChanged(kind, "key", 1, {}))
    assert components.mock.fetch_sessions.end_all.called is (kind is AccessKind.ACL)
    assert components.mock.authorizer.on_acls_changed.called is (kind not in (AccessKind.GROUP, AccessKind.ROUTE))


def test_an_invalid_quota_is_reported_and_the_others_apply(caplog: pytest.LogCaptureFixture) -> None:
    components = Components()
    components.mock.replica_manager.image.access = {
        AccessKind.QUOTA: {
            "a": (1, {"producer_byte_rate": "fast"}),
            "b": (1, {"producer_byte_rate": 5}),
            "c": (2, None),
        }
    }
    components.apply(AccessChanged(AccessKind.QUOTA, "a", 1, {}))
    (entries,) = components.mock.dispatch.quotas.set.call_args.args
    assert list(entries) == [("a", None), ("b", {"producer_byte_rate": 5}), ("c", None)]
    assert "entity=a error=producer_byte_rate: invalid value 'fast', expected a number" in caplog.text


def test_fetchers_retry_after_every_entry_and_learn_of_throttles() -> None:
    components = Components()
    components.apply(TopicReady(UUID(int=1)))
    assert not components.mock.fetcher_manager.throttles_changed.called
    components.mock.throttles.apply.return_value = True
    components.apply(TopicReady(UUID(int=1)))
    components.mock.fetcher_manager.throttles_changed.assert_called_once_with()
    assert components.mock.fetcher_manager.retry_all.call_count == 2


def test_produce_requests_wait_for_the_end_of_the_log_and_stop_when_it_is_not_followed() -> None:
    components = Components()
    components.publisher.caught_up(NOW)
    components.mock.replica_manager.set_produce_suspended.assert_called_once_with(suspended=False)
    assert components.publisher.failed is None
    components.publisher.on_halted("another cluster")
    components.mock.replica_manager.set_produce_suspended.assert_called_with(suspended=True)
    assert components.publisher.failed == "another cluster"
