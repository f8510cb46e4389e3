"""The pending delayed messages of a front partition, described by its leader.

Invariants: only a leader that knows all records of the partition answers. A look-up is bounded in records and time. Its long steps run on another thread. Does
not contain: authorization (`fetch`), the look-up itself (`delivery`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerd.apis.fetch_response import unauthorized_topics
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.delivery.delay_lookup import MAX_MS, PendingPage, PendingQuery
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.delayed_records import key_digest
from brokerd.delivery.led_fronts import LedFronts
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.delayed_messages import VERSION, DelayedMessagesRequest, DelayedMessagesResponse
from brokerd.wire.steps import Steps

RECORDS_MAX = 1_000
"""Maximum number of records in one response."""
BOUNDS_MAX = 100
"""Maximum number of bounds of a histogram. A page of the console shows fewer."""
DURATION_MS_MAX = 5_000
"""Time limit of a look-up: after this time no further bucket is searched."""


class DelayedMessagesServer:
    def __init__(self, fronts: LedFronts[DelayedFront], mono_ms: Callable[[], int]) -> None:
        self._fronts, self._mono_ms = fronts, mono_ms

    def respond(
        self, partition_requests: Iterable[PartitionRequest], unauthorized: Iterable[FetchRequest.FetchTopic]
    ) -> Steps[FetchResponse]:
        topics = []
        for p in partition_requests:
            part = yield from self._part(p)
            topics.append(
                FetchResponse.FetchableTopicResponse(topic=p.topic_name, topic_id=p.topic_id, partitions=[part])
            )
        return FetchResponse(responses=[*topics, *unauthorized_topics(list(unauthorized))])

    def _part(self, partition_request: PartitionRequest) -> Steps[FetchResponse.PartitionData]:
        data = FetchResponse.PartitionData(
            partition_index=partition_request.requested.partition,
            error_code=partition_request.error,
            high_watermark=-1,
            records=b"",
        )
        if partition_request.error or partition_request.replica is None:
            return data
        try:
            query = versioned.decode(
                DelayedMessagesRequest, partition_request.requested.delayed_messages, VERSION, BOUNDS_MAX
            )
        except versioned.UnknownVersion:
            data.error_code = ErrorCode.UNSUPPORTED_VERSION
            return data
        except (ValueError, RecursionError):
            data.error_code = ErrorCode.INVALID_REQUEST
            return data
        front = self._fronts.find(partition_request.replica.tp)
        page = PendingPage((), None)
        if front is not None and query.records_max > 0:
            page = yield from front.look_up(_query(query), self._deadline(query))
        if front is None or self._fronts.find(partition_request.replica.tp) is not front:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return data
        data.delayed_messages = versioned.encode(build_response(front, query, page), VERSION)
        return data

    def _deadline(self, query: DelayedMessagesRequest) -> Callable[[], bool]:
        until = self._mono_ms() + min(max(0, query.duration_ms_max), DURATION_MS_MAX)
        return lambda: self._mono_ms() >= until


def _query(query: DelayedMessagesRequest) -> PendingQuery:
    return PendingQuery(
        limit=min(query.records_max, RECORDS_MAX),
        key_digest=None if query.key is None else key_digest(query.key),
        from_ms=max(0, query.from_ms),
        to_ms=MAX_MS if query.to_ms < 0 else query.to_ms,
        after=(query.after_ms, query.after_offset),
    )


def build_response(front: DelayedFront, query: DelayedMessagesRequest, page: PendingPage) -> DelayedMessagesResponse:
    earliest, following, sent = front.earliest_ms, page.following or (-1, -1), front.last_sent or (-1, -1)
    return DelayedMessagesResponse(
        pending=front.pending,
        earliest_ms=-1 if earliest is None else earliest,
        counts=front.counts(sorted(query.bounds_ms)),
        delivered=front.delivered,
        cancelled=front.cancelled,
        discarded=front.discarded,
        blocked=front.blocked or 0,
        records=[
            DelayedMessagesResponse.Pending(
                offset=r.offset, deliver_at_ms=r.deliver_at_ms, cancelled=front.is_cancelled(r)
            )
            for r in page.records
        ],
        next_ms=following[0],
        next_offset=following[1],
        due=front.due,
        last_due_ms=sent[0],
        last_sent_ms=sent[1],
    )
