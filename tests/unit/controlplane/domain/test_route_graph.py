"""Loops of routes and front topics."""

from __future__ import annotations

from controlplane.domain.route_graph import find_loop


def test_a_chain_is_no_loop_and_its_way_back_is() -> None:
    edges = {"b": ["c"], "c": ["d"]}
    assert find_loop(edges, "a", ["b"]) is None
    assert find_loop(edges, "d", ["b"]) == ["d", "b", "c", "d"]
    assert find_loop(edges, "a", ["a"]) == ["a", "a"]


def test_two_ways_to_one_topic_are_no_loop() -> None:
    assert find_loop({"b": ["d"], "c": ["d"]}, "a", ["b", "c"]) is None


def test_a_front_topic_leads_to_its_topic() -> None:
    assert find_loop({}, "orders", ["orders.delay"]) == ["orders", "orders.delay", "orders"]
    assert find_loop({}, "orders", ["orders.half"]) == ["orders", "orders.half", "orders"]
    assert find_loop({}, "orders", ["other.delay"]) is None
    assert find_loop({"orders.half.expired": ["a"]}, "a", ["orders.half"]) == [
        "a",
        "orders.half",
        "orders.half.expired",
        "a",
    ]
