"""Error codes in responses of every API."""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire.apis import APIS
from brokerd.wire.response_errors import error_counter


class Sink:
    def __init__(self) -> None:
        self.codes: list[int] = []

    def count_error(self, code: int) -> None:
        self.codes.append(code)


def test_errors_of_partitions_are_counted() -> None:
    r = m.ProduceResponse
    parts = [r.PartitionProduceResponse(index=i, error_code=code) for i, code in enumerate((0, 6, 6, 87))]
    response = r(responses=[r.TopicProduceResponse(name="t", partition_responses=parts)])
    sink = Sink()
    error_counter(r)(response, sink)
    assert sink.codes == [6, 6, 87]


def test_errors_of_the_whole_response_are_counted() -> None:
    sink = Sink()
    count = error_counter(m.FetchResponse)
    count(m.FetchResponse(error_code=70), sink)
    count(m.FetchResponse(), sink)
    assert sink.codes == [70]


def test_every_response_has_a_counter() -> None:
    for api in APIS.values():
        sink = Sink()
        error_counter(api.response)(api.response(), sink)
        assert sink.codes == []
