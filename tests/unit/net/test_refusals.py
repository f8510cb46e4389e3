"""Counters of refused requests by reason and client, and their limit."""

from __future__ import annotations

from brokerd.cluster.refusal_reasons import RefusalReason
from brokerd.net.admission import Admission
from brokerd.net.refusals import (
    ADDRESSES_MAX,
    CLIENT_ID_CHARS_MAX,
    CLIENTS_PER_ADDRESS_MAX,
    NAME_CHARS_MAX,
    Denial,
    Refusals,
)

DENIED, SLOW = RefusalReason.UNAUTHORIZED, RefusalReason.THROTTLED


def test_refusals_are_counted_by_reason_and_client() -> None:
    now = [0]
    refusals = Refusals(lambda: now[0])
    refusals.add(DENIED, "10.0.0.1", "a", "User:x", Denial(29, "WRITE", "TOPIC", "orders"))
    now[0] = 5
    refusals.add(SLOW, "10.0.0.1", "a", "User:x")
    refusals.add(DENIED, "10.0.0.1", "b")
    now[0] = 9
    refusals.add(DENIED, "10.0.0.1", "a", "User:x", Denial(29, "READ", "TOPIC", "y" * 10_000))
    assert refusals.counts == {DENIED: 3, SLOW: 1}
    found = [(client, c.counts, c.last_ms) for client, c in refusals.latest(5)]
    assert found == [
        (("10.0.0.1", "User:x", "a"), {DENIED: 2, SLOW: 1}, 9),
        (("10.0.0.1", "", "b"), {DENIED: 1}, 5),
    ]
    denial = refusals.latest(1)[0][1].denial
    assert denial is not None and (denial.operation, len(denial.resource_name)) == ("READ", NAME_CHARS_MAX)


def test_invented_names_remove_only_clients_of_the_same_address() -> None:
    refusals = Refusals()
    refusals.add(DENIED, "10.0.0.2", "honest")
    for n in range(3 * ADDRESSES_MAX):
        refusals.add(DENIED, "10.0.0.1", f"{n}" + "x" * 10_000)
    found = dict(refusals.latest(10_000))
    assert len(found) == CLIENTS_PER_ADDRESS_MAX + 1
    assert all(len(client.client_id) <= CLIENT_ID_CHARS_MAX for client in found)
    assert found["10.0.0.2", "", "honest"].counts == {DENIED: 1}  # type: ignore[index]
    assert refusals.counts == {DENIED: 3 * ADDRESSES_MAX + 1}


def test_many_addresses_fill_no_memory() -> None:
    now = [0]
    refusals = Refusals(lambda: now[0])
    for n in range(3 * ADDRESSES_MAX):
        now[0] = n
        refusals.add(DENIED, f"10.0.{n}.1", "a")
        refusals.add(DENIED, "10.9.9.9", "steady")
    found = dict(refusals.latest(10_000))
    assert len(found) == ADDRESSES_MAX
    assert found["10.9.9.9", "", "steady"].counts == {DENIED: 3 * ADDRESSES_MAX}  # type: ignore[index]


def test_all_listeners_of_a_broker_share_the_counters() -> None:
    refusals = Refusals()
    assert Admission(1, 1, {}, 0, refusals).refusals is refusals
