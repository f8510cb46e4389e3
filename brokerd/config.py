"""The broker's settings, under Kafka's own names, from a `.properties` file.

Law: every limit has a name, a unit, a default and a reason; an unknown name or a wrong value is refused at start with a
sentence. Called by `__main__`, tests and the simulation. Must not come in: topic settings (`cluster/configs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokerd.access.settings import ACCESS_SETTINGS, MECHANISMS, SASL_SETTINGS, SSL_SETTINGS
from brokerd.access.zookeeper_settings import ZOOKEEPER_SETTINGS
from brokerd.cluster.cordons import ALL_DIRECTORIES, CORDONED, LEADERSHIP, SET_ASIDE
from brokerd.coordinator import settings as group_settings
from brokerd.coordinator.settings import GROUP_SETTINGS
from brokerd.dynamic import CLUSTER_WIDE, Live
from brokerd.listeners import Door, doors, inter_broker_door, parse_listeners, parse_protocol_map
from brokerd.setting import Setting, one_of, parse_bool, properties, words

MIB = 1024 * 1024


class ConfigError(Exception):
    """A setting that cannot be used; the text says which, why and what would help."""


def _paths(text: str) -> tuple[Path, ...]:
    paths = tuple(Path(p.strip()) for p in text.split(",") if p.strip())
    if not paths:
        raise ValueError("at least one folder is needed")
    if len(set(paths)) != len(paths):
        raise ValueError("a folder is named twice")
    return paths


def _per_address(text: str) -> dict[str, int]:
    out = {}
    for item in words(text):
        address, _, most = item.rpartition(":")
        out[address] = int(most)
    return out


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Kafka's name of the one selector that there is here."""


def _selector(text: str) -> str:
    if text.strip() not in ("", RACK_AWARE):
        raise ValueError(f"expected {RACK_AWARE}, or nothing: classes of one's own cannot be loaded")
    return text.strip()


SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", int, None, "This broker's number, unique in the cluster.", 0),
    Setting("listeners", parse_listeners, (("PLAINTEXT", "127.0.0.1", 9092),), "Where to listen: NAME://host:port, several by commas."),
    Setting("advertised.listeners", parse_listeners, None, "What clients are told, by listener; an IPv4 address rather than a name. Default: listeners."),
    Setting("listener.security.protocol.map", parse_protocol_map, {}, "NAME:PROTOCOL by commas, where a listener's name is not its protocol."),
    Setting("inter.broker.listener.name", str, None, "The listener brokers use among themselves. Default: the PLAINTEXT one, or the only one."),
    Setting("log.dirs", _paths, None, "The folders that hold this broker's logs, separated by commas: one per disk."),
    Setting("zookeeper.connect", str, "127.0.0.1:2181", "ZooKeeper's host:port list, with an optional chroot."),
    Setting("zookeeper.session.timeout.ms", int, 6_000, "Silence after which the broker counts as dead.", 400),
    Setting("broker.rack", str, None, "The zone, for placement and closest reads."),
    Setting("replica.selector.class", _selector, "", "Whether consumers read from a replica in their own rack: RackAwareReplicaSelector, under Kafka's whole name, or nothing."),
    Setting("failure.domain", str, None, "The host: replicas of one partition never share it."),
    Setting(CORDONED, one_of(ALL_DIRECTORIES, ""), "", "`*`: no new replica is placed on this broker; nothing: they are.", live=True),
    Setting(LEADERSHIP, parse_bool, True, "false: it leads only what no other replica in sync can lead.", live=True),
    Setting("num.partitions", int, 1, "Partitions of an auto-created topic.", 1, live=True),
    Setting("default.replication.factor", int, 1, "Replicas of an auto-created topic.", 1, live=True),
    Setting("auto.create.topics.enable", parse_bool, True, "Create a topic when a producer or consumer first names it.", live=True),
    Setting("socket.request.max.bytes", int, 100 * MIB, "Largest request; a larger one closes the connection.", 1024),
    Setting("max.connections", int, 10_000, "Connections at once; bounds descriptors and buffers.", 1, live=True),
    Setting("max.connections.per.ip", int, 2**31 - 1, "Connections at once from one address.", 0, live=True),
    Setting("max.connections.per.ip.overrides", _per_address, {}, "The same for single addresses: 10.0.0.1:100 by commas.", live=True),
    Setting("max.connection.creation.rate", int, 2**31 - 1, "New connections per second; more wait in the system's queue.", 1, live=True),
    Setting("connections.max.idle.ms", int, 600_000, "A connection silent for longer is closed.", 1, live=True),
    Setting("replica.lag.time.max.ms", int, 10_000, "A follower not caught up for longer leaves the ISR.", 100),
    Setting("replica.fetch.wait.max.ms", int, 500, "How long a follower's fetch may wait at the leader.", 1, live=True),
    Setting("replica.fetch.max.bytes", int, 1 * MIB, "Bytes per partition in a follower's fetch.", 1024, live=True),
    Setting("replica.fetch.response.max.bytes", int, 10 * MIB, "Bytes of one follower's fetch.", 1024),
    Setting("replica.fetch.backoff.ms", int, 200, "Pause after a failed fetch.", 1),
    Setting("replica.socket.timeout.ms", int, 10_000, "A fetch without an answer for longer is given up.", 100),
    Setting("leader.replication.throttled.rate", int, 2**63 - 1, "Bytes per second sent to followers outside the ISR, of replicas that their topic names as throttled.", 1, live=True),
    Setting("follower.replication.throttled.rate", int, 2**63 - 1, "Bytes per second fetched of such replicas while this broker is outside their ISR.", 1, live=True),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", int, 2**63 - 1, "Pace of moves between log.dirs.", 1, live=True),
    Setting("replica.high.watermark.checkpoint.interval.ms", int, 5_000, "How often high watermarks are written down.", 100),
    Setting("log.retention.check.interval.ms", int, 300_000, "How often old segments are looked for.", 100),
    Setting("log.open.files.max", int, 10_000, "Segment files kept open at once, and at most half of what the system allows.", 16),
    Setting("log.cleaner.backoff.ms", int, 15_000, "How often compacted logs are looked at.", 100),
    Setting("log.scrub.io.max.bytes.per.second", int, MIB, "Pace at which closed segments are read again for damage; 0: never.", 0, live=True),
    Setting("fetch.max.bytes", int, 55 * MIB, "Bytes of one consumer's fetch at most.", 1024),
    Setting("max.incremental.fetch.session.cache.slots", int, 1_000, "Fetch sessions (KIP-227) kept at once; 0 keeps none.", 0),
    Setting("controlled.shutdown.timeout.ms", int, 15_000, "How long a clean stop waits for leaders to move off.", 0),
    Setting("offsets.retention.minutes", int, 10_080, "Committed offsets of an empty group are kept for this long.", 1),
    Setting("offset.metadata.max.bytes", int, 4_096, "Largest metadata string of a commit.", 0),
    Setting("transaction.max.timeout.ms", int, 900_000, "Longest time-out a transactional producer may ask for.", 1),
    Setting("transaction.version", int, 0, "The feature's level that is offered until one is finalised for all (kafka-features): 2 is an epoch for each transaction (KIP-890).", 0),
    Setting("transactional.id.expiration.ms", int, 604_800_000, "A transactional id unused for longer is forgotten.", 1),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", int, 10_000, "How often transactions whose time is up are looked for.", 1),
    Setting("transaction.partition.verification.enable", parse_bool, True, "Ask the coordinator before a producer's first batch of a transaction: without it one that comes late may hang readers for ever.", live=True),
    Setting("producer.id.expiration.ms", int, 86_400_000, "A producer silent for longer is forgotten.", 1),
    *GROUP_SETTINGS,
    *ZOOKEEPER_SETTINGS,
    *SSL_SETTINGS,
    *SASL_SETTINGS,
    *ACCESS_SETTINGS,
)  # fmt: skip

