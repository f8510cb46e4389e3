"""A broker: builds its parts, connects them, and starts and stops them in order. Contains no rules of its own."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from functools import partial

from brokerd.apis.fetch_sessions import Sessions
from brokerd.apis.history_reads import HistoryReadClient
from brokerd.apis.produce import ProduceApi
from brokerd.apis.share_observer import ShareObserver
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.authorizer import Authorizer
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import RequestCompleted
from brokerd.cluster.model import Now, TopicState, internal_topic_configs
from brokerd.cluster.requests import AnyPayload
from brokerd.cluster.store import Store
from brokerd.config.broker import BrokerConfig
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.environment import Environment
from brokerd.maintenance import disk_probes
from brokerd.maintenance.clean_shutdown import close_all
from brokerd.maintenance.index_builders import index_builders
from brokerd.maintenance.log_maintenance import LogMaintenance
from brokerd.maintenance.scrub import SCRUB_INTERVAL_MS, Scrub
from brokerd.maintenance.segment_indexing import INDEX_INTERVAL_MS
from brokerd.membership.controller_outbox import ControllerOutbox, OutboxContents
from brokerd.membership.identity import BrokerIdentity
from brokerd.membership.membership import Membership
from brokerd.net import request_metrics
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.net.loop import READ
from brokerd.replication.fetcher_manager import FetcherManager
from brokerd.replication.follower_checks import TICK_MS
from brokerd.replication.history_reads import HistoryReads
from brokerd.replication.leadership_confirmation import LeadershipConfirmation
from brokerd.replication.purgatory import Purgatory, WaitingFetches
from brokerd.replication.relocations import Relocations
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import Throttles
from brokerd.replication.transaction_verification import TransactionVerification
from brokerd.runtime.coordinator_ports import CoordinatorLookup
from brokerd.runtime.coordinators import Coordinators
from brokerd.runtime.front_delivery import FrontDelivery
from brokerd.runtime.handlers import BrokerParts, build_handler_registry
from brokerd.runtime.inter_broker_clients import InterBrokerClients
from brokerd.runtime.listeners import Listeners
from brokerd.runtime.metadata_publisher import MetadataPublisher
from brokerd.runtime.remote_logs import build_remote_logs
from brokerd.runtime.replica_hooks import BrokerReplicaHooks
from brokerd.runtime.route_principals import RoutePrincipals
from brokerd.runtime.routing import Routing
from brokerd.runtime.sasl_authentication import build_authenticator
from brokerd.runtime.watchdog_thread import HANG_MS_MAX, WatchdogThread
from brokerd.server.background_work import BackgroundWork
from brokerd.server.dispatch import Dispatch
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log_dirs import LogDirs
from brokerd.storage.open_files import OpenFiles

log = logging.getLogger(__name__)

FLUSH_INTERVAL_MS = 1_000
"""Interval of flushes of closed segments and of topics with flush settings."""
REOPEN_INTERVAL_MS = 2_000
"""Interval of retries for partitions that were not opened because the disk was full."""
METADATA_POSITION_INTERVAL_MS = 5_000
"""Interval at which the applied metadata position is written to `meta.properties` and the running marks are rewritten."""


class BrokerServer:
    produce: ProduceApi
    membership: Membership

    def __init__(
        self,
        config: BrokerConfig,
        store: Callable[[], Store],
        environment: Environment | None = None,
        share_observer: ShareObserver | None = None,
        delivery_limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        self.config = config
        environment = environment or Environment()
        self.loop, self.jobs = environment.loop, environment.jobs
        self.disk, self.read_ahead = environment.disk, environment.read_ahead
        self.decompression_jobs = environment.decompression_jobs
        self.stopped = self.stopping = self._marking = False
        self.exit_status = 0
        # Each method builds parts that use the parts of the methods before it.
        self._build_replica_manager(environment)
        self._build_network(environment)
        self._build_remote_reads(environment)
        self._build_coordinators(environment, share_observer, delivery_limits)
        self._build_maintenance()
        self._build_membership(store(), environment)
        self.dispatch.serve(build_handler_registry(self._handler_parts(environment)))
        self.identity.write_in_background()
        self._register_with_loop()

    def _build_replica_manager(self, environment: Environment) -> None:
        config, setting = self.config, self.config.current_int
        # Log files get half of the file descriptors, and connections get the other half.
        self.disk.limit_open_files(OpenFiles(min(config["log.open.files.max"], environment.descriptors_max // 2)))
        self.log_dirs = LogDirs(config["log.dirs"], self.disk)
        self.identity = BrokerIdentity(self.log_dirs, config.broker_id, environment)
        self.disk_probes = disk_probes.DiskProbes(self.log_dirs, environment, self.jobs, config.__getitem__)
        self.purgatory = Purgatory(self.loop.scheduler)
        per_principal, per_ip = setting("max.waiting.fetches.per.principal"), setting("max.waiting.fetches.per.ip")
        self.waiting_fetches = WaitingFetches(per_principal, per_ip)
        # The ZooKeeper session expires one time-out after the last ping. The last ping may be up to a third of the time-out before the stall.
        gap_ms_max: int = config["zookeeper.session.timeout.ms"] // 2
        self.loop.watch_gaps(gap_ms_max, self._on_stall)
        self._watchdog = WatchdogThread(self.loop, self, max(HANG_MS_MAX, 4 * gap_ms_max))
        self.controller_outbox = ControllerOutbox()
        self.replica_manager = ReplicaManager(
            config.broker_id,
            self.log_dirs,
            self.disk,
            self.purgatory,
            self.controller_outbox,
            self.jobs,
            BrokerReplicaHooks(self),
            lag_ms_max=config["replica.lag.time.max.ms"],
            late_ms_max=config["replica.lag.time.max.ms"] + config["log.retention.check.interval.ms"],
            topic_config=self._topic_config,
            producer_expiration_ms=config["producer.id.expiration.ms"],
        )

    def _build_network(self, environment: Environment) -> None:
        """Listeners, the dispatch of requests, and the connections to other brokers."""
        config = self.config

        def image() -> Image:
            return self.replica_manager.image

        self.authorizer = Authorizer(config.values, image)
        self.auth = AuthHelper(self.authorizer)
        authenticator = build_authenticator(config, image, self.loop, self.jobs, lambda: self.membership.tailer.current)
        self.dispatch = Dispatch(config, lambda: self.loop.now, self.authorizer, authenticator)
        self.listeners = Listeners(config, self.dispatch.frame_handler, environment, self.dispatch.rejections)
        self.throttles = Throttles(config.broker_id, config.__getitem__, environment.thread_times)
        self._connect = partial(self.listeners.connect, environment.connect)
        self.fetcher_manager = FetcherManager(
            self.loop,
            config,
            self.replica_manager,
            self._address_of,
            self._connect,
            self.throttles,
            lambda: self.produce.times.total,
        )
        self.clients = InterBrokerClients(self._build_client, config["replica.socket.timeout.ms"])

    def _build_client(self, timeout_ms: int) -> InterBrokerClient:
        return InterBrokerClient(
            self.loop,
            self.config.broker_id,
            self.dispatch.handle_loopback,
            self._address_of,
            self._connect,
            timeout_ms=timeout_ms,
            frame_bytes_max=self.config["socket.request.max.bytes"],
        )

    def _build_remote_reads(self, environment: Environment) -> None:
        """Tiered storage and history replicas: reads of records that the leader does not have in its local log."""
        self.remote_logs = build_remote_logs(
            self.config, environment, self.replica_manager, self.clients, self._send_to_controller
        )
        self.history_reads = HistoryReads(
            HistoryReadClient(self.replica_manager, self.clients.history).read,
            lambda: self.loop.now,
            lambda broker_id: self.replica_manager.image.alive(broker_id),
            self.controller_outbox,
            self.remote_logs.reads if self.remote_logs.enabled else None,
        )
        self._outbox_contents = OutboxContents(
            isr_proposals=lambda: list(self.replica_manager.controller_proposals.isrs.values()),
            replica_resets=self.replica_manager.controller_proposals.resets,
            bootstrap_offsets=self.replica_manager.bootstrap.proposals,
            history_starts=self.history_reads.proposals,
            damage_reports=self.replica_manager.damage_reports.reports,
            offline_replicas=self.replica_manager.offline,
            log_ends=self.replica_manager.voting.log_ends,
        )

    def _build_coordinators(
        self, environment: Environment, share_observer: ShareObserver | None, delivery_limits: DeliveryLimits
    ) -> None:
        """Produce, the coordinators, and the parts that send records to other topics."""
        config = self.config
        coordinator_lookup = CoordinatorLookup(self.replica_manager, self.clients.coordinator)
        self.transaction_verification = TransactionVerification(
            coordinator_lookup.verify, enabled=lambda: config["transaction.partition.verification.enable"]
        )
        self.background_work = BackgroundWork(self.loop.scheduler, self.decompression_jobs)
        self.produce = ProduceApi(
            self.loop, self.replica_manager, self.transaction_verification, self.background_work, self.auth
        )
        self.coordinators = Coordinators(
            config,
            self.replica_manager,
            self.produce,
            lambda: self.loop.now,
            self.read_ahead,
            self.clients.leader,
            self.clients.share,
            self.loop.call_later,
            environment.draw_id,
            lambda target, batch, query, done: self.routing.send(target, batch, query, done),
            share_observer=share_observer,
        )
        self.front_delivery = FrontDelivery(
            self.replica_manager,
            self.produce,
            self.loop,
            self.read_ahead,
            self.clients.delivery,
            environment.draw_producer_id,
            environment.thread_times,
            delivery_limits,
        )
        principals = RoutePrincipals(self.authorizer, self.dispatch.quotas)
        self.routing: Routing = Routing(
            self.front_delivery, self.loop, self.clients.route, self.clients.coordinator, principals
        )

    def _build_maintenance(self) -> None:
        def clock() -> Now:
            return self.loop.now

        replica_manager, jobs, setting = self.replica_manager, self.jobs, self.config.current_int
        self.log_maintenance = LogMaintenance(replica_manager, jobs, clock, self.read_ahead)
        scrub_rate, index_rate = (
            setting("log.scrub.io.max.bytes.per.second"),
            setting("weir.index.io.max.bytes.per.second"),
        )
        self.scrub = Scrub(replica_manager, jobs, clock, bytes_per_s=scrub_rate)
        self.build_indexes = index_builders(replica_manager, jobs, clock, bytes_per_s=index_rate)
        move_rate = setting("replica.alter.log.dirs.io.max.bytes.per.second")
        self.relocations = Relocations(replica_manager, jobs, clock, bytes_per_s_max=move_rate)

    def _build_membership(self, store: Store, environment: Environment) -> None:
        """The registration in ZooKeeper and the metadata log, whose entries the publisher applies to the other parts."""
        slots = self.config["max.incremental.fetch.session.cache.slots"]
        self.fetch_sessions = Sessions(self.purgatory, environment.draw_producer_id, slots=slots)
        self.metadata_publisher = MetadataPublisher(
            self.config,
            replica_manager=self.replica_manager,
            coordinators=self.coordinators,
            routing=self.routing,
            throttles=self.throttles,
            fetcher_manager=self.fetcher_manager,
            relocations=self.relocations,
            fetch_sessions=self.fetch_sessions,
            authorizer=self.authorizer,
            dispatch=self.dispatch,
            listeners=self.listeners,
        )
        self.store = store
        self.membership = Membership(
            self.store,
            self.identity,
            self.metadata_publisher,
            lambda: self.loop.now,
            endpoints=self.listeners.endpoints,
            clear=self.listeners.plaintext_endpoint,
            rack=self.config["broker.rack"],
            failure_domain=self.config["failure.domain"],
        )
        self.leadership_confirmation = LeadershipConfirmation(self.loop, self.membership.tailer.confirm)

    def _handler_parts(self, environment: Environment) -> BrokerParts:
        return BrokerParts(
            config=self.config,
            loop=self.loop,
            replica_manager=self.replica_manager,
            fetch_sessions=self.fetch_sessions,
            throttles=self.throttles,
            background_work=self.background_work,
            waiting_fetches=self.waiting_fetches,
            history_reads=self.history_reads,
            remote_logs=self.remote_logs,
            read_ahead=self.read_ahead,
            listeners=self.listeners,
            dispatch=self.dispatch,
            relocations=self.relocations,
            produce=self.produce,
            delayed_fronts=self.front_delivery.delayed_fronts,
            coordinators=self.coordinators,
            authorizer=self.authorizer,
            auth=self.auth,
            send_to_controller=self.membership.request,
            draw_producer_id=environment.draw_producer_id,
            unclean_start=self.identity.unclean_start,
        )

    def _register_with_loop(self) -> None:
        config, replica_manager = self.config, self.replica_manager
        self.loop.register(self.store.fileno(), READ, lambda events: self.store.pump())
        self.loop.call_later(TICK_MS, self._tick)
        checkpoint_later = replica_manager.replica_opening.checkpoint_later
        self.loop.every(config["replica.high.watermark.checkpoint.interval.ms"], lambda now: checkpoint_later())
        self.loop.register(self.jobs.fileno(), READ, lambda events: self.jobs.pump())
        self.loop.register(self.decompression_jobs.fileno(), READ, lambda events: self.decompression_jobs.pump())
        self.loop.every(config["log.retention.check.interval.ms"], self.log_maintenance.retain)
        self.loop.every(config["log.cleaner.backoff.ms"], self.log_maintenance.compact)
        self.loop.every(FLUSH_INTERVAL_MS, self.log_maintenance.flush)
        self.loop.every(SCRUB_INTERVAL_MS, self.scrub.tick)
        self.loop.every(INDEX_INTERVAL_MS, self.build_indexes)
        self.loop.every(
            SCRUB_INTERVAL_MS,
            lambda now: replica_manager.damage_reports.remove_repaired(replica_manager.image, config.broker_id),
        )
        self.loop.every(METADATA_POSITION_INTERVAL_MS, lambda now: self._update_directories())
        self.loop.every(disk_probes.TICK_MS, self.disk_probes.tick)
        self.loop.every(request_metrics.WINDOW_MS, lambda now: self.dispatch.metrics.rotate())
        self.loop.every(REOPEN_INTERVAL_MS, replica_manager.retry_opening)
        self.loop.every(60_000, lambda now: self.listeners.close_idle(config["connections.max.idle.ms"]))
        self.loop.after_iteration.append(self._after_iteration)

    def _send_to_controller(
        self, payload: AnyPayload, timeout_ms: int, done: Callable[[RequestCompleted | None], None]
    ) -> None:
        self.membership.request(payload, timeout_ms, done)

    # -- callbacks of the parts ------------------------------------------------------------------------------------------
    def _topic_config(self, topic: TopicState) -> TopicConfig:
        overrides = {**internal_topic_configs(topic.name), **topic.configs}
        return TopicConfig.from_overrides(overrides, self.config.defaults_in_force)

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        broker = self.replica_manager.image.brokers.get(broker_id)
        return broker.address(self.listeners.inter_broker.listener) if broker is not None and broker.alive else None

    # -- time ------------------------------------------------------------------------------------------------------------
    def _on_stall(self, gap_ms: int) -> None:
        """Suspend produce until the metadata log is read again. After a stall of half the session time-out another broker may be the leader."""
        log.warning("event loop stalled: gap_ms=%d produce=suspended", gap_ms)
        self.replica_manager.set_produce_suspended(suspended=True)
        self.membership.tailer.on_disconnected()
        if self.store.zk_session:
            self.membership.tailer.on_connected()

    def _tick(self, now: Now) -> None:
        self.purgatory.expire(now.mono_ms)
        self.replica_manager.tick(now)
        self.relocations.tick(now)
        self.membership.tick(now)
        self.coordinators.tick(now)
        self.front_delivery.tick(now)
        self.routing.tick(now)
        self.history_reads.tick(now)
        self.remote_logs.tick(now)
        self.loop.call_later(TICK_MS, self._tick)

    def _after_iteration(self) -> None:
        if self.replica_manager.open_pending(self.loop.now, self.loop.scheduler.clock):
            self.loop.call_later(0, lambda now: None)  # start the next iteration without waiting for sockets
        if self.replica_manager.unflushed:
            self.log_maintenance.commit(self.loop.now)
        if self.replica_manager.unflushed_starts:
            self.log_maintenance.commit_starts()
        self.controller_outbox.send(self._outbox_contents, self.membership)

    def _store_metadata_position(self) -> None:
        image = self.replica_manager.image
        if self.metadata_publisher.failed is None and image.seq:
            self.identity.store_last_entry(image.cluster_id, image.seq, image.chain_hash)

    def _update_directories(self) -> None:
        self._store_metadata_position()
        self._mark_running()

    def _mark_running(self) -> None:
        def done(error: BaseException | None) -> None:
            self._marking = False
            if error is not None:
                log.error("running mark not written: error=%s", error)
                if isinstance(error, DiskFailed):
                    self.identity.tail_in_doubt()

        if self.identity.may_mark and not self._marking:
            self._marking = True
            self.jobs.submit(self.identity.mark_running, done)

    def log_directory_failed(self) -> None:
        """Called when the replicas of a failed directory are offline."""
        if not self.log_dirs.online:
            log.critical("all log directories failed: broker shuts down")
            self.exit_status = 1
            self.loop.call_later(0, lambda now: self._abort())

    def _abort(self) -> None:
        """End the ZooKeeper session immediately because no log directory is writable. Other brokers can then become leaders."""
        self._close_connections()
        self.membership.close()
        self.stopped = True

    def _close_connections(self) -> None:
        self.listeners.stop_accepting()
        self.listeners.close()
        self.fetcher_manager.close()
        self.clients.close()
        self.remote_logs.close()

    # -- lifecycle -------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        gc.collect()
        gc.freeze()
        self._watchdog.start()
        self.loop.begin()
        while not self.stopped:
            try:
                self.loop.run_iteration()
            except DiskFailed:
                self.identity.tail_in_doubt()  # a flush failed without a handler: the next start must not trust the tail of the logs
                raise

    def stop(self) -> None:
        """Controlled shutdown: move leadership away, close the logs, write the clean shutdown marker."""
        if self.stopping:
            return
        self.stopping = True
        log.info("controlled shutdown: requesting leadership moves")
        self.membership.shutdown(self.config["controlled.shutdown.timeout.ms"], self._finish)

    def _finish(self) -> None:
        # Wait for a short time, so that clients with a parked request receive the new leaders.
        self.loop.call_later(200, lambda now: self._close())

    def _close(self) -> None:
        self._close_connections()
        broker_epoch = self.membership.broker_epoch
        self._store_metadata_position()
        for jobs in (self.jobs, self.decompression_jobs):
            self.loop.unregister(jobs.fileno())
            jobs.close()
        self.identity.write_here()
        close_all(self.replica_manager)
        self.identity.stopped_cleanly(broker_epoch)
        self.loop.unregister(self.store.fileno())
        self.membership.close()
        self.stopped = True
        log.info("broker stopped")
