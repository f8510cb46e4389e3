"""The metrics of a broker, with the names of Kafka's JMX exporter where Kafka has the same metric ([decision 077](docs/decisions)).

Runs on the thread of the metrics server. It copies each container of the event loop with one call, which the interpreter does not interrupt, and changes
nothing. Invariant: a counter does not decrease while its series exists, although the counters of a replica are removed together with the replica. Does not
contain: the text format, sockets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeVar

from brokerd.cluster.model import TopicPartition
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.request_buckets import BOUNDS_S
from brokerd.net.request_metrics import ApiMetrics
from brokerd.replication.replica import Replica
from brokerd.runtime.exposition import Labels, MetricFamily, MetricType
from brokerd.wire.errors import error_name

PARTITIONS_MAX = 5_000
"""Maximum number of replicas with their own series (size, first and last offset), about 300 bytes of text each. Sums include all replicas."""

CHUNK = 100
"""Number of replicas to read, or of lines to write, before the thread pauses for the event loop: about 0.3 ms."""

PAUSE_S = 0.0001
"""Length of each pause in seconds. After a sleep of zero this thread would often run again before the event loop has woken up."""

PAUSED_TEXT = (
    "Pauses of replicas of this broker that catch up, while producers need the CPU of the broker or of the leader."
)

Counters = tuple[int, int, int, int]
NOTHING: Counters = (0, 0, 0, 0)
TRAFFIC = (
    ("bytesin", "Bytes of record batches that were appended as leader."),
    ("bytesout", "Bytes of record batches that were sent to consumers."),
    ("replicationbytesin", "Bytes of record batches that were copied from leaders."),
    ("replicationbytesout", "Bytes of record batches that were sent to followers."),
)
"""Names and descriptions of the counters, in the order of Counters."""


T = TypeVar("T")


def iterate_with_pauses(items: Iterable[T]) -> Iterator[T]:
    """Yield the items. After each CHUNK items there is a pause in which the thread of the event loop can run."""
    for i, item in enumerate(items, 1):
        yield item
        if i % CHUNK == 0:
            time.sleep(PAUSE_S)


class TrafficTotals:
    """Sums of the counters by topic and over all topics. The sums keep the bytes of replicas that no longer exist."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[Replica, Counters]] = {}
        self._gone: dict[str, Counters] = {}
        self._gone_topics: Counters = NOTHING

    def update(self, hosted: Mapping[TopicPartition, Replica]) -> tuple[dict[str, Counters], Counters]:
        """(sums by topic, sum over all topics). A topic without a replica on this broker has no entry."""
        now = {tp: (r, counters_of(r)) for tp, r in iterate_with_pauses(hosted.items())}
        for tp, (replica, counters) in self._seen.items():
            if tp not in now or now[tp][0] is not replica:
                self._gone[replica.topic] = _sum(self._gone.get(replica.topic, NOTHING), counters)
        self._seen = now
        names = {r.topic for r, _ in now.values()}
        for name in [n for n in self._gone if n not in names]:
            self._gone_topics = _sum(self._gone_topics, self._gone.pop(name))
        by_topic = {name: self._gone.get(name, NOTHING) for name in sorted(names)}
        for replica, counters in now.values():
            by_topic[replica.topic] = _sum(by_topic[replica.topic], counters)
        total = self._gone_topics
        for counters in by_topic.values():
            total = _sum(total, counters)
        return by_topic, total


def counters_of(replica: Replica) -> Counters:
    return replica.bytes_in, replica.bytes_out, replica.replication_bytes_in, replica.replication_bytes_out


def _sum(metric: Counters, other: Counters) -> Counters:
    return metric[0] + other[0], metric[1] + other[1], metric[2] + other[2], metric[3] + other[3]


