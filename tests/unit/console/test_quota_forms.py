"""Forms of client quotas."""

from __future__ import annotations

from console.quota_forms import QuotaForm, QuotaLimitsForm, current_rate
from controlplane.selectors.clients import ClientRates


def test_an_empty_name_is_the_default_and_rates_are_in_bytes() -> None:
    form = QuotaForm({"applies_to": "user and client-id", "user": "ann", "client_id": "", "producer_byte_rate": "1.5"})
    assert form.is_valid(), form.errors
    assert form.entity() == {"user": "ann", "client-id": None}
    assert form.limits() == {"producer_byte_rate": 1_500_000}


def test_names_and_limits_of_another_entity_type_are_rejected() -> None:
    form = QuotaForm({"applies_to": "ip", "user": "ann", "producer_byte_rate": "1", "connection_creation_rate": "5"})
    assert not form.is_valid() and set(form.errors) == {"user", "producer_byte_rate"}
    form = QuotaForm({"applies_to": "user", "ip": "::1", "connection_creation_rate": "5"})
    assert not form.is_valid() and set(form.errors) == {"ip", "connection_creation_rate"}


def test_an_edited_quota_starts_with_its_limits_and_an_empty_field_removes_one() -> None:
    now = {"producer_byte_rate": 2_500_000.0, "request_percentage": 50.0}
    form = QuotaLimitsForm({"user": None}, now)
    assert "connection_creation_rate" not in form.fields
    assert (form["producer_byte_rate"].value(), form["request_percentage"].value()) == (2.5, 50.0)
    form = QuotaLimitsForm({"user": None}, now, {"producer_byte_rate": "", "request_percentage": "60", "comment": "x"})
    assert form.is_valid() and form.limits()["producer_byte_rate"] is None
    assert form.limits()["request_percentage"] == 60
    shown = [f.name for f in QuotaLimitsForm({"ip": None}, {}).visible_fields()]
    assert shown == ["connection_creation_rate", "comment"]


def test_each_field_names_the_entities_that_need_it() -> None:
    form = QuotaForm()
    when = {name: form.fields[name].widget.attrs.get("data-when") for name in form.fields}
    assert when["user"] == "applies_to=user|user and client-id"
    assert when["client_id"] == "applies_to=client-id|user and client-id"
    assert when["ip"] == when["connection_creation_rate"] == "applies_to=ip"
    assert when["producer_byte_rate"] == "applies_to=user|client-id|user and client-id"
    assert when["applies_to"] is None and when["comment"] is None
    assert "seen" not in form.fields, "a new quota has no earlier limits"


def test_a_current_rate_names_the_broker_with_the_largest_one() -> None:
    one = current_rate("client-id shop", {2: 1_500_000.0}, [], 1)
    assert one == "Current rate of client-id shop: 1.5 MB/s at broker 2."
    many = current_rate("client-id shop", {1: 500_000.0, 2: 1_500_000.0}, [3], 2)
    assert many == (
        "Current rate of client-id shop: 1.5 MB/s at broker 2, 2.0 MB/s at 2 brokers together. Brokers without a response: 3."
    )
    assert current_rate("user ann", {}, [], 2) == "user ann has no connection now."


def test_a_client_of_brokers_that_do_not_respond_is_not_said_to_be_absent() -> None:
    assert current_rate("user ann", {}, [1, 2], 0) == "The current rate of user ann is unknown: no broker responded."
    some = current_rate("user ann", {}, [2], 1)
    assert some == "user ann has no connection to the brokers that responded. Brokers without a response: 2."


def test_the_current_rates_are_beside_the_byte_rates() -> None:
    form = QuotaForm()
    form.show_rates("user <ann>", ClientRates(received={1: 2e6}, sent={1: 3e6}, brokers_silent=[], responses=1))
    assert "user &lt;ann&gt;: 2.0 MB/s at broker 1" in str(form["producer_byte_rate"].help_text)
    assert "user &lt;ann&gt;: 3.0 MB/s at broker 1" in str(form["consumer_byte_rate"].help_text)
    assert "Current rate" not in str(form["request_percentage"].help_text)
