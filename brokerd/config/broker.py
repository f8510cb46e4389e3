"""The broker's settings, under Kafka's names, from a `.properties` file.

Every limit has a name, a unit, a default and a reason. An unknown name or an invalid value is rejected at start-up with a message.
Does not contain topic settings (`cluster/configs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokerd.cluster.cordons import ALL_DIRECTORIES, CORDONED, LEADERSHIP, SET_ASIDE
from brokerd.config import groups as group_settings
from brokerd.config import remote
from brokerd.config.dynamic import CLUSTER_WIDE, Live
from brokerd.config.groups import GROUP_SETTINGS
from brokerd.config.listeners import (
    ListenerConfig,
    inter_broker_listener,
    listener_configs,
    parse_listeners,
    parse_protocol_map,
)
from brokerd.config.remote import REMOTE_SETTINGS
from brokerd.config.security import ACCESS_SETTINGS, MECHANISMS, SASL_SETTINGS, SSL_SETTINGS
from brokerd.config.share_groups import SHARE_SETTINGS, check_share
from brokerd.config.streams_groups import STREAMS_SETTINGS, check_streams
from brokerd.config.types import Setting, one_of, parse_bool, properties, split_items
from brokerd.config.zookeeper_client import ZOOKEEPER_SETTINGS

MIB = 1024 * 1024


class ConfigError(Exception):
    """An invalid setting. The message names the setting, the cause and the remedy."""


def _paths(text: str) -> tuple[Path, ...]:
    paths = tuple(Path(p.strip()) for p in text.split(",") if p.strip())
    if not paths:
        raise ValueError("at least one directory is required")
    if len(set(paths)) != len(paths):
        raise ValueError("duplicate directory")
    return paths


def _address(text: str) -> str:
    """A host and a port, as text. Of an IPv6 address the host is in brackets."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("not host:port")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("an IPv6 address needs brackets: [::1]:9404")
    return text.strip()


def _per_address(text: str) -> dict[str, int]:
    out = {}
    for item in split_items(text):
        address, _, most = item.rpartition(":")
        out[address] = int(most)
    return out


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Kafka's name of the only replica selector that is supported."""


