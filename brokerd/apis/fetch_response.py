"""The response of a fetch, with and without a fetch session. Does not contain: reading, waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from brokerd.apis.fetch_sessions import CachedPartitionState, FetchSession, Key, PartitionRequest
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchRequest, FetchResponse


@dataclass(slots=True)
class FetchRead:
    """The response for one partition. `more` is True if the log has further records. `served` is the number of record bytes in the response. `reportable` is
    True if the response has something other than records that the client must get at once, such as an error."""

    key: Key
    partition_request: PartitionRequest
    data: FetchResponse.PartitionData
    more: bool = False
    served: int = 0
    reportable: bool = False


def record_responses(session: FetchSession, read: Sequence[FetchRead]) -> list[FetchRead]:
    """Record in the session what the response contains. Returns the partitions that the session must send."""
    news = []
    for result in read:
        cached = CachedPartitionState(
            result.data.high_watermark, result.data.last_stable_offset, result.data.log_start_offset
        )
        failed = bool(result.data.error_code) or result.data.diverging_epoch is not None
        if failed:
            # The next fetch looks the partition up again. Each response contains the error until the lookup succeeds.
            result.partition_request.error = ErrorCode(result.data.error_code)
        if (
            failed
            or result.served
            or cached != result.partition_request.cached
            or result.data.preferred_read_replica >= 0
        ):
            news.append(result)
        result.partition_request.cached = None if failed else cached
        session.record_response(result.key, served=bool(result.served), more=result.more or failed)
    return news


def build_fetch_response(read: Sequence[FetchRead], session_id: int) -> FetchResponse:
    topics: dict[tuple[str, UUID], list[FetchResponse.PartitionData]] = {}
    for r in read:
        topics.setdefault((r.partition_request.topic_name, r.partition_request.topic_id), []).append(r.data)
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts)
            for (name, topic_id), parts in topics.items()
        ],
    )


def unauthorized_partition(index: int) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=index,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=b"",
    )


def unauthorized_topics(topics: Iterable[FetchRequest.FetchTopic]) -> list[FetchResponse.FetchableTopicResponse]:
    return [
        FetchResponse.FetchableTopicResponse(
            topic=t.topic,
            topic_id=t.topic_id,
            partitions=[unauthorized_partition(p.partition) for p in t.partitions],
        )
        for t in topics
    ]


def may_pause(read: Iterable[FetchRead], follower: ReplicaIncarnation) -> bool:
    """Return whether the follower may wait before its next fetch: the response has records, only for replicas that are not in the ISR, and each of their partitions has
    the in-sync replicas that producers require."""
    served = False
    for r in read:
        replica = r.partition_request.replica
        if not r.served or replica is None:
            continue
        if replica.core.isr_size < replica.core.min_insync or follower in replica.core.maximal_isr():
            return False
        served = True
    return served


def regions_of(regions: Sequence[FileRegion]) -> FileRegion | list[FileRegion]:
    return regions[0] if len(regions) == 1 else list(regions)
