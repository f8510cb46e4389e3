"""A combined response is sent once, after its last part."""

from __future__ import annotations

from brokerd.apis.combined_response import CombinedResponse
from brokerd.replication.history_reads import HistoryReadResult
from brokerd.wire.errors import ErrorCode


def test_it_is_sent_after_its_last_part() -> None:
    sent: list[str] = []
    results: list[HistoryReadResult] = []
    response = CombinedResponse(lambda: sent.append("response"))
    first, second = response.deferred_part(results.append), response.deferred_part(results.append)
    first(HistoryReadResult(ErrorCode.NONE))
    response.part_done()  # the parts that needed no look-up
    assert not sent
    second(HistoryReadResult(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert sent == ["response"]
    assert [r.error for r in results] == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_without_deferred_parts_it_is_sent_at_once() -> None:
    sent: list[str] = []
    CombinedResponse(lambda: sent.append("response")).part_done()
    assert sent == ["response"]
