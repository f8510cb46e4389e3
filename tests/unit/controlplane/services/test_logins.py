"""Failed logins: counted per name and address, forgotten after a success or a day, limited in number."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.clients import logins as delays
from controlplane.domain.external_login import LoginSource
from controlplane.models import LoginFailure
from controlplane.services import logins

pytestmark = pytest.mark.django_db


def test_a_name_waits_at_one_address_after_some_failures() -> None:
    for _ in range(delays.FREE_BY_PLACE - 1):
        logins.count_failed_login("ann", "10.0.0.1")
    assert logins.wait_s("ann", "10.0.0.1") == 0
    logins.count_failed_login("ann", "10.0.0.1")
    assert 0 < logins.wait_s("ann", "10.0.0.1") <= 1
    assert logins.wait_s("ann", "10.0.0.2") == logins.wait_s("bob", "10.0.0.1") == 0
    logins.record_successful_login("ann", "10.0.0.1", "ann", LoginSource.PASSWORD)
    assert logins.wait_s("ann", "10.0.0.1") == 0


def test_failures_from_many_addresses_delay_the_name_everywhere() -> None:
    for i in range(delays.FREE_BY_NAME + 3):
        logins.count_failed_login("ann", f"10.0.0.{i}")
    assert 0 < logins.wait_s("ann", "elsewhere") <= delays.WAIT_BY_NAME_SECONDS_MAX


def test_old_failures_are_forgotten() -> None:
    logins.count_failed_login("ann", "10.0.0.1")
    LoginFailure.objects.update(last_at=timezone.now() - timedelta(seconds=delays.FORGOTTEN_SECONDS + 1))
    logins.count_failed_login("bob", "10.0.0.1")
    assert set(LoginFailure.objects.values_list("name", flat=True)) == {"bob"}


def test_the_number_of_rows_is_limited_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "ROWS_MAX", 4)
    for name in ("ann", "bob", "eve"):
        logins.count_failed_login(name, "10.0.0.1")
    assert LoginFailure.objects.count() == 4
    assert set(LoginFailure.objects.values_list("name", flat=True)) == {"bob", "eve"}


def test_names_and_addresses_are_cut_to_their_columns() -> None:
    logins.count_failed_login("x" * 1_000, "")
    assert {(len(r.name), r.address) for r in LoginFailure.objects.all()} == {(150, "unknown"), (150, "")}
