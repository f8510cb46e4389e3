"""What a fetch is answered: of each partition, of a session, of the whole.

Called by `fetch`. Must not come in: reading, waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from brokerd.apis.fetchsessions import Ask, Key, Session, Told
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchResponse


@dataclass(slots=True)
class Read:
    """What is told of one partition. `more`: there are records beyond what the asker has; `served`: some of them are in it."""

    key: Key
    ask: Ask
    data: FetchResponse.PartitionData
    more: bool = False
    served: bool = False


def settle(session: Session, read: Sequence[Read]) -> list[Read]:
    """Remember what is told; of what was read, that which is news to the session."""
    news = []
    for r in read:
        told = Told(r.data.high_watermark, r.data.last_stable_offset, r.data.log_start_offset)
        failed = bool(r.data.error_code) or r.data.diverging_epoch is not None
        if failed:
            r.ask.error = ErrorCode(
                r.data.error_code
            )  # looked up again by the next fetch, and told until it has passed
        if failed or r.served or told != r.ask.told or r.data.preferred_read_replica >= 0:
            news.append(r)
        r.ask.told = None if failed else told
        session.heard(r.key, served=r.served, more=r.more or failed)
    return news


def response(read: Sequence[Read], session_id: int) -> FetchResponse:
    topics: dict[tuple[str, UUID], list[FetchResponse.PartitionData]] = {}
    for r in read:
        topics.setdefault((r.ask.topic_name, r.ask.topic_id), []).append(r.data)
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts)
            for (name, topic_id), parts in topics.items()
        ],
    )


def regions_of(regions: Sequence[FileRegion]) -> FileRegion | list[FileRegion]:
    return regions[0] if len(regions) == 1 else list(regions)
