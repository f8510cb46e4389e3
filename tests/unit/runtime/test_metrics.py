"""The metrics of a broker: names, sums by topic, and counters that do not decrease."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from brokerd.cluster.request_buckets import BOUNDS_S
from brokerd.net.request_metrics import RequestMetrics
from brokerd.runtime import metrics as module
from brokerd.runtime.exposition import lines
from brokerd.runtime.metrics import BrokerMetrics
from brokerd.wire.apis import ApiKey
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness

IN = "kafka_server_brokertopicmetrics_bytesin_total"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


class Scene:
    def __init__(self) -> None:
        self.harness = Harness(SimDisk())
        self.hosted: dict[Any, Any] = self.harness.replica_manager.hosted
        self.requests = RequestMetrics((ApiKey.PRODUCE, ApiKey.FETCH))
        self.metrics = BrokerMetrics(1, lambda: self.hosted, self.requests.all, catch_up_paused_ms=lambda: 1_500)

    def samples(self) -> Samples:
        found: Samples = {}
        for family in text_string_to_metric_families("".join(lines(self.metrics.families()))):
            for s in family.samples:
                found.setdefault(s.name, {})[tuple(sorted(s.labels.items()))] = s.value
        return found


T = (("topic", "t"),)


def test_bytes_by_topic_and_over_all() -> None:
    scene = Scene()
    scene.harness.append(3)
    replica = scene.harness.replica
    replica.sent_bytes[:] = [5, 7]
    found = scene.samples()
    assert found[IN] == {(): replica.bytes_in, T: replica.bytes_in} and replica.bytes_in > 0
    assert found["kafka_server_brokertopicmetrics_bytesout_total"][T] == 5
    assert found["kafka_server_brokertopicmetrics_replicationbytesout_total"][()] == 7


def test_pauses_of_replicas_that_catch_up_are_in_seconds() -> None:
    assert Scene().samples()["weir_catch_up_paused_seconds_total"] == {(): 1.5}


def test_counters_keep_the_bytes_of_replicas_that_are_gone() -> None:
    scene = Scene()
    scene.harness.append(2)
    before = scene.harness.replica.bytes_in
    assert scene.samples()[IN][()] == before
    again = Harness(SimDisk())  # the same partition, opened again
    again.append(1)
    scene.hosted = {TP: again.replica}
    grown = before + again.replica.bytes_in
    assert scene.samples()[IN] == scene.samples()[IN] == {(): grown, T: grown}
    scene.hosted = {}
    assert scene.samples()[IN] == scene.samples()[IN] == {(): grown}, "a topic without a replica has no series"


def test_replicas_and_their_logs(monkeypatch: Any) -> None:
    scene = Scene()
    scene.harness.append(4)
    found = scene.samples()
    for name, value in (("partitioncount", 1), ("leadercount", 1), ("underreplicatedpartitions", 0)):
        assert found[f"kafka_server_replicamanager_{name}"] == {(): value}
    key = (("partition", "0"), ("topic", "t"))
    assert found["kafka_log_log_logendoffset"] == {key: 4} and found["kafka_log_log_size"][key] > 0
    monkeypatch.setattr(module, "PARTITIONS_MAX", 0)
    found = scene.samples()
    assert "kafka_log_log_size" not in found and found["weir_metrics_replicas_left_out"] == {(): 1}
    scene.harness.replica.offline_reason = "EIO"
    assert scene.samples()["kafka_server_replicamanager_offlinereplicacount"] == {(): 1}


def test_requests_are_a_histogram_and_errors_by_name() -> None:
    scene = Scene()
    produce = scene.requests.by_key[ApiKey.PRODUCE]
    produce.counts[0], produce.counts[-1], produce.sum_s, produce.errors = 3, 1, 70.5, {6: 2, 31_999: 1}
    found = scene.samples()
    of = ("request", "Produce")
    assert found["kafka_network_requestmetrics_requests_total"] == {(of,): 4}, "without APIs that nobody requested"
    errors = found["kafka_network_requestmetrics_errors_total"]
    assert errors == {(("error", "NOT_LEADER_OR_FOLLOWER"), of): 2, (("error", "31999"), of): 1}
    buckets = found["weir_request_time_seconds_bucket"]
    assert (buckets[("le", repr(BOUNDS_S[0])), of], buckets[("le", "60.0"), of], buckets[("le", "+Inf"), of]) == (
        3,
        3,
        4,
    )
    assert found["weir_request_time_seconds_sum"] == {(of,): 70.5}


def test_the_process_is_described() -> None:
    found = Scene().samples()
    assert found["process_resident_memory_bytes"][()] > 1e6 and found["process_cpu_seconds_total"][()] > 0
    assert found["weir_broker_info"] == {(("broker", "1"),): 1}
