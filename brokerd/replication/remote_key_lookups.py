"""Look-ups of records by key in the remote segments of a partition that this broker leads: requests to the helper process.

Invariants: only segments of the leader's chain are searched, below an offset of its local log. Records of transactions whose abort marker is only in the
local log are skipped too. Without a response of the helper the caller gets None, and reports that these records were not searched. Does not
contain: the search (`remote/key_lookups`), the local log (`apis/key_lookups`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from brokerd.remote.frames import HelperError
from brokerd.remote.helper_requests import HelperOperation, KeysFields, SegmentFields
from brokerd.remote.segments import RemoteSegment
from brokerd.replication.remote_reads import Request
from brokerd.replication.replica import Replica
from brokerd.wire import versioned
from brokerd.wire.messages.key_lookups import RESPONSE_ELEMENTS_MAX, VERSION, KeyLookupRequest, KeyLookupResponse

SEGMENTS_MAX = 1_000
"""Maximum number of segments of one request. The response then contains the offset where the search stopped."""
MARGIN_MS = 1_000
"""Time for the response beyond the time of the search. The control plane waits a second longer."""
Done = Callable[[KeyLookupResponse | None], None]


class RemoteKeyLookups:
    def __init__(self, request: Request, named: Callable[[RemoteSegment], SegmentFields]) -> None:
        """`named`: the fields of a segment in requests, without its key index."""
        self._request, self._named = request, named

    def search(self, replica: Replica, query: KeyLookupRequest, *, committed: bool, done: Done) -> None:
        """Search below `query.before_offset`. `done` is called once, possibly before this method returns. The response has matches, `stop`,
        `next_before_offset`, bytes and segments. `next_before_offset` is the start of the searched range, also if `stop` is LOG_START."""
        view = replica.remote
        if view is None or not view.loaded:
            done(None)
            return
        start, before = view.start_offset(replica.log.start_offset), query.before_offset
        below = [s for s in view.chain.segments if s.start_offset < before and s.end_offset > start]
        searched = below[-SEGMENTS_MAX:]
        later = [s for s in view.chain.segments if s.start_offset >= before and s.aborted_count]
        aborted = replica.log.aborted.overlapping(start, before) if committed else []
        fields = KeysFields(
            segments=[self._fields(s) for s in (*searched, *later)],
            start=start,
            aborted=[list(a) for a in aborted] if committed else None,
            query=base64.b64encode(versioned.encode(query, VERSION)).decode(),
        )

        def on_helper_result(error: HelperError, value: object) -> None:
            if error or not isinstance(value, str):
                done(None)
                return
            done(versioned.decode(KeyLookupResponse, base64.b64decode(value), VERSION, RESPONSE_ELEMENTS_MAX))

        self._request(HelperOperation.KEYS, fields, query.duration_ms_max + MARGIN_MS, on_helper_result)

    def _fields(self, segment: RemoteSegment) -> SegmentFields:
        return [*self._named(segment), segment.key_index_bytes, segment.key_index_seed]
