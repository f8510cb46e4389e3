"""Values of rejected requests from the samples of a broker."""

from __future__ import annotations

from controlplane.clients.broker_samples import BrokerSample, FailedLoginSample, RejectedClientSample
from controlplane.monitoring.rejection_metrics import (
    FailedLoginMetric,
    RejectedClients,
    RejectionMetric,
    RejectionMetrics,
)


def test_rejections_have_a_total_and_a_rate() -> None:
    metrics = RejectionMetrics()

    def take(at_ms: int, **rejections: int) -> None:
        metrics.apply(BrokerSample(1, at_ms, replicas={}, rejections=rejections))

    take(0, throttled=100, too_large=1)
    assert metrics.by_broker == {}
    take(10_000, throttled=120, too_large=1, unauthorized=50)
    assert metrics.by_broker[1] == [
        RejectionMetric("unauthorized", 50, 5.0),
        RejectionMetric("throttled", 120, 2.0),
        RejectionMetric("too_large", 1, 0.0),
    ]
    metrics.apply(BrokerSample(1, 15_000))
    take(20_000, throttled=10)
    assert metrics.by_broker[1] == [RejectionMetric("throttled", 10, 1.0)], "the broker was started again"
    metrics.forget(1)
    assert metrics.by_broker == {}


WRITE, READ = ("write", "topic", "orders"), ("read", "topic", "flights")


def x(count: int, reason: str = "unauthorized", denial: tuple[str, str, str] = WRITE) -> RejectedClientSample:
    return RejectedClientSample("User:x", "10.0.0.1", "app", reason, count, denial)


def take(clients: RejectedClients, at_s: int, *found: RejectedClientSample) -> None:
    clients.apply(BrokerSample(1, at_s * 1000, replicas={}, rejected_clients=found))


def test_a_rejected_client_has_a_rate_and_the_time_of_its_first_rejection() -> None:
    clients = RejectedClients()
    take(clients, 1_000, x(500))
    assert clients.by_broker[1] == [], "the broker may have counted them days ago"
    for n in range(1, 31):
        take(clients, 1_000 + 10 * n, x(500 + 5 * n))
    (found,) = clients.by_broker[1]
    assert (found.principal, found.reason, found.since_ms, found.operation) == (
        "User:x",
        "unauthorized",
        1_010_000,
        "write",
    )
    assert found.per_min == 30.0
    take(clients, 1_310, x(3))
    assert clients.by_broker[1][0].since_ms == 1_010_000, "the broker counts again from 0"
    clients.forget(1)
    assert clients.by_broker == {}


def test_a_pause_ends_the_series_of_a_client() -> None:
    clients = RejectedClients()
    take(clients, 1_000)
    take(clients, 1_010, x(1))
    assert clients.by_broker[1][0].since_ms == 1_010_000
    for at in range(1_020, 1_150, 10):
        take(clients, at, x(1))
    assert clients.by_broker[1] == []
    take(clients, 1_150, x(2))
    assert clients.by_broker[1][0].since_ms == 1_150_000


def test_a_throttled_client_is_not_rejected_and_a_client_keeps_its_operation() -> None:
    clients = RejectedClients()
    take(clients, 1_000)
    take(clients, 1_010, x(5, "throttled"), x(1))
    for n, denial in enumerate((READ, WRITE, READ)):
        take(clients, 1_020 + 10 * n, x(2 + n, denial=denial))
    assert [(f.reason, f.resource_name) for f in clients.by_broker[1]] == [("unauthorized", "orders")]
    for n in range(10):
        take(clients, 1_050 + 10 * n, x(10 + n, denial=READ))
    assert clients.by_broker[1][0].resource_name == "flights", "the other one is corrected"


def test_a_client_whose_authentication_fails_has_its_users_mechanisms_and_reasons() -> None:
    clients = RejectedClients()

    def apply_rejections(at_s: int, count: int, **users: int) -> tuple[FailedLoginMetric, ...]:
        rejection = RejectedClientSample("", "10.0.0.1", "app", "authentication_failed", count)
        other = RejectedClientSample("", "10.0.0.1", "app", "too_large", count)
        logins = [FailedLoginSample("10.0.0.1", "app", user, "PLAIN", "wrong_password", n) for user, n in users.items()]
        logins.append(FailedLoginSample("10.0.0.2", "app", "elsewhere", "PLAIN", "wrong_password", at_s))
        rejected_clients, failed_logins = (rejection, other), tuple(logins)
        sample = BrokerSample(
            1, at_s * 1000, replicas={}, rejected_clients=rejected_clients, failed_logins=failed_logins
        )
        clients.apply(sample)
        found = {f.reason: f.logins for f in clients.by_broker[1]}
        assert not found.get("too_large"), "logins belong to the failed authentication"
        return found.get("authentication_failed", ())

    def metrics(**counts: int) -> tuple[FailedLoginMetric, ...]:
        return tuple(FailedLoginMetric(user, "PLAIN", "wrong_password", n) for user, n in counts.items())

    assert apply_rejections(1_000, 500, etl=300) == (), "the broker may have counted them days ago"
    assert apply_rejections(1_010, 505, etl=302, app=3) == metrics(app=3, etl=2)
    assert apply_rejections(1_020, 511, etl=307, app=4) == metrics(etl=7, app=4)
    assert apply_rejections(1_030, 513, app=2, new=4) == metrics(app=6, new=4), "the broker counts app again from 0"
    assert apply_rejections(1_200, 514, app=3, new=4) == metrics(app=1), "another series of rejections"
