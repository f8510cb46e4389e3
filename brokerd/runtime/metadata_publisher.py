"""Applies the metadata log to the components of a broker, in their order (Kafka's BrokerMetadataPublisher).

Invariants: the listeners open only after the first image was applied. Otherwise clients would see a cluster without topics. After `halted` the broker
accepts no produce requests. Does not contain: the effect of a record on a component.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from brokerd.apis.fetch_sessions import Sessions
from brokerd.authz.authorizer import Authorizer
from brokerd.cluster.access_values import AccessValue, InvalidAccessValue, limits_of
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP, AccessChanged, AccessKind, BrokerConfigChanged, MetadataRecord
from brokerd.cluster.model import Now
from brokerd.config.broker import BrokerConfig
from brokerd.config.dynamic import topic_default
from brokerd.replication.fetcher_manager import FetcherManager
from brokerd.replication.relocations import Relocations
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import Throttles
from brokerd.runtime.coordinators import Coordinators
from brokerd.runtime.listeners import Listeners
from brokerd.runtime.routing import Routing
from brokerd.server.dispatch import Dispatch

log = logging.getLogger(__name__)


class MetadataPublisher:
    """The `MembershipListener` of a broker."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        replica_manager: ReplicaManager,
        coordinators: Coordinators,
        routing: Routing,
        throttles: Throttles,
        fetcher_manager: FetcherManager,
        relocations: Relocations,
        fetch_sessions: Sessions,
        authorizer: Authorizer,
        dispatch: Dispatch,
        listeners: Listeners,
    ) -> None:
        self._config, self._replica_manager, self._coordinators = config, replica_manager, coordinators
        self._routing = routing
        self._throttles, self._fetcher_manager, self._relocations = throttles, fetcher_manager, relocations
        self._fetch_sessions, self._authorizer = fetch_sessions, authorizer
        self._dispatch, self._listeners = dispatch, listeners
        self.failed: str | None = None
        """The reason why this broker no longer reads the metadata log."""

    def image_loaded(self, image: Image, now: Now) -> None:
        self._update_config(image)
        self._replica_manager.load(image, now)
        self._coordinators.image_loaded()
        self._routing.image_loaded()
        self._throttles.load(image, now.mono_ms)
        self._access_changed()
        self._relocations.resume(now)
        log.info(
            "metadata loaded: entry=%d topics=%d local_replicas=%d",
            image.seq,
            len(image.topics),
            len(self._replica_manager.hosted),
        )
        self._listeners.open()

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        defaults_changed = any(isinstance(r, BrokerConfigChanged) for r in records) and self._update_config(image)
        self._replica_manager.apply(image, records, now)
        if defaults_changed:
            self._replica_manager.reconfigure(now)
        if self._throttles.apply(image, records, now.mono_ms):
            self._fetcher_manager.throttles_changed()
        self._fetcher_manager.retry_all()
        self._coordinators.entry_applied(records)
        self._routing.entry_applied(records)
        for record in records:
            if isinstance(record, AccessChanged) and record.kind not in (GROUP, AccessKind.ROUTE):
                self._access_changed()
                if record.kind == AccessKind.ACL and self._authorizer.enabled:
                    # A fetch session does not repeat an unauthorized partition, so the client would not notice that the partition is authorized now.
                    self._fetch_sessions.end_all()

    def on_registered(self, broker_epoch: int, now: Now) -> None:
        self._replica_manager.on_registered(broker_epoch, now)

    def caught_up(self, now: Now) -> None:
        self._replica_manager.set_produce_suspended(suspended=False)

    def on_halted(self, reason: str) -> None:
        self.failed = reason
        log.error("produce suspended: reason=%s", reason)
        self._replica_manager.set_produce_suspended(suspended=True)

    def _update_config(self, image: Image) -> bool:
        """Apply the dynamic settings of this broker from the metadata log. Returns whether defaults of topics have changed."""
        changed = self._config.follow(image.broker_configs)
        if changed:
            log.info("dynamic settings changed: names=%s", ", ".join(sorted(changed)))
            self._listeners.limits_changed()
        return any(topic_default(name) is not None for name in changed)

    def _access_changed(self) -> None:
        self._authorizer.on_acls_changed()
        quotas = self._replica_manager.image.access.get(AccessKind.QUOTA, {})
        self._dispatch.quotas.set((key, _limits(key, value)) for key, (_, value) in quotas.items())
        self._listeners.quotas_changed(self._dispatch.quotas.connection_rates())


def _limits(key: str, value: AccessValue | None) -> dict[str, float] | None:
    try:
        return limits_of(value) if value is not None else None
    except InvalidAccessValue as e:
        log.error("invalid quota ignored: entity=%s error=%s", key, e)
        return None
