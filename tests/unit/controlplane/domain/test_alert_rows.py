"""Which stored alerts are created, updated and resolved."""

from __future__ import annotations

from controlplane.domain.alert_rows import AlertChanges, StoredAlert, changes
from controlplane.domain.alert_types import AlertKind, ComputedAlert, Severity


def stored_alert(a: ComputedAlert, pk: int, ended_s: float | None = None) -> StoredAlert:
    return StoredAlert(pk, a.kind, a.subject, a.severity, a.text, a.do, ended_s)


def test_an_alert_starts_and_ends_once_and_a_flapping_alert_does_not_end() -> None:
    one, two = (
        ComputedAlert(AlertKind.DRIFT, "", Severity.DEGRADED, "1", "x"),
        ComputedAlert(AlertKind.DRIFT, "", Severity.DEGRADED, "2", "x"),
    )
    assert changes([], [one], 0) == AlertChanges((one,), (), ())
    assert changes([stored_alert(one, 5)], [one], 0) == AlertChanges((), (), ())
    assert changes([stored_alert(one, 5)], [two], 0) == AlertChanges((), ((5, two),), ())
    assert changes([stored_alert(one, 5)], [], 0) == AlertChanges((), (), (5,))
    assert changes([stored_alert(one, 5, ended_s=0)], [], 10) == AlertChanges((), (), ()), "it ended already"
    assert changes([stored_alert(one, 5, ended_s=0)], [one], 59) == AlertChanges((), ((5, one),), ())
    assert changes([stored_alert(one, 5, ended_s=0)], [one], 61) == AlertChanges((one,), (), ())
