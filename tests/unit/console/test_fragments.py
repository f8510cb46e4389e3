"""HTML of values: unknown is a dash with a reason, units, tones of states."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from console import fragments, move_cells
from console.fragments import size_cell
from controlplane.domain.alert import alerts
from controlplane.domain.alert_types import GROUP_STATUSES, AlertFacts, GroupFacts, Severity
from controlplane.domain.lag import LagStatus


def test_a_size_in_a_column_has_the_unit_that_fits() -> None:
    sizes = (900, 900_000, 999_400, 999_999, 1_000_001, 99_960_000, 250 * 10**9)
    assert [size_cell(n) for n in sizes] == ["900 B", "900 kB", "999 kB", "1.0 MB", "1.0 MB", "100 MB", "250 GB"]
    assert size_cell(0) == fragments.ZERO


@pytest.mark.parametrize(
    "shown",
    [
        fragments.number(None),
        fragments.count(None, "red"),
        fragments.size_cell(None),
        fragments.size(None),
        fragments.speed(None),
        fragments.speed(0),
        fragments.lag_time(None),
        fragments.retention_in(None),
        fragments.age(None),
        move_cells.eta(None),
        fragments.instant(None),
        fragments.process(None),
        fragments.instant_ms(None),
        move_cells.move_percent(None),
    ],
)
def test_an_unknown_value_is_a_dash_with_a_reason(shown: str) -> None:
    assert re.fullmatch(r'<span class="unk" title="[^"]+\.">–</span>', shown)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, ">0<"), (1.26, "1.3"), (99.94, "99.9"), (1234.6, "1,235"), (7, "7"), (1234567, "1,234,567")],
)
def test_numbers_have_separators_and_small_ones_a_decimal(value: float, text: str) -> None:
    assert text in fragments.number(value)


def test_a_count_of_problems_has_its_tone_unless_it_is_zero() -> None:
    assert fragments.count(1200, "red") == '<b class="t-red">1,200</b>'
    assert "zero" in fragments.count(0, "red")


def test_every_state_has_a_label_and_its_tone_and_an_unknown_one_is_grey() -> None:
    assert fragments.state("under_replicated") == '<span class="st st-amber">under-replicated</span>'
    assert fragments.state("active") == '<span class="st st-calm">active</span>'
    assert fragments.state("silent") == '<span class="st st-amber">not responding</span>'
    assert fragments.state("rejected") == '<span class="st st-grey">rejected</span>'
    assert "st-red" in fragments.state("rejected", "part"), "a rejected partition of a move"
    assert "st-grey" in fragments.state("never heard of")
    assert fragments.outcome("refused") == '<span class="st st-amber">rejected</span>'
    assert set(fragments.TONES.values()) <= {"", "amber", "red", "blue", "grey"}


def test_a_blocked_group_shows_the_reason() -> None:
    assert "no leader" in fragments.lag_status("blocked", "no_leader")
    assert fragments.lag_status("nonsense") == fragments.lag_status("unknown")


@pytest.mark.parametrize(
    ("consumed", "produced", "lag", "text"),
    [
        (120.0, 100.0, 1_000, "caught up in 50 s"),
        (50.0, 100.0, 1_000, "lag grows by 3,000 records a minute"),
        (100.0, 100.0, 3_600_000, "records/s to catch up within an hour"),
    ],
)
def test_the_pace_of_a_group_is_a_forecast(consumed: float, produced: float, lag: int, text: str) -> None:
    assert text in fragments.group_pace(consumed, produced, lag)
    assert fragments.group_pace(consumed, produced, 0) == fragments.group_pace(None, None, 0) == ""
    assert "not enough samples yet" in fragments.group_pace(None, produced, lag)


@pytest.mark.parametrize(("seconds", "tone"), [(60.0, "red"), (7_200.0, "amber")])
def test_unread_records_that_retention_deletes_soon_are_red(seconds: float, tone: str) -> None:
    assert f't-{tone}">' in fragments.retention_in(seconds) and "&lt; " not in fragments.retention_in(seconds)
    assert ">< " in fragments.retention_in(seconds, at_most=True) or "&lt; " in fragments.retention_in(
        seconds, at_most=True
    )
    assert f't-{tone}">' in fragments.group_pace(50.0, 100.0, 9, "t-0", seconds, "retention.ms")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "-1", "unlimited"),
        ("flush.messages", str(2**63 - 1), "unlimited"),
        ("segment.bytes", "1000000", "1.0 MB"),
        ("segment.bytes", "1073741824", "1 GiB"),
        ("segment.bytes", "268435456", "256 MiB"),
        ("segment.bytes", "999", ""),
        ("retention.ms", "604800000", "7 d"),
        ("segment.ms", "5400000", "90 min"),
        ("segment.ms", "1500", "1.5 s"),
        ("cleanup.policy", "compact", ""),
        ("min.insync.replicas", "2", ""),
    ],
)
def test_a_config_value_is_shown_in_words(name: str, value: str, text: str) -> None:
    assert fragments.config_text(name, value) == text


def test_replicas_show_leader_moves_and_their_problems() -> None:
    shown = fragments.chips([1, 2, 3, 9], isr=[1, 3], leader=1, adding=[3], removing=[2], down=[9])
    one, two, three, nine = re.findall(r'<i class="([^"]+)" title="([^"]+)">([^<]+)</i>', shown)
    assert one == ("b b1 lead", "broker 1, leader", "1")
    assert two == ("b b2 leave out", "broker 2, removing, not in sync", "−2")
    assert three == ("b b3 join", "broker 3, adding", "+3")
    assert nine == ("b b1 out down", "broker 9, not in sync, down", "9")
    assert "none" in fragments.broker_chip(None)


def test_a_timestamp_that_is_no_date_is_shown_as_a_number() -> None:
    assert fragments.instant_ms(10**18) == str(10**18)
    assert "1970-01-01 00:00:01.500" in fragments.instant_ms(1_500)


def test_a_time_of_another_year_has_its_year() -> None:
    """A token that ends in a year would seem to end today, and one that ends next January in the past."""
    now = datetime.now(UTC)
    assert f">{now:%m-%d %H:%M:%S}<" in fragments.instant(now)
    near = (datetime(now.year + 1, 1, 2, tzinfo=UTC), datetime(now.year - 1, 12, 30, tzinfo=UTC))
    for far in (now + timedelta(days=365), now - timedelta(days=365), *near):
        assert f">{far:%Y-%m-%d %H:%M:%S}<" in fragments.instant(far)


def test_an_unknown_outcome_needs_attention() -> None:
    """It has an alert. An unknown state of another object has none."""
    assert "st-amber" in fragments.outcome("unknown") and "st-grey" in fragments.state("unknown")


def test_an_old_size_has_its_age() -> None:
    assert "old" in fragments.topic_size(5_000_000, 120.0) and "old" not in fragments.topic_size(5_000_000, None)
    assert fragments.topic_size(None, 120.0) == fragments.size_cell(None)


@pytest.mark.parametrize("status", GROUP_STATUSES)
def test_the_status_of_a_group_has_the_tone_of_its_alert(status: LagStatus) -> None:
    """A group that fell behind was red beside its amber alert."""
    (alert,) = alerts(AlertFacts(groups=(GroupFacts("billing", status, "orders-1", 9, 9_000, lost_records=9),)))
    tone = "red" if alert.severity is Severity.AT_RISK else "amber"
    assert f"st-{tone}" in fragments.lag_status(status)
    assert status is LagStatus.DATA_LOST or f"st-{tone}" in fragments.share_lag_status(status)