def _percent(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise ValueError("expected 1 to 100")
    return value


def _selector(text: str) -> str:
    if text.strip() not in ("", RACK_AWARE):
        raise ValueError(f"expected {RACK_AWARE} or an empty value; custom selector classes are not supported")
    return text.strip()


SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", int, None, "Id of this broker, unique in the cluster.", 0),
    Setting("listeners", parse_listeners, (("PLAINTEXT", "127.0.0.1", 9092),), "Listeners: NAME://host:port, separated by commas."),
    Setting("advertised.listeners", parse_listeners, None, "Listeners that the broker advertises to clients: NAME://host:port. Prefer an IPv4 address to a host name. Default: listeners."),
    Setting("listener.security.protocol.map", parse_protocol_map, {}, "Security protocol of each listener: NAME:PROTOCOL, separated by commas. Needed where the name of a listener is not a protocol."),
    Setting("inter.broker.listener.name", str, None, "Listener for traffic between brokers. Default: the PLAINTEXT listener, or the only listener."),
    Setting("log.dirs", _paths, None, "Directories for partition logs, separated by commas: one per disk."),
    Setting("zookeeper.connect", str, "127.0.0.1:2181", "ZooKeeper servers: host:port, separated by commas, with an optional chroot."),
    Setting("zookeeper.session.timeout.ms", int, 18_000, "ZooKeeper session time-out. A broker whose session expires is considered dead.", 400),
    Setting("broker.rack", str, None, "Rack (availability zone) of this broker, for replica placement and fetches from the closest replica."),
    Setting("replica.selector.class", _selector, "", "Replica selector for consumer fetches (KIP-392): org.apache.kafka.common.replica.RackAwareReplicaSelector, or empty: consumers fetch from the leader."),
    Setting("failure.domain", str, None, "Failure domain of this broker, usually the host. Replicas of one partition are placed in different failure domains."),
    Setting(CORDONED, one_of(ALL_DIRECTORIES, ""), "", "`*`: the broker is cordoned, no new replicas are placed on it. Empty: not cordoned.", live=True),
    Setting(LEADERSHIP, parse_bool, True, "false: the broker is demoted. It leads a partition only if no other in-sync replica can.", live=True),
    Setting("num.partitions", int, 1, "Number of partitions of an automatically created topic.", 1, live=True),
    Setting("default.replication.factor", int, 1, "Replication factor of an automatically created topic.", 1, live=True),
    Setting("auto.create.topics.enable", parse_bool, True, "Create a topic automatically when a client requests metadata of an unknown topic.", live=True),
    Setting("socket.request.max.bytes", int, 100 * MIB, "Maximum size of a request. A larger request closes the connection.", 1024),
    Setting("socket.send.buffer.bytes", int, -1, "SO_SNDBUF of accepted connections. -1: the kernel adapts the buffer to the connection, except for consumers that read at the same time: they have 240000.", -1),
    Setting("socket.receive.buffer.bytes", int, -1, "SO_RCVBUF of accepted connections. -1: the kernel adapts the buffer to the connection.", -1),
    Setting("max.connections", int, 10_000, "Maximum number of connections. Limits file descriptors and buffer memory.", 1, live=True),
    Setting("max.connections.per.ip", int, 2**31 - 1, "Maximum number of connections per client IP address.", 0, live=True),
    Setting("max.connections.per.ip.overrides", _per_address, {}, "Maximum number of connections of single IP addresses: 10.0.0.1:100, separated by commas.", live=True),
    Setting("max.connection.creation.rate", int, 2**31 - 1, "Maximum number of new connections per second. Further connections wait in the listen queue of the kernel.", 1, live=True),
    Setting("max.waiting.fetches.per.principal", int, 4_000, "Maximum number of waiting fetches per principal, at most one per connection. A fetch above this limit waits for its whole maximum wait time and is not completed early by new records. Limits the work per append.", 1, live=True),
    Setting("max.waiting.fetches.per.ip", int, 4_000, "Maximum number of waiting fetches per client IP address. See max.waiting.fetches.per.principal.", 1, live=True),
    Setting("connections.max.idle.ms", int, 600_000, "An idle connection is closed after this time.", 1, live=True),
    Setting("replica.lag.time.max.ms", int, 10_000, "A follower that has not caught up with its leader for this time is removed from the ISR.", 100),
    Setting("replica.fetch.wait.max.ms", int, 500, "Maximum time that a follower fetch waits at the leader for new records.", 1, live=True),
    Setting("replica.fetch.max.bytes", int, 1 * MIB, "Maximum number of bytes per partition in a follower fetch.", 1024, live=True),
    Setting("replica.fetch.response.max.bytes", int, 10 * MIB, "Maximum number of bytes in the response to a follower fetch.", 1024),
    Setting("replica.fetch.backoff.ms", int, 200, "Delay before a failed follower fetch is retried.", 1),
    Setting("replica.socket.timeout.ms", int, 10_000, "Time-out of a follower fetch request.", 100),
    Setting("leader.replication.throttled.rate", int, 2**63 - 1, "Maximum replication rate from this broker in bytes per second. Applies to throttled replicas (leader.replication.throttled.replicas) that are not in the ISR.", 1, live=True),
    Setting("follower.replication.throttled.rate", int, 2**63 - 1, "Maximum replication rate to this broker in bytes per second. Applies to throttled replicas (follower.replication.throttled.replicas) that are not in the ISR.", 1, live=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", int, 2**63 - 1, "Maximum rate at which replicas are moved between the log directories of this broker.", 1, live=True),
    Setting("replica.high.watermark.checkpoint.interval.ms", int, 5_000, "Interval at which high watermarks are written to the checkpoint file.", 100),
    Setting("log.retention.check.interval.ms", int, 300_000, "Interval at which segments are checked for deletion by retention.", 100),
    Setting("log.open.files.max", int, 10_000, "Maximum number of open segment files. The effective limit is at most half of the file descriptor limit of the process.", 16),
    Setting("log.cleaner.backoff.ms", int, 15_000, "Interval at which the log cleaner checks compacted logs.", 100),
    Setting("log.scrub.io.max.bytes.per.second", int, MIB, "Rate at which closed segments are read again to detect damage. 0: disabled.", 0, live=True),
    Setting("weir.index.io.max.bytes.per.second", int, 16 * MIB, "Rate at which closed segments are read to build the key indexes of topics with weir.index.keys. Delay indexes of front topics are built at the same rate. 0: no index is built.", 0, live=True),
    Setting("weir.log.dir.probe.interval.ms", int, 5_000, "Interval at which each log directory is probed: a small file is written and flushed. 0: no probes.", 0, live=True),
    Setting("weir.log.dir.slow.ms", int, 1_000, "A log directory is reported as slow after three consecutive probes that took this time.", 1, live=True),
    Setting("weir.log.dir.hung.ms", int, 60_000, "A log directory goes offline when a probe has not returned for this time, and its leaders move to other brokers. It is online again after a restart of the broker.", 1_000, live=True),
    Setting("weir.catch.up.min.percent", _percent, 20, "Minimum percentage of time in which replicas that are not in the ISR fetch while producers need the CPU of the leader or of this broker. 100: they never pause. Partitions with fewer in-sync replicas than min.insync.replicas never pause.", live=True),
    Setting("weir.metrics.listener", _address, None, "Address of the metrics endpoint for Prometheus: host:port, for example 127.0.0.1:9404. Plain HTTP without authentication, so use a loopback or an internal address. Default: no endpoint."),
    Setting("fetch.max.bytes", int, 55 * MIB, "Maximum number of bytes in the response to a consumer fetch.", 1024),
    Setting("max.incremental.fetch.session.cache.slots", int, 1_000, "Maximum number of incremental fetch sessions (KIP-227). 0: no fetch sessions.", 0),
    Setting("controlled.shutdown.timeout.ms", int, 15_000, "Maximum time that a controlled shutdown waits until leadership has moved to other brokers.", 0),
    Setting("offsets.retention.minutes", int, 10_080, "Committed offsets are deleted this long after the group became empty.", 1),
    Setting("offset.metadata.max.bytes", int, 4_096, "Maximum size of the metadata string of a committed offset.", 0),
    Setting("transaction.max.timeout.ms", int, 900_000, "Maximum transaction time-out that a producer may request.", 1),
    Setting("transaction.version", int, 0, "Level of the feature transaction.version until a level is finalised for the cluster (kafka-features). 2: a new producer epoch for each transaction (KIP-890).", 0),
    Setting("transactional.id.expiration.ms", int, 604_800_000, "A transactional id expires after this time without use.", 1),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", int, 10_000, "Interval at which timed-out transactions are aborted.", 1),
    Setting("transaction.partition.verification.enable", parse_bool, True, "Verify with the transaction coordinator that a transaction is ongoing before its first batch is appended to a partition. Without verification, a late batch can leave a hanging transaction that blocks read_committed consumers.", live=True),
    Setting("producer.id.expiration.ms", int, 86_400_000, "Idempotent producer state expires after this time without a batch.", 1),
    *REMOTE_SETTINGS,
    *GROUP_SETTINGS,
    *SHARE_SETTINGS,
    *STREAMS_SETTINGS,
    *ZOOKEEPER_SETTINGS,
    *SSL_SETTINGS,
    *SASL_SETTINGS,
    *ACCESS_SETTINGS,
)  # fmt: skip

BY_NAME = {s.name: s for s in SETTINGS}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Parsed settings. `config["broker.id"]` returns the effective value. `topic_defaults` are defaults for topics (`log.*`), as text."""

    values: Mapping[str, Any]
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    listeners: tuple[ListenerConfig, ...] = ()
    inter_broker: ListenerConfig | None = None
    per_listener: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    """Settings of single listeners: {(listener name, setting name): value}."""
    file_settings: Mapping[str, str] = field(default_factory=dict)
    """The settings file: {name: text}."""
    live: Live = field(default_factory=Live)
    """Dynamic settings from the metadata log. They override the file."""

    def __getitem__(self, name: str) -> Any:
        return self.live.values[name] if name in self.live.values else self.values[name]

    def current_int(self, name: str) -> Callable[[], int]:
        """A function that returns the value in force, which may change while the broker runs."""
        return lambda: int(self[name])

    @property
    def defaults_in_force(self) -> Mapping[str, str]:
        """`topic_defaults` of the file, overridden by those of the metadata log."""
        return {**self.topic_defaults, **self.live.topic_defaults} if self.live.topic_defaults else self.topic_defaults

    def follow(self, broker_configs: Mapping[int, tuple[int, Mapping[str, str]]]) -> set[str]:
        """Apply the dynamic settings of a metadata image. Returns the names of the settings whose value changed."""
        nothing: tuple[int, Mapping[str, str]] = (0, {})
        (_, cluster), (_, own) = (broker_configs.get(i, nothing) for i in (CLUSTER_WIDE, self.broker_id))
        if cluster == self.live.cluster and own == self.live.of_broker:
            return set()
        return self.live.follow(BY_NAME, cluster, own, self.broker_id)

    def for_listener(self, listener: ListenerConfig, name: str) -> Any:
        """The effective value of a setting for one listener."""
        own = self.per_listener.get((listener.name, name))
        return self[name] if own is None else own

    @property
    def broker_id(self) -> int:
        return int(self.values["broker.id"])

    @staticmethod
    def load(path: Path, known_topic_default: Callable[[str], bool] = lambda name: False) -> BrokerConfig:
        """Read a `.properties` file. Raises ConfigError with file, line and remedy."""
        try:
            given = properties(path)
        except ValueError as e:
            raise ConfigError(str(e)) from e
        return BrokerConfig.parse(given, known_topic_default, where=str(path))

    @staticmethod
    def parse(
        texts: Mapping[str, str],
        known_topic_default: Callable[[str], bool] = lambda name: False,
        where: str = "settings",
    ) -> BrokerConfig:
        values: dict[str, object] = {s.name: s.default for s in SETTINGS}
        topic_defaults: dict[str, str] = {}
        per_listener: dict[tuple[str, str], object] = {}
        for name, text in texts.items():
            setting = BY_NAME.get(name)
            if setting is None and (own := _listener_setting(name)) is not None:
                listener, setting = own
                per_listener[listener, setting.name] = _parse(setting, name, text, where)
                continue
            if setting is None:
                if not known_topic_default(name):
                    raise ConfigError(f"{where}: unknown setting {name!r}; see brokerd/config/broker.py for the list")
                topic_defaults[name] = text
                continue
            if name in SET_ASIDE:
                raise ConfigError(
                    f"{where}: {name} cannot be set in a file: the controller applies it and does not read broker files. "
                    "Set it with kafka-configs or in the console"
                )
            values[name] = _parse(setting, name, text, where)
        for name in ("broker.id", "log.dirs"):
            if values[name] is None:
                raise ConfigError(f"{where}: missing setting {name}. {BY_NAME[name].doc}")
        try:
            group_settings.check(values)
            remote.check(values)
            check_share(values)
            check_streams(values)
            listeners = listener_configs(values)
            inter_broker = inter_broker_listener(values, listeners)
            unknown = {name for name, _ in per_listener} - {listener.name for listener in listeners}
            if unknown:
                raise ValueError(f"listener.name.{min(unknown).lower()}: unknown listener")
            return BrokerConfig(values, topic_defaults, listeners, inter_broker, per_listener, dict(texts))
        except ValueError as e:
            raise ConfigError(f"{where}: {e}") from e


def _listener_setting(name: str) -> tuple[str, Setting] | None:
    """`listener.name.<listener>.<setting>` -> (listener name, setting). None for any other name."""
    if not name.startswith("listener.name."):
        return None
    rest = name.removeprefix("listener.name.")
    for setting in SETTINGS:
        if setting.per_listener and rest.endswith("." + setting.name):
            listener = rest.removesuffix("." + setting.name).upper()
            for mechanism in MECHANISMS:  # Kafka's longer form also contains the mechanism
                listener = listener.removesuffix("." + mechanism)
            return listener, setting
    return None


def _parse(setting: Setting, name: str, text: str, where: str) -> object:
    shown = "(hidden)" if setting.secret else repr(text)
    try:
        return setting.read(text)
    except ValueError as e:
        raise ConfigError(f"{where}: invalid value {name}={shown}: {e}. {setting.doc}") from e