class BrokerMetrics:
    """`hosted` are the replicas of the broker. `requests` are the request metrics of all APIs. `rejections` counts rejected requests by reason.
    `catch_up_paused_ms`: sum of the pauses of replicas that catch up (`catch_up_pacing`)."""

    def __init__(
        self,
        broker_id: int,
        hosted: Callable[[], Mapping[TopicPartition, Replica]],
        requests: Callable[[], Iterable[ApiMetrics]],
        rejections: Callable[[], Mapping[RejectionReason, int]] = dict,
        catch_up_paused_ms: Callable[[], int] = int,
    ) -> None:
        self._broker_id, self._hosted, self._requests, self._rejections = broker_id, hosted, requests, rejections
        self._catch_up_paused_ms = catch_up_paused_ms
        self._totals = TrafficTotals()
        self._began_s = time.time()

    def families(self) -> Iterator[MetricFamily]:
        hosted = dict(self._hosted())
        by_topic, total = self._totals.update(hosted)
        for i, (name, text) in enumerate(TRAFFIC):
            samples: list[tuple[str, Labels, float]] = [("", (), float(total[i]))]
            samples += [("", (("topic", t),), float(c[i])) for t, c in by_topic.items()]
            yield MetricFamily(f"kafka_server_brokertopicmetrics_{name}_total", MetricType.COUNTER, text, samples)
        yield from _replicas(list(hosted.values()))
        yield from _requests(list(self._requests()))
        counts = dict(self._rejections())
        rejected = [("", (("reason", str(r)),), float(counts.get(r, 0))) for r in RejectionReason]
        yield MetricFamily("weir_refused_requests_total", MetricType.COUNTER, "Rejected requests, by reason.", rejected)
        paused = [("", (), self._catch_up_paused_ms() / 1_000)]
        yield MetricFamily("weir_catch_up_paused_seconds_total", MetricType.COUNTER, PAUSED_TEXT, paused)
        yield _gauge("weir_broker_info", "1.", 1, ("broker", str(self._broker_id)))
        yield _gauge("process_start_time_seconds", "Unix time of the start of the process.", self._began_s)
        used = os.times()
        cpu = [("", (), used.user + used.system)]
        yield MetricFamily("process_cpu_seconds_total", MetricType.COUNTER, "CPU time of the process in seconds.", cpu)
        yield _gauge("process_resident_memory_bytes", "Resident memory in bytes.", _resident_bytes())


def _gauge(name: str, text: str, value: float, *labels: tuple[str, str]) -> MetricFamily:
    return MetricFamily(name, MetricType.GAUGE, text, [("", labels, float(value))])


def _replicas(replicas: list[Replica]) -> Iterator[MetricFamily]:
    leaders = [r for r in replicas if r.leads]
    states = [s for r in leaders if (s := r.core.state) is not None]
    under_min = sum(1 for r in leaders if r.core.state is not None and r.core.isr_size < r.core.min_insync)
    for name, text, count in (
        ("partitioncount", "Replicas on this broker.", len(replicas)),
        ("leadercount", "Partitions that this broker leads.", len(leaders)),
        (
            "underreplicatedpartitions",
            "Partitions led by this broker with a replica out of sync.",
            sum(s.under_replicated for s in states),
        ),
        ("underminisrpartitioncount", "Partitions led by this broker below min.insync.replicas.", under_min),
        (
            "offlinereplicacount",
            "Replicas on this broker that are offline.",
            sum(r.offline_reason is not None for r in replicas),
        ),
    ):
        yield _gauge(f"kafka_server_replicamanager_{name}", text, count)
    shown = list(islice(replicas, PARTITIONS_MAX))
    for name, text, attribute in (
        ("size", "Bytes of the log of a replica on this broker.", "size_bytes"),
        ("logstartoffset", "First offset of the log.", "start_offset"),
        ("logendoffset", "Offset of the next record of the log.", "end_offset"),
    ):
        samples: list[tuple[str, Labels, float]] = [
            ("", (("topic", r.topic), ("partition", str(r.tp.partition))), float(getattr(r.log, attribute)))
            for r in iterate_with_pauses(shown)
        ]
        yield MetricFamily(f"kafka_log_log_{name}", MetricType.GAUGE, text, samples)
    yield _gauge(
        "weir_metrics_replicas_left_out",
        f"Replicas above {PARTITIONS_MAX}, without kafka_log_log_ series.",
        len(replicas) - len(shown),
    )


def _requests(apis: list[ApiMetrics]) -> Iterator[MetricFamily]:
    measured = [(api.name, counts, api) for api in apis if any(counts := api.counts[:])]
    requests = [("", (("request", name),), float(sum(counts))) for name, counts, _ in measured]
    errors = [
        ("", (("request", name), ("error", error_name(code))), float(count))
        for name, _, api in measured
        for code, count in sorted(dict(api.errors).items())
    ]
    prefix = "kafka_network_requestmetrics_"
    yield MetricFamily(f"{prefix}requests_total", MetricType.COUNTER, "Requests that were answered, by API.", requests)
    yield MetricFamily(f"{prefix}errors_total", MetricType.COUNTER, "Errors in responses, by API and error.", errors)
    text = "Total time of requests in seconds, with waiting, by API."
    yield MetricFamily("weir_request_time_seconds", MetricType.HISTOGRAM, text, _histograms(measured))


def _histograms(measured: list[tuple[str, list[int], ApiMetrics]]) -> Iterator[tuple[str, Labels, float]]:
    for name, counts, api in measured:
        label, seen = ("request", name), 0
        for bound, count in zip((*BOUNDS_S, float("inf")), counts, strict=True):
            seen += count
            yield "_bucket", (label, ("le", "+Inf" if bound == float("inf") else repr(bound))), float(seen)
        yield "_sum", (label,), api.sum_s
        yield "_count", (label,), float(seen)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
