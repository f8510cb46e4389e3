"""Counters of a connection and their rates."""

from __future__ import annotations

from uuid import UUID

from brokerd.net.client_traffic import IDLE, TOPICS_MAX, WINDOW_MS, ClientTraffic
from brokerd.wire.messages import ProduceRequest

NO_ID = UUID(int=0)


def test_a_rate_is_over_one_to_two_windows() -> None:
    traffic = ClientTraffic(0)
    for second in range(1, 61):
        traffic.add_request("shop", 100, second * 1_000)
        traffic.sent_bytes += 500
        traffic.add_cold(50)
        rates = traffic.rates(second * 1_000)
        if second > 1:
            # At a mark the request itself counts in addition.
            assert 1 <= rates.requests <= 1.1 and 100 <= rates.received_bytes <= 110 and 500 <= rates.sent_bytes <= 550
            assert 50 <= rates.cold_bytes <= 55
    assert (traffic.requests, traffic.received_bytes, traffic.sent_bytes) == (60, 6_000, 30_000)


def test_traffic_of_the_past_does_not_count() -> None:
    traffic = ClientTraffic(0)
    for _ in range(1_000):
        traffic.add_request("shop", 1_000, 1_000)
    for second in range(2, 50):
        traffic.add_request("shop", 10, second * 1_000)
    assert traffic.rates(50_000).received_bytes < 11


def test_a_new_connection_is_averaged_over_a_second() -> None:
    traffic = ClientTraffic(0)
    traffic.add_request("shop", 100, 10)
    assert traffic.rates(20).received_bytes == 100


def test_without_a_request_for_two_windows_it_is_idle() -> None:
    traffic = ClientTraffic(0)
    traffic.add_request("shop", 100, WINDOW_MS)
    assert traffic.rates(3 * WINDOW_MS - 1) != IDLE
    assert traffic.rates(3 * WINDOW_MS) == IDLE


def produce_body(*sizes: int | None, topic: str = "orders", topic_id: UUID = NO_ID) -> ProduceRequest:
    """A request with one batch of each size. None: a partition without records."""
    parts = [
        ProduceRequest.PartitionProduceData(index=i, records=None if size is None else bytes(size))
        for i, size in enumerate(sizes)
    ]
    return ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=parts)]
    )


def test_produced_bytes_are_counted_by_topic() -> None:
    traffic = ClientTraffic(0)
    assert traffic.produced is None
    traffic.add_produced(produce_body(100, None, 20), 10)
    traffic.add_produced(produce_body(7, topic="payments"), 20)
    by_id = UUID(int=5)
    traffic.add_produced(produce_body(3, topic="", topic_id=by_id), 30)
    assert traffic.produced is not None
    assert traffic.produced.bytes == {"orders": 120, "payments": 7, by_id: 3}
    assert traffic.produced.total("payments", by_id) == 10
    assert traffic.produced.per_second("orders", now_ms=500) == 120, "a new connection is averaged over a second"


def test_the_rate_of_a_topic_is_over_one_to_two_windows() -> None:
    traffic = ClientTraffic(0)
    for second in range(1, 61):
        traffic.add_produced(produce_body(500), second * 1_000)
    assert traffic.produced is not None
    assert 500 <= traffic.produced.per_second("orders", now_ms=60_000) <= 550
    traffic.add_produced(produce_body(1, topic="payments"), 60_000)
    assert traffic.produced.per_second("orders", now_ms=60_000 + 2 * WINDOW_MS) == 0
    assert traffic.produced.total("orders") == 30_000


def test_the_number_of_topics_of_a_connection_is_limited() -> None:
    traffic = ClientTraffic(0)
    for n in range(2 * TOPICS_MAX):
        traffic.add_produced(produce_body(1, topic=f"t{n}"), n)
        traffic.add_produced(produce_body(1, topic="t0"), n)
    assert traffic.produced is not None
    assert len(traffic.produced.bytes) == TOPICS_MAX and traffic.produced.total("t0") == 2 * TOPICS_MAX + 1


def test_fetched_bytes_are_counted_by_topic_and_apart_from_produced_ones() -> None:
    traffic = ClientTraffic(0)
    assert traffic.fetched is None
    traffic.add_fetched("orders", 100, 10)
    traffic.add_fetched("payments", 7, 20)
    traffic.add_fetched("orders", 20, 30)
    assert traffic.fetched is not None and traffic.produced is None
    assert traffic.fetched.bytes == {"orders": 120, "payments": 7}
    assert traffic.fetched.per_second("orders", now_ms=500) == 120
    for n in range(2 * TOPICS_MAX):
        traffic.add_fetched(f"t{n}", 1, 40)
    assert len(traffic.fetched.bytes) == TOPICS_MAX
