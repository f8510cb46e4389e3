"""Error codes in responses of every API."""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire.apis import APIS
from brokerd.wire.response_errors import error_counter


def test_errors_of_partitions_are_counted() -> None:
    r = m.ProduceResponse
    parts = [r.PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate((0, 6, 6, 87))]
    response = r(responses=[r.TopicProduceResponse(name="t", partition_responses=parts)])
    counts: dict[int, int] = {6: 1}
    error_counter(r)(response, counts)
    assert counts == {6: 3, 87: 1}


def test_errors_of_the_whole_response_are_counted() -> None:
    counts: dict[int, int] = {}
    count = error_counter(m.FetchResponse)
    count(m.FetchResponse(error_code=70), counts)
    count(m.FetchResponse(), counts)
    assert counts == {70: 1}


def test_every_response_has_a_counter() -> None:
    for api in APIS.values():
        error_counter(api.response)(api.response(), {})
