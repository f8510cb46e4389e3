"""Counters of rejected requests by reason and client, and their limit."""

from __future__ import annotations

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.sasl_failures import SaslFailure
from brokerd.net.admission import Admission
from brokerd.net.rejections import (
    ADDRESSES_MAX,
    CLIENT_ID_CHARS_MAX,
    CLIENTS_PER_ADDRESS_MAX,
    LOGIN_CHARS_MAX,
    LOGINS_PER_CLIENT_MAX,
    NAME_CHARS_MAX,
    Denial,
    FailedLogin,
    Rejections,
)

DENIED, SLOW = RejectionReason.UNAUTHORIZED, RejectionReason.THROTTLED


def test_rejections_are_counted_by_reason_and_client() -> None:
    now = [0]
    rejections = Rejections(lambda: now[0])
    rejections.add(DENIED, "10.0.0.1", "a", "User:x", Denial(29, "WRITE", "TOPIC", "orders"))
    now[0] = 5
    rejections.add(SLOW, "10.0.0.1", "a", "User:x")
    rejections.add(DENIED, "10.0.0.1", "b")
    now[0] = 9
    rejections.add(DENIED, "10.0.0.1", "a", "User:x", Denial(29, "READ", "TOPIC", "y" * 10_000))
    assert rejections.counts == {DENIED: 3, SLOW: 1}
    found = [(client, c.counts, c.last_ms) for client, c in rejections.latest(5)]
    assert found == [
        (("10.0.0.1", "User:x", "a"), {DENIED: 2, SLOW: 1}, 9),
        (("10.0.0.1", "", "b"), {DENIED: 1}, 5),
    ]
    denial = rejections.latest(1)[0][1].denial
    assert denial is not None and (denial.operation, len(denial.resource_name)) == ("READ", NAME_CHARS_MAX)


def test_invented_names_remove_only_clients_of_the_same_address() -> None:
    rejections = Rejections()
    rejections.add(DENIED, "10.0.0.2", "honest")
    for n in range(3 * ADDRESSES_MAX):
        rejections.add(DENIED, "10.0.0.1", f"{n}" + "x" * 10_000)
    found = dict(rejections.latest(10_000))
    assert len(found) == CLIENTS_PER_ADDRESS_MAX + 1
    assert all(len(client.client_id) <= CLIENT_ID_CHARS_MAX for client in found)
    assert found["10.0.0.2", "", "honest"].counts == {DENIED: 1}  # type: ignore[index]
    assert rejections.counts == {DENIED: 3 * ADDRESSES_MAX + 1}


def test_many_addresses_fill_no_memory() -> None:
    now = [0]
    rejections = Rejections(lambda: now[0])
    for n in range(3 * ADDRESSES_MAX):
        now[0] = n
        rejections.add(DENIED, f"10.0.{n}.1", "a")
        rejections.add(DENIED, "10.9.9.9", "steady")
    found = dict(rejections.latest(10_000))
    assert len(found) == ADDRESSES_MAX
    assert found["10.9.9.9", "", "steady"].counts == {DENIED: 3 * ADDRESSES_MAX}  # type: ignore[index]


def test_all_listeners_of_a_broker_share_the_counters() -> None:
    rejections = Rejections()
    assert Admission(1, 1, {}, 0, rejections).rejections is rejections


FAILED, WRONG = RejectionReason.AUTHENTICATION_FAILED, SaslFailure.WRONG_PASSWORD


def test_failed_logins_are_counted_by_user_mechanism_and_reason() -> None:
    now = [0]
    rejections = Rejections(lambda: now[0])
    for at, user, mechanism, failure in (
        (1, "bob", "PLAIN", WRONG),
        (2, "eve", "PLAIN", SaslFailure.UNKNOWN_USER),
        (3, "bob", "PLAIN", WRONG),
        (4, "bob", "SCRAM-SHA-256", WRONG),
    ):
        now[0] = at
        rejections.add(FAILED, "10.0.0.1", "app", login=FailedLogin(user, mechanism, failure))
    logins = rejections.latest(1)[0][1].logins
    assert list(logins.items()) == [
        (("eve", "PLAIN", "unknown_user"), (1, 2)),
        (("bob", "PLAIN", "wrong_password"), (2, 3)),
        (("bob", "SCRAM-SHA-256", "wrong_password"), (1, 4)),
    ]


def test_invented_users_fill_no_memory_and_are_escaped() -> None:
    rejections = Rejections()
    for n in range(1_000):
        rejections.add(
            FAILED, "10.0.0.1", "app", login=FailedLogin(f"{n}\n\x1b[31m\u202e" + "用" * 10_000, "P" * 10_000, WRONG)
        )
    logins = rejections.latest(1)[0][1].logins
    assert len(logins) == LOGINS_PER_CLIENT_MAX
    for login in logins:
        assert login.user.startswith("99") and "\\n\\x1b[31m\\u202e用用" in login.user and login.user.isprintable()
        assert len(login.user) <= 10 * LOGIN_CHARS_MAX and len(login.mechanism) == LOGIN_CHARS_MAX
