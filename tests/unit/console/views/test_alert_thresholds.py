"""The pages of thresholds."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import Alert, AlertThreshold, AlertThresholdOverride, Broker
from controlplane.selectors.alert_thresholds import applied_thresholds
from controlplane.services import alerts
from controlplane.services.alert_thresholds import alter_threshold, override_threshold
from tests.unit.controlplane.world import World

EDIT = "/alerts/thresholds/disk_free_low/"


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_an_administrator_changes_and_resets_a_threshold(administrator: Client) -> None:
    assert 'value="10"' in administrator.get(EDIT).content.decode()
    done = administrator.post(EDIT, {"value": "12.5", "comment": "small disks"}, follow=True)
    page = done.content.decode()
    assert "Threshold Free disk space: degraded changed" in page and "<b>12.5 %</b>" in page and "root" in page
    administrator.post(EDIT, {"value": "", "comment": "usual disks"})
    assert not AlertThreshold.objects.exists()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"value": "200", "comment": "x"}, "Enter a value from 0 to 90"),
        ({"value": "1", "comment": "x"}, "may not be greater than"),
        ({"value": "20", "comment": ""}, "Give a reason"),
    ],
)
def test_a_rejection_is_beside_its_field(administrator: Client, form: dict[str, str], text: str) -> None:
    response = administrator.post(EDIT, form)
    assert response.status_code == 400 and text in response.content.decode()
    assert not AlertThreshold.objects.exists()


def test_operators_and_viewers_read_only(operator: Any, viewer: Client) -> None:
    for client in (operator, viewer):
        page = client.get("/alerts/thresholds/").content.decode()
        assert "2 h" in page and "never" in page
        assert client.post(EDIT, {"value": "20", "comment": "x"}).status_code == 403
    assert not AlertThreshold.objects.exists()


def test_an_unknown_threshold_is_not_found(administrator: Client) -> None:
    assert administrator.get("/alerts/thresholds/no_such/").status_code == 404


OVERRIDE = "/alerts/thresholds/disk_free_low/override/"


def test_an_operator_sets_and_removes_the_value_of_a_broker(operator: Client, viewer: Client) -> None:
    done = operator.post(OVERRIDE, {"subject": "2", "value": "25", "comment": "small disk"}, follow=True)
    page = done.content.decode()
    assert "changed for 2" in page and "<b>25 %</b>" in page and f"{OVERRIDE}?subject=2" in page
    assert 'value="25"' in operator.get(f"{OVERRIDE}?subject=2").content.decode()
    assert viewer.post(OVERRIDE, {"subject": "2", "value": "30", "comment": "x"}).status_code == 403
    wrong = operator.post(OVERRIDE, {"subject": "two", "value": "25", "comment": "x"})
    assert wrong.status_code == 400 and "Enter the id of a broker" in wrong.content.decode()
    operator.post(OVERRIDE, {"subject": "2", "value": "", "comment": "new disk"})
    assert not AlertThresholdOverride.objects.exists()
    assert operator.get("/alerts/thresholds/group_alerts_max/override/").status_code == 404


@pytest.mark.parametrize(
    ("alert", "address"), [("7", "/alerts/7/"), ("x", "/alerts/thresholds/"), ("", "/alerts/thresholds/")]
)
def test_the_form_leads_back_to_the_alert_whose_threshold_it_changes(
    operator: Client, alert: str, address: str
) -> None:
    """The end of the alert could not be watched: the list of all thresholds was shown."""
    form = f"{OVERRIDE}?subject=2&alert={alert}"
    assert f'href="{address}">Cancel' in operator.get(form).content.decode()
    assert operator.post(form, {"subject": "2", "value": "25", "comment": "x"}).headers["Location"] == address


def test_the_page_of_an_alert_shows_the_threshold_that_decided(operator: Client, world: World) -> None:
    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=150)
    override_threshold("disk_free_low", "2", 20, actor="alice", comment="x")
    alerts.evaluate()
    page = operator.get(f"/alerts/{Alert.objects.get().pk}/").content.decode()
    assert "own value of this broker" in page and "value of the cluster" in page and f"{OVERRIDE}?subject=2" in page
    assert "<h2>Alert thresholds</h2>" in page and "change for this broker" in page


def test_the_maximum_number_of_alerts_is_no_threshold_of_one_alert() -> None:
    assert "group_alerts_max" not in [t.name for t in applied_thresholds("group_stopped", "billing")]
    assert "group_alerts_max" in [t.name for t in applied_thresholds("group_stopped", "")]


def test_a_threshold_that_another_operator_changed_is_not_overwritten(administrator: Client) -> None:
    opened = administrator.get(EDIT).content.decode()
    assert '<input type="hidden" name="version" value="0"' in opened
    alter_threshold("disk_free_low", 15, actor="bob")
    stale = administrator.post(EDIT, {"value": "20", "comment": "x", "version": "0"})
    assert stale.status_code == 400 and "was changed after this form was opened" in stale.content.decode()
    assert AlertThreshold.objects.get().value == 15
    assert administrator.post(EDIT, {"value": "20", "comment": "x", "version": "1"}).status_code == 302


def test_the_value_of_an_object_that_another_operator_changed_is_not_overwritten(operator: Client) -> None:
    assert '<input type="hidden" name="version" value="0"' in operator.get(f"{OVERRIDE}?subject=2").content.decode()
    override_threshold("disk_free_low", "2", 20, actor="bob")
    stale = operator.post(OVERRIDE, {"subject": "2", "value": "25", "comment": "x", "version": "0"})
    assert stale.status_code == 400 and "was changed after this form was opened" in stale.content.decode()
    assert AlertThresholdOverride.objects.get().value == 20
    override_threshold("disk_free_low", "2", None, actor="bob")
    again = {"subject": "2", "value": "25", "comment": "x"}
    assert operator.post(OVERRIDE, {**again, "version": "0"}).status_code == 400, "an ended value is a change, too"
    assert operator.post(OVERRIDE, {**again, "version": "2"}).status_code == 302


def test_the_page_of_an_ended_alert_names_the_threshold_that_was_changed(operator: Client, world: World) -> None:
    """The alert ended because its threshold was changed, but its page said nothing about that."""
    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=150)
    alter_threshold("disk_free_low", 12, actor="early")
    alter_threshold("disk_free_low", 20, actor="alice")
    alerts.evaluate()
    alert = Alert.objects.get()
    override_threshold("disk_free_low", "1", 30, actor="another")
    override_threshold("disk_free_low", "2", 10, actor="bob")
    alter_threshold("group_stall", 90, actor="unrelated")
    alerts.evaluate()
    page = " ".join(operator.get(f"/alerts/{alert.pk}/").content.decode().split())
    assert "Resolved" in page and page.count("Threshold changed") == 1
    assert "20 % → 10 %" in page and "bob" in page
    alter_threshold("disk_free_low", 22, actor="late")
    assert operator.get(f"/alerts/{alert.pk}/").content.decode().count("Threshold changed") == 1