BY_NAME = {s.name: s for s in SETTINGS}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Parsed settings; `config["broker.id"]` reads one. `topic_defaults` are `log.*`-like defaults for topics, as given."""

    values: Mapping[str, Any]
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    doors: tuple[Door, ...] = ()
    inter_broker: Door | None = None
    per_listener: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    """What is set for one listener alone, by its name and the setting's."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The file, as it stands there."""
    live: Live = field(default_factory=Live)
    """What the metadata log says, over it."""

    def __getitem__(self, name: str) -> Any:
        return self.live.values[name] if name in self.live.values else self.values[name]

    @property
    def defaults_in_force(self) -> Mapping[str, str]:
        """`topic_defaults`, and what the metadata log says over them."""
        return {**self.topic_defaults, **self.live.topic_defaults} if self.live.topic_defaults else self.topic_defaults

    def follow(self, broker_configs: Mapping[int, tuple[int, Mapping[str, str]]]) -> set[str]:
        """Take over what an image of the metadata log holds. The names whose value is another one now."""
        nothing: tuple[int, Mapping[str, str]] = (0, {})
        (_, cluster), (_, own) = (broker_configs.get(i, nothing) for i in (CLUSTER_WIDE, self.broker_id))
        if cluster == self.live.cluster and own == self.live.own:
            return set()
        return self.live.follow(BY_NAME, cluster, own, self.broker_id)

    def of(self, door: Door, name: str) -> Any:
        """A setting as it is in force for one listener."""
        own = self.per_listener.get((door.name, name))
        return self[name] if own is None else own

    @property
    def broker_id(self) -> int:
        return int(self.values["broker.id"])

    @staticmethod
    def load(path: Path, known_topic_default: Callable[[str], bool] = lambda name: False) -> BrokerConfig:
        """Read a `.properties` file. Raises ConfigError naming file, line and remedy."""
        try:
            given = properties(path)
        except ValueError as e:
            raise ConfigError(str(e)) from e
        return BrokerConfig.parse(given, known_topic_default, where=str(path))

    @staticmethod
    def parse(
        given: Mapping[str, str],
        known_topic_default: Callable[[str], bool] = lambda name: False,
        where: str = "settings",
    ) -> BrokerConfig:
        values: dict[str, Any] = {s.name: s.default for s in SETTINGS}
        topic_defaults: dict[str, str] = {}
        per_listener: dict[tuple[str, str], Any] = {}
        for name, text in given.items():
            setting = BY_NAME.get(name)
            if setting is None and (own := _own(name)) is not None:
                listener, setting = own
                per_listener[listener, setting.name] = _read(setting, name, text, where)
                continue
            if setting is None:
                if not known_topic_default(name):
                    raise ConfigError(f"{where}: unknown setting {name!r}; see brokerd/config.py for the list")
                topic_defaults[name] = text
                continue
            if name in SET_ASIDE:
                raise ConfigError(
                    f"{where}: {name} is set while the cluster runs: the controller obeys it, and reads no broker's file"
                )
            values[name] = _read(setting, name, text, where)
        for name in ("broker.id", "log.dirs"):
            if values[name] is None:
                raise ConfigError(f"{where}: {name} is missing. {BY_NAME[name].doc}")
        try:
            group_settings.check(values)
            listening = doors(values)
            inter_broker = inter_broker_door(values, listening)
            strange = {listener for listener, _ in per_listener} - {door.name for door in listening}
            if strange:
                raise ValueError(f"listener.name.{min(strange).lower()}: no listener has this name")
            return BrokerConfig(values, topic_defaults, listening, inter_broker, per_listener, dict(given))
        except ValueError as e:
            raise ConfigError(f"{where}: {e}") from e


def _own(name: str) -> tuple[str, Setting] | None:
    """`listener.name.<listener>.<setting>` -> the listener and the setting; None for anything else."""
    if not name.startswith("listener.name."):
        return None
    rest = name.removeprefix("listener.name.")
    for setting in SETTINGS:
        if setting.per_listener and rest.endswith("." + setting.name):
            listener = rest.removesuffix("." + setting.name).upper()
            for mechanism in MECHANISMS:  # Kafka's longer form names the mechanism too
                listener = listener.removesuffix("." + mechanism)
            return listener, setting
    return None


def _read(setting: Setting, name: str, text: str, where: str) -> Any:
    shown = "(hidden)" if setting.secret else repr(text)
    try:
        return setting.read(text)
    except ValueError as e:
        raise ConfigError(f"{where}: {name}={shown} cannot be used: {e}. {setting.doc}") from e
