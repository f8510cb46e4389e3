"""Messages for log directories. DescribeLogDirs also has what a broker reports about itself to the control plane: tagged fields of Weir.
Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class AlterReplicaLogDirsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterReplicaLogDirTopic(Struct):
        name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class AlterReplicaLogDir(Struct):
        path: str = f("string")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = f(array("AlterReplicaLogDirTopic"))

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = f(array("AlterReplicaLogDir"))


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = f("string")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = f(
            array("AlterReplicaLogDirPartitionResult")
        )

    throttle_time_ms: int = f("int32")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = f(array("AlterReplicaLogDirTopicResult"))


@dataclass(slots=True)
class DescribeLogDirsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribableLogDirTopic(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = f(
        array("DescribableLogDirTopic"), nullable="0+"
    )
    # A tag of Weir: the response must also contain the leader's values for replicas out of sync.
    lagging: bool = f("bool", "2+", tag=10_001, tagged="2+")
    # A tag of Weir: the response must also contain the current use of client quotas.
    quota_use: bool = f("bool", "2+", tag=10_002, tagged="2+")
    # A tag of Weir: the response must also contain the clients that are connected.
    clients: bool = f("bool", "2+", tag=10_003, tagged="2+")
    # A tag of Weir: the response must also contain the health of each directory's disk.
    disks: bool = f("bool", "2+", tag=10_005, tagged="2+")
    # A tag of Weir: the response must also contain the remote sizes of the partitions with tiered storage that this broker leads.
    remote: bool = f("bool", "2+", tag=10_006, tagged="2+")
    # A tag of Weir: the partitions in the response must also contain their counters of bytes.
    traffic: bool = f("bool", "2+", tag=10_007, tagged="2+")
    # A tag of Weir: the response must also contain the metrics of requests.
    requests: bool = f("bool", "2+", tag=10_008, tagged="2+")
    # A tag of Weir: the response must also contain the numbers of dead letters of the share groups.
    share_letters: bool = f("bool", "2+", tag=10_009, tagged="2+")
    # Likewise the numbers of rejected requests by reason, and of the clients with the latest ones.
    rejections: bool = f("bool", "2+", tag=10_010, tagged="2+")
    # Likewise the latest truncations of replicas.
    truncations: bool = f("bool", "2+", tag=10_011, tagged="2+")
    # Likewise the records in flight of this share group, in the partitions that this broker leads. Empty: of no group.
    share_group: str = f("string", "2+", tag=10_012, tagged="2+")
    # The response contains only those `clients` that have produced to this topic or read from it. Empty: all.
    clients_of: str = f("string", "2+", tag=10_013, tagged="2+")
    # A tag of Weir: the response must also contain the share partitions at their limit of records in flight that this broker leads.
    share_full: bool = f("bool", "2+", tag=10_014, tagged="2+")
    # Likewise the start of the broker process.
    start: bool = f("bool", "2+", tag=10_015, tagged="2+")


@dataclass(slots=True)
class DescribeLogDirsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribeLogDirsPartition(Struct):
        partition_index: int = f("int32")
        partition_size: int = f("int64")
        offset_lag: int = f("int64")
        is_future_key: bool = f("bool")
        # Tags of Weir: bytes of record batches since the replica was opened. `brokerd.replication.replica`.
        bytes_in: int = f("int64", "2+", tag=10_000, tagged="2+")
        bytes_out: int = f("int64", "2+", tag=10_001, tagged="2+")
        replication_bytes_in: int = f("int64", "2+", tag=10_002, tagged="2+")
        replication_bytes_out: int = f("int64", "2+", tag=10_003, tagged="2+")

    @dataclass(slots=True)
    class DescribeLogDirsTopic(Struct):
        name: str = f("string")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = f(array("DescribeLogDirsPartition"))

    @dataclass(slots=True)
    class DescribeLogDirsResult(Struct):
        error_code: int = f("int16")
        log_dir: str = f("string")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = f(array("DescribeLogDirsTopic"))
        total_bytes: int = f("int64", "4+", default=-1)
        usable_bytes: int = f("int64", "4+", default=-1)
        is_cordoned: bool = f("bool", "5+")
        # Tags of Weir: `brokerd.cluster.disk_health`, and the time of the last probe in ms (-1: unknown).
        health: int = f("int8", "2+", tag=10_005, tagged="2+")
        probe_ms: int = f("int32", "2+", default=-1, tag=10_006, tagged="2+")

    @dataclass(slots=True)
    class LaggingCopy(Struct):
        topic: str = f("string")
        partition_index: int = f("int32")
        broker_id: int = f("int32")
        log_end: int = f("int64")
        log_start: int = f("int64")

    @dataclass(slots=True)
    class QuotaUse(Struct):
        entity: str = f("string")
        quota: str = f("string")
        per_second: float = f("float64")

    @dataclass(slots=True)
    class RemoteSize(Struct):
        """Bytes of a partition with tiered storage: `brokerd.remote.sizes`."""

        topic: str = f("string")
        partition_index: int = f("int32")
        remote: int = f("int64")
        local_only: int = f("int64")
        copying: int = f("int64")
        read: int = f("int64")
        # -1: a broker of a version that does not report it.
        local_start: int = f("int64", "2+", tag=0, tagged="2+", default=-1)

    @dataclass(slots=True)
    class ErrorCount(Struct):
        code: int = f("int16")
        count: int = f("int64")

    @dataclass(slots=True)
    class ApiRequests(Struct):
        """Requests of one API since the start of the broker: `brokerd.net.request_metrics`. The greatest time is of the last one to two minutes."""

        name: str = f("string")
        counts: list[int] = f(array("int64"))
        sum_seconds: float = f("float64")
        greatest_seconds: float = f("float64")
        errors: list[DescribeLogDirsResponse.ErrorCount] = f(array("ErrorCount"))

    @dataclass(slots=True)
    class ShareLetters(Struct):
        """Number of dead letters of one topic since the start of the broker (`brokerd.sharing.dead_letters`). `reason`: why the last record without a dead
        letter has none."""

        group_id: str = f("string")
        topic: str = f("string")
        written: int = f("int64")
        unwritten: int = f("int64")
        reason: str = f("string")

    @dataclass(slots=True)
    class ConnectedClient(Struct):
        """The connections with equal properties. Times in milliseconds: the age of the oldest one, and the time since the last request."""

        listener: str = f("string")
        principal: str = f("string")
        client_id: str = f("string")
        host: str = f("string")
        software_name: str = f("string")
        software_version: str = f("string")
        is_broker: bool = f("bool")
        connections: int = f("int32")
        connected_ms: int = f("int64")
        idle_ms: int = f("int64")
        requests_per_second: float = f("float64")
        received_bytes_per_second: float = f("float64")
        sent_bytes_per_second: float = f("float64")
        # Loaded from the disk for responses.
        cold_bytes_per_second: float = f("float64", "2+", tag=0, tagged="2+")
        # Of record batches of the topic in `clients_of`, since the connections were accepted, and now.
        produced_bytes: int = f("int64", "2+", tag=1, tagged="2+")
        produced_bytes_per_second: float = f("float64", "2+", tag=2, tagged="2+")
        fetched_bytes: int = f("int64", "2+", tag=3, tagged="2+")
        fetched_bytes_per_second: float = f("float64", "2+", tag=4, tagged="2+")

    @dataclass(slots=True)
    class Rejection(Struct):
        # Of all clients of the broker if `host` is empty. `principal` is empty for a client that is not authenticated.
        host: str = f("string")
        principal: str = f("string")
        client_id: str = f("string")
        # `brokerd.cluster.rejection_reasons`.
        reason: str = f("string")
        count: int = f("int64")
        # Since the last rejection of the client, for any reason.
        ago_ms: int = f("int64")
        # The last operation without authorization and its resource, for example WRITE, TOPIC, orders. Empty: another reason, or unknown.
        operation: str = f("string")
        resource_type: str = f("string")
        resource_name: str = f("string")

    @dataclass(slots=True)
    class FailedLogin(Struct):
        host: str = f("string")
        client_id: str = f("string")
        # As the client sent them. Empty: it sent none.
        user: str = f("string")
        mechanism: str = f("string")
        # `brokerd.cluster.sasl_failures`.
        failure: str = f("string")
        count: int = f("int64")
        ago_ms: int = f("int64")

    @dataclass(slots=True)
    class Truncation(Struct):
        """Records that a replica deleted: `brokerd.replication.truncations`."""

        topic_id: UUID = f("uuid")
        partition_index: int = f("int32")
        first_offset: int = f("int64")
        end_offset: int = f("int64")
        high_watermark: int = f("int64")
        leader_epoch: int = f("int32")
        at_ms: int = f("int64")

    @dataclass(slots=True)
    class AcquiredRecords(Struct):
        member_id: str = f("string")
        count: int = f("int32")

    @dataclass(slots=True)
    class ShareInFlight(Struct):
        """Records in flight of one share partition: `brokerd.sharing.delivery.RecordsInFlight`. `lock_ms`: -1 without an acquired record."""

        topic: str = f("string")
        partition_index: int = f("int32")
        acquired: list[DescribeLogDirsResponse.AcquiredRecords] = f(array("AcquiredRecords"))
        lock_ms: int = f("int64")
        redelivery: int = f("int32")
        archiving: int = f("int32")
        in_flight: int = f("int32")
        in_flight_max: int = f("int32")

    @dataclass(slots=True)
    class ShareFull(Struct):
        """A share partition that delivers no new record, because of its limit of records in flight."""

        group_id: str = f("string")
        topic: str = f("string")
        partition_index: int = f("int32")

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16", "3+")
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = f(array("DescribeLogDirsResult"))
    # A tag of Weir, far above Kafka's own. Clients that do not know it skip it. `brokerd.replication.produce_latency`.
    produce_times: list[int] = f(array("int64"), "2+", tag=10_000, tagged="2+")
    # The leader's values for replicas out of sync. `brokerd.apis.log_dirs`.
    lagging: list[DescribeLogDirsResponse.LaggingCopy] = f(array("LaggingCopy"), "2+", tag=10_001, tagged="2+")
    # The current use of client quotas. `brokerd.authz.quotas`.
    quota_use: list[DescribeLogDirsResponse.QuotaUse] = f(array("QuotaUse"), "2+", tag=10_002, tagged="2+")
    # The clients with the most traffic, and the number of all. `brokerd.apis.connected_clients`.
    clients: list[DescribeLogDirsResponse.ConnectedClient] = f(array("ConnectedClient"), "2+", tag=10_003, tagged="2+")
    client_count: int = f("int32", "2+", tag=10_004, tagged="2+")
    # Sizes over both tiers. `brokerd.remote.sizes`.
    remote: list[DescribeLogDirsResponse.RemoteSize] = f(array("RemoteSize"), "2+", tag=10_006, tagged="2+")
    # APIs with requests. `brokerd.net.request_metrics`.
    requests: list[DescribeLogDirsResponse.ApiRequests] = f(array("ApiRequests"), "2+", tag=10_007, tagged="2+")
    # Dead letters of share groups. `brokerd.apis.share_dead_letters`.
    share_letters: list[DescribeLogDirsResponse.ShareLetters] = f(array("ShareLetters"), "2+", tag=10_008, tagged="2+")
    rejections: list[DescribeLogDirsResponse.Rejection] = f(array("Rejection"), "2+", tag=10_009, tagged="2+")
    # The latest failed logins of the clients in `rejections`. `brokerd.net.rejections`.
    failed_logins: list[DescribeLogDirsResponse.FailedLogin] = f(array("FailedLogin"), "2+", tag=10_010, tagged="2+")
    truncations: list[DescribeLogDirsResponse.Truncation] = f(array("Truncation"), "2+", tag=10_011, tagged="2+")
    share_in_flight: list[DescribeLogDirsResponse.ShareInFlight] = f(
        array("ShareInFlight"), "2+", tag=10_012, tagged="2+"
    )
    share_full: list[DescribeLogDirsResponse.ShareFull] = f(array("ShareFull"), "2+", tag=10_013, tagged="2+")
    # The start of the broker process in Unix ms (-1: not requested), and whether the run before ended without a clean shutdown.
    start_ms: int = f("int64", "2+", default=-1, tag=10_014, tagged="2+")
    unclean_start: bool = f("bool", "2+", tag=10_015, tagged="2+")
