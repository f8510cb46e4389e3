"""Counters of a connection and their rates."""

from __future__ import annotations

from brokerd.net.client_traffic import IDLE, WINDOW_MS, ClientTraffic


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
