"""A broker: the only room where its parts meet.

Law: parts are built here, introduced to each other and ended in order; nothing is decided here. Called by `__main__` and tests.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from brokerd.access.authorizer import Authorizer
from brokerd.access.sasl import Authenticator
from brokerd.access.scram import Credential
from brokerd.apis.fetchsessions import Sessions
from brokerd.apis.held import Inquiries
from brokerd.apis.produce import ProduceApi
from brokerd.archives import Archives
from brokerd.cleanstop import close_all
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP, AccessChanged, BrokerConfigChanged, Record, RequestAnswered, TopicDeleted
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    Now,
    TopicState,
)
from brokerd.cluster.store import Store
from brokerd.cluster.znodes import Proposals
from brokerd.config import BrokerConfig
from brokerd.coordinator.consumer_events import Terms
from brokerd.coordinator.groups import Groups
from brokerd.coordinator.markers import Markers
from brokerd.coordinator.settings import terms_of
from brokerd.coordinator.transactions import Transactions
from brokerd.dispatch import Dispatch
from brokerd.dynamic import topic_default
from brokerd.identity import Identity
from brokerd.internal import ImageTopics, Inquiry, InternalLog, coordinator_of
from brokerd.logdirs import LogDirs
from brokerd.net.colleagues import Colleagues
from brokerd.net.fetcher import Fetchers
from brokerd.net.listeners import Listeners
from brokerd.net.loop import READ
from brokerd.net.membership import Membership
from brokerd.outside import Outside
from brokerd.partitions import TICK_MS, Partitions
from brokerd.relocations import Relocations
from brokerd.scrub import LOOK_MS, Scrub
from brokerd.served import handlers
from brokerd.storage.disk import DiskFailed
from brokerd.storage.openfiles import OpenFiles
from brokerd.throttles import Throttles
from brokerd.upkeep import Upkeep
from brokerd.verification import Verification
from brokerd.waiters import Waiters
from brokerd.wire.apis import ApiKey

log = logging.getLogger(__name__)


FLUSH_LOOK_MS = 1_000
"""How often closed segments and topics with flush settings are looked at."""
OPEN_AGAIN_MS = 2_000
"""How often a partition is tried again that a full disk kept closed."""
METADATA_SEEN_MS = 5_000
"""How often `meta.properties` notes how far the metadata log was followed."""
HOLDER_TIMEOUT_MS = 3_000
"""A holder that says nothing for so long is passed over: less than clients wait for their answers."""
MARKERS_VERSION = 2
"""Of WriteTxnMarkers between brokers."""
INTERNAL_DEFAULTS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 * 1024 * 1024),
    "compression.type": "producer",
}


class Broker:
    def __init__(self, config: BrokerConfig, store: Callable[[], Store], outside: Outside | None = None) -> None:
        self.config = config
        outside = outside or Outside()
        self.loop, self.jobs, self.disk = outside.loop, outside.jobs, outside.disk
        # Half of them, so that connections have the other half.
        self.disk.open_files = OpenFiles(min(config["log.open.files.max"], outside.descriptors_max // 2))
        self.log_dirs = LogDirs(config["log.dirs"], self.disk)
        self.identity = Identity(self.log_dirs, config.broker_id, outside)
        self.waiters = Waiters()
        self.stopped = False
        self.stopping = False
        self.failed: str | None = None
        self.exit_status = 0
        # The session ends a whole time-out after its last ping, and the last ping may lie a third of it before the standstill.
        self._gap_ms_max: int = config["zookeeper.session.timeout.ms"] // 2
        self.loop.gap_ms_max, self.loop.stood_still = self._gap_ms_max, self._stood_still
        self.partitions = Partitions(
            config.broker_id, self.log_dirs, self.disk, self.waiters,
            lag_ms_max=config["replica.lag.time.max.ms"],
            late_ms_max=config["replica.lag.time.max.ms"] + config["log.retention.check.interval.ms"],
            topic_config=self._topic_config,
            producer_expiration_ms=config["producer.id.expiration.ms"],
        )  # fmt: skip
        self.dispatch = Dispatch(config)
        self.listeners = Listeners(config, self.dispatch.door, outside)
        self.store = store()
        self.membership = Membership(
            self.store, self.identity, self, lambda: self.loop.now,
            endpoints=self.listeners.endpoints, clear=self.listeners.clear, rack=config["broker.rack"],
            failure_domain=config["failure.domain"],
        )  # fmt: skip
        self.throttles = Throttles(config.broker_id, lambda name: int(config[name]))
        self.fetchers = Fetchers(
            self.loop, config, self.partitions, self._address_of, partial(self.listeners.connect, outside.connect),
            self.throttles,
        )  # fmt: skip
        self.partitions.following = self.fetchers
        # Two, since a marker's answer may wait for replication, and nobody's first batch is to wait for that.
        # The third asks holders of archives; clients wait meanwhile, and there may be another to ask.
        patience: int = config["replica.socket.timeout.ms"]
        self.coordinators, self.leaders, self.holders = (
            Colleagues(
                self.loop, config.broker_id, self.dispatch.own, self._address_of,
                partial(self.listeners.connect, outside.connect),
                timeout_ms=timeout_ms, frame_bytes_max=config["socket.request.max.bytes"],
            )
            for timeout_ms in (patience, patience, min(patience, HOLDER_TIMEOUT_MS))
        )  # fmt: skip
        self.archives = self.partitions.archives = Archives(
            Inquiries(self.partitions, self.holders).ask,
            lambda: self.loop.now,
            lambda b: self.partitions.image.alive(b),
        )
        inquiry = Inquiry(self.partitions, self.coordinators)
        self.verification = verification = Verification(
            inquiry.ask, enabled=config["transaction.partition.verification.enable"]
        )
        self.produce = ProduceApi(self.loop, self.partitions, verification)
        self.topics = ImageTopics(lambda: self.partitions.image)
        self.groups = Groups(
            InternalLog(GROUP_OFFSETS_TOPIC, self.partitions, self.produce, lambda: self.loop.now), lambda: self.loop.now,
            initial_delay_ms=config["group.initial.rebalance.delay.ms"], size_max=config["group.max.size"],
            retention_ms=config["offsets.retention.minutes"] * 60_000,
            metadata_bytes_max=config["offset.metadata.max.bytes"], topics=self.topics, terms=self._terms,
            migration=config["group.consumer.migration.policy"], draw=outside.draw_id,
        )  # fmt: skip
        self.markers = Markers(
            lambda broker_id, body, done: self.leaders.ask(broker_id, ApiKey.WRITE_TXN_MARKERS, MARKERS_VERSION, body, done),
            self._leader_of, lambda: self.loop.now,
        )  # fmt: skip
        self.transactions = Transactions(
            InternalLog(TRANSACTION_STATE_TOPIC, self.partitions, self.produce, lambda: self.loop.now), self.markers, lambda: self.loop.now,
            id_expiration_ms=config["transactional.id.expiration.ms"],
            look_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        )  # fmt: skip
        self.partitions.leadership = self
        self.log_dirs.on_error = self.identity.tail_in_doubt
        self.partitions.copies.tell_lost = self.identity.lost
        self.partitions.on_directory_failed = self._directory_failed
        self.partitions.current = lambda: self.membership.head_read
        self.upkeep = Upkeep(self.partitions, self.jobs, lambda: self.loop.now)
        self.scrub = Scrub(
            self.partitions, self.jobs, lambda: self.loop.now,
            bytes_per_s=lambda: int(config["log.scrub.io.max.bytes.per.second"]),
        )  # fmt: skip
        self.relocations = Relocations(
            self.partitions, self.jobs, lambda: self.loop.now,
            bytes_per_s_max=lambda: int(config["replica.alter.log.dirs.io.max.bytes.per.second"]),
        )  # fmt: skip
        self.draw_producer_id = outside.draw_producer_id
        self.fetch_sessions = Sessions(
            self.waiters, outside.draw_producer_id, slots=config["max.incremental.fetch.session.cache.slots"]
        )
        self.authorizer = self.dispatch.authorizer = Authorizer(config.values, lambda: self.partitions.image)
        self.dispatch.clock = lambda: self.loop.now
        self.dispatch.handlers.update(handlers(self))
        guarded = [d for d in config.doors if d.sasl]
        if guarded:
            mechanisms = frozenset(m for d in guarded for m in config.of(d, "sasl.enabled.mechanisms"))
            self.dispatch.authenticator = Authenticator(
                config.values, mechanisms, self._credential, self.jobs, lambda: self.loop.now, self.loop.call_later
            )
        self.loop.register(self.store.fileno(), READ, lambda events: self.store.pump())
        self.loop.call_later(TICK_MS, self._tick)
        self.loop.every(
            config["replica.high.watermark.checkpoint.interval.ms"], lambda now: self.partitions.copies.checkpoint()
        )
        self.loop.register(self.jobs.fileno(), READ, lambda events: self.jobs.pump())
        self.loop.every(config["log.retention.check.interval.ms"], self.upkeep.retain)
        self.loop.every(config["log.cleaner.backoff.ms"], self.upkeep.compact)
        self.loop.every(FLUSH_LOOK_MS, self.upkeep.flush)
        self.loop.every(LOOK_MS, self.scrub.look)
        self.loop.every(LOOK_MS, lambda now: self.partitions.findings.settle(self.partitions.image, config.broker_id))
        self.loop.every(METADATA_SEEN_MS, lambda now: self._note_metadata())
        self.loop.every(OPEN_AGAIN_MS, self.partitions.open_again)
        self.loop.every(60_000, lambda now: self.listeners.close_idle(config["connections.max.idle.ms"]))
        self.loop.after_turn.append(self._after_turn)

    # -- introductions ---------------------------------------------------------------------------------------------------
    def _topic_config(self, topic: TopicState) -> TopicConfig:
        overrides = {**INTERNAL_DEFAULTS, **topic.configs} if topic.name in INTERNAL_TOPICS else topic.configs
        return TopicConfig.from_overrides(overrides, self.config.defaults_in_force)

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self.partitions.image.brokers.get(broker_id)
        return broker.address(self.listeners.inter_broker.listener) if broker is not None and broker.alive else None

    def _access_changed(self) -> None:
        self.authorizer.changed()
        quotas = self.partitions.image.access.get("quota", {})
        self.dispatch.quotas.set((key, value) for key, (_, value) in quotas.items())
        self.listeners.quotas_changed(self.dispatch.quotas.connection_rates())

    def _follow_settings(self, image: Image) -> bool:
        """What the metadata log says of this broker's settings counts from here on. True when defaults for topics are others now."""
        changed = self.config.follow(image.broker_configs)
        if changed:
            log.info("settings changed: %s", ", ".join(sorted(changed)))
            self.listeners.limits_changed()
            self.verification.enabled = self.config["transaction.partition.verification.enable"]
        return any(topic_default(name) is not None for name in changed)

    def _terms(self, group_id: str) -> Terms:
        return terms_of(self.config.values, self.partitions.image.access_to(GROUP, group_id)[1] or {})

    def _credential(self, mechanism: str, user: str) -> Credential | None:
        _, value = self.partitions.image.access_to("scram", f"{mechanism}:{user}")
        return Credential.from_json(value) if value is not None else None

    def ask_controller(
        self, kind: str, payload: dict[str, Any], timeout_ms: int, done: Callable[[RequestAnswered | None], None]
    ) -> None:
        self.membership.request(kind, payload, timeout_ms, done)

    # -- what membership tells -------------------------------------------------------------------------------------------
    def image_loaded(self, image: Image, now: Now) -> None:
        self._follow_settings(image)
        self.partitions.load(image, now)
        self.topics.renewed()
        self.throttles.load(image, now.mono_ms)
        self._access_changed()
        self.relocations.resume(now)
        log.info("metadata loaded up to entry %d: %d topics, %d partitions here",
                 image.seq, len(image.topics), len(self.partitions.hosted))  # fmt: skip
        # Not before: to a client, a broker that knows nothing yet is a cluster without topics.
        self.listeners.open()

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None:
        defaults_changed = any(isinstance(r, BrokerConfigChanged) for r in records) and self._follow_settings(image)
        self.partitions.apply(image, records, now)
        self.topics.changed(records)
        if defaults_changed:
            self.partitions.reconfigure(now)
        if self.throttles.apply(image, records, now.mono_ms):
            self.fetchers.throttles_changed()
        self.fetchers.kick()
        for record in records:
            if isinstance(record, AccessChanged) and record.kind == GROUP:
                self.groups.terms_changed(record.key)
            elif isinstance(record, AccessChanged):
                self._access_changed()
                if record.kind == "acl" and self.authorizer.enabled:
                    # Who was refused a partition does not name it again in its session, and would never hear that it may read it now.
                    self.fetch_sessions.end_all()
            if isinstance(record, TopicDeleted):
                self.groups.topic_deleted(record.name)

    # -- coordinators ----------------------------------------------------------------------------------------------------
    def leads(self, topic: str, partition: int, epoch: int, now: Now) -> None:
        if topic == GROUP_OFFSETS_TOPIC:
            self.groups.became_leader(partition, epoch, now)
        elif topic == TRANSACTION_STATE_TOPIC:
            self.transactions.became_leader(partition, epoch, now)

    def resigned(self, topic: str, partition: int, now: Now) -> None:
        if topic == GROUP_OFFSETS_TOPIC:
            self.groups.resigned(partition, now)
        elif topic == TRANSACTION_STATE_TOPIC:
            self.transactions.resigned(partition, now)

    def coordinator(self, topic: str, key: str, listener: str) -> tuple[int, str, int] | None:
        image = self.partitions.image
        broker = image.brokers.get(coordinator_of(image, topic, key))
        address = broker.address(listener) if broker is not None and broker.alive else None
        return (broker.broker_id, *address) if broker is not None and address is not None else None

    def _leader_of(self, topic: str, partition: int) -> int | None:
        state = self.partitions.image.topic_named(topic)
        if state is None or partition not in state.partitions:
            return None
        return state.partitions[partition].leader

    def registered(self, incarnation: int, now: Now) -> None:
        self.partitions.registered(incarnation, now)

    def caught_up(self, now: Now) -> None:
        self.partitions.frozen = False

    def session_lost(self, now: Now) -> None:
        pass

    def halted(self, reason: str) -> None:
        self.failed = reason
        log.error("serving nothing new: %s", reason)
        self.partitions.frozen = True

    # -- time ------------------------------------------------------------------------------------------------------------
    def _stood_still(self, gap_ms: int) -> None:
        """For longer than a session: somebody else may lead by now, so the log is asked before the first request that waited is answered."""
        log.warning("stood still for %d ms: no produce until the metadata log was read again", gap_ms)
        self.partitions.frozen = True
        self.membership.tailer.disconnected()
        if self.store.zk_session:
            self.membership.tailer.connected()

    def _tick(self, now: Now) -> None:
        self.waiters.expire(now.mono_ms)
        self.partitions.tick(now)
        self.relocations.tick(now)
        self.membership.tick(now)
        self.groups.tick(now)
        self.transactions.tick(now)
        self.archives.tick(now)
        self.loop.call_later(TICK_MS, self._tick)

    def _after_turn(self) -> None:
        if self.partitions.turn_over(self.loop.now):
            self.loop.call_later(0, lambda now: None)  # a turn at once, after the sockets
        if self.partitions.unflushed:
            self.upkeep.commit(self.loop.now)
        if self.partitions.offline_changed:
            self.partitions.offline_changed = False
            self.membership.tell_offline(self.partitions.offline())
        if self.partitions.findings.changed:
            self.partitions.findings.changed = False
            self.membership.tell_findings(self.partitions.findings.told())
        wishes, seeds, archives = self.partitions.wishes, self.partitions.seeds, self.archives
        if wishes.changed or seeds.changed or archives.changed:
            wishes.changed = seeds.changed = archives.changed = False
            isrs = list(wishes.isrs.values())
            self.membership.propose(Proposals(isrs, seeds.wanted(), archives.wanted(), wishes.resets()))

    def _note_metadata(self) -> None:
        image = self.partitions.image
        if self.failed is None and image.seq:
            self.identity.applied(image.cluster_id, image.seq, image.chain_hash)

    def _directory_failed(self) -> None:
        if not self.log_dirs.online:
            log.critical("no directory of log.dirs is left: giving up, so that others may lead")
            self.exit_status = 1
            self.loop.call_later(0, lambda now: self._give_up())

    def _give_up(self) -> None:
        """Nothing can be written any more: the seat is given back at once."""
        self.listeners.stop_accepting()
        self.listeners.close()
        self.fetchers.close()
        self.coordinators.close()
        self.leaders.close()
        self.holders.close()
        self.membership.close()
        self.stopped = True

    # -- life ------------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        gc.collect()
        gc.freeze()
        threading.Thread(target=self._watchdog, name="watchdog", daemon=True).start()
        while not self.stopped:
            try:
                self.loop.turn()
            except DiskFailed:
                self.identity.tail_in_doubt()  # nobody answered for it: the process ends, but not as if nothing had been
                raise

    def _watchdog(self) -> None:
        """kazoo's thread keeps the session alive even when the loop hangs; a hanging leader must not stay one."""
        while not self.stopped:
            time.sleep(1)
            silent = time.monotonic_ns() // 1_000_000 - self.loop.turned_mono_ms
            if silent > max(30_000, 4 * self._gap_ms_max) and not self.stopping:
                log.critical("the loop has not turned for %d ms: giving up, so that others may lead", silent)
                os._exit(70)

    def stop(self) -> None:
        """Controlled shutdown: leaders move off, logs are closed, the marker is written."""
        if self.stopping:
            return
        self.stopping = True
        log.info("stopping: asking the controller to move leaders off")
        self.membership.shutdown(self.config["controlled.shutdown.timeout.ms"], self._finish)

    def _finish(self) -> None:
        # A moment, so that clients waiting for leaders that have moved hear of it.
        self.loop.call_later(200, lambda now: self._end())

    def _end(self) -> None:
        self.listeners.stop_accepting()
        self.listeners.close()
        self.fetchers.close()
        self.coordinators.close()
        self.leaders.close()
        self.holders.close()
        incarnation = self.membership.incarnation
        self._note_metadata()
        self.loop.unregister(self.jobs.fileno())
        self.jobs.close()
        close_all(self.partitions)
        self.identity.stopped_cleanly(incarnation)
        self.loop.unregister(self.store.fileno())
        self.membership.close()
        self.stopped = True
        log.info("stopped")
