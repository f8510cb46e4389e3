"""Broker settings of tiered storage (KIP-405), under Kafka's names where Kafka has one. Does not contain topic settings."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from brokerd.config.types import Setting, parse_bool

GIB = 1024 * 1024 * 1024


def _store_url(text: str) -> str:
    text = text.strip()
    parts = urlsplit(text)
    folder = parts.scheme == "file" and not parts.netloc and parts.path.strip("/")
    bucket = parts.scheme == "s3" and parts.netloc
    if text and not (folder or bucket):
        raise ValueError("expected file:///folder or s3://bucket/prefix")
    return text


REMOTE_SETTINGS: tuple[Setting, ...] = (
    Setting("remote.log.storage.system.enable", parse_bool, False, "Tiered storage: this broker copies closed segments of topics with remote.storage.enable to the remote store. The same value on all brokers."),
    Setting("remote.log.storage.url", _store_url, "", "The remote store, the same for all brokers: file:///folder (shared file system) or s3://bucket/prefix (needs the extra s3). Credentials come from the environment."),
    Setting("remote.log.cache.dir", str, "", "Directory for chunks read from the remote store. Its content is deleted at the start. Default: remote-cache next to the first directory of log.dirs."),
    Setting("remote.log.cache.max.bytes", int, GIB, "Maximum size of the chunk cache. At least 16 chunks of 4 MiB, so that readers do not evict each other's next chunk.", 64 * 1024 * 1024),
    Setting("remote.log.manager.task.interval.ms", int, 30_000, "Interval at which the leader of a tiered partition looks for segments to copy or to delete.", 10),
    Setting("remote.log.manager.copy.max.bytes.per.second", int, 2**63 - 1, "Maximum rate of copies from this broker to the remote store.", 1, live=True),
    Setting("remote.log.manager.fetch.max.bytes.per.second", int, 2**63 - 1, "Maximum rate of reads of this broker from the remote store. Reads from the chunk cache do not count.", 1, live=True),
    Setting("remote.log.metadata.topic.num.partitions", int, 8, "Number of partitions of __remote_log_metadata. It is fixed when the first broker with tiered storage creates the topic.", 1),
    Setting("remote.log.metadata.topic.replication.factor", int, 3, "Replication factor of __remote_log_metadata. While fewer brokers are registered, the topic is not created and nothing is copied: set 1 on a cluster with one broker.", 1),
)  # fmt: skip


def check(values: Mapping[str, object]) -> None:
    """Raises ValueError for settings that contradict each other."""
    if values["remote.log.storage.system.enable"] and not values["remote.log.storage.url"]:
        raise ValueError("remote.log.storage.system.enable=true requires remote.log.storage.url")
