"""The pages of the schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from tests.unit.controlplane.world import World
from tests.unit.registry_server import RegistryState, running_registry

SUBJECT = "/schemas/subject/?name=orders-value"
REGISTER = "/schemas/register/?name=orders-value"
FORM = {"subject": "orders-value", "type": "AVRO", "references": "", "comment": "new field"}


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[RegistryState]:
    world.topic("orders", (1, 2))
    with running_registry() as found:
        settings.WEIR = replace(settings.WEIR, schema_registry_url=found.url)
        found.add("orders-value", '"int"')
        found.add("orders-value", '"long"')
        yield found


def text_of(client: Client, address: str, status: int = 200) -> str:
    page = client.get(address)
    assert page.status_code == status
    return page.content.decode()


def test_the_list_and_one_subject(state: RegistryState, viewer: Client) -> None:
    listed = text_of(viewer, "/schemas/")
    assert 'href="/schemas/subject/?name=orders-value"' in listed and "BACKWARD" in listed
    one = text_of(viewer, f"{SUBJECT}&other=1")
    assert "by TopicNameStrategy" in one and "-&quot;int&quot;" in one and "+&quot;long&quot;" in one
    assert "Compared with version" in one
    text_of(viewer, "/schemas/subject/?name=gone", 404)


def test_a_registry_that_does_not_respond_is_named_with_what_to_do(settings: Any, world: World, viewer: Client) -> None:
    settings.WEIR = replace(settings.WEIR, schema_registry_url="")
    assert "Set WEIR_SCHEMA_REGISTRY_URL" in text_of(viewer, "/schemas/")
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:9")
    page = text_of(viewer, "/schemas/")
    assert "did not respond" in page and "Check that the registry runs" in page
    assert "did not respond" in text_of(viewer, SUBJECT, 409)


def test_a_schema_is_checked_and_registered(state: RegistryState, operator: Client) -> None:
    assert "&quot;long&quot;" in text_of(operator, REGISTER), "the latest version is the start"
    checked = operator.post(REGISTER, {**FORM, "definition": '"incompatible"', "step": "check"}).content.decode()
    assert "Not compatible" in checked and "READER_FIELD_MISSING_DEFAULT_VALUE" in checked
    fine = operator.post(REGISTER, {**FORM, "definition": '"string"', "step": "check"}).content.decode()
    assert "Compatible: the subject accepts this schema." in fine and len(state.subjects["orders-value"]) == 2
    rejected = operator.post(REGISTER, {**FORM, "definition": '"incompatible"'})
    assert rejected.status_code == 400 and "is incompatible" in rejected.content.decode()
    made = operator.post(REGISTER, {**FORM, "definition": '"string"'})
    assert made.status_code == 302 and made.headers["Location"] == SUBJECT
    assert len(state.subjects["orders-value"]) == 3


def test_a_deletion_needs_the_name_and_a_reason(state: RegistryState, operator: Client) -> None:
    address = "/schemas/delete/?name=orders-value"
    assert "soft" in text_of(operator, address)
    assert operator.post(address, {"confirm_name": "orders", "comment": "old"}).status_code == 400
    given = {"confirm_name": "orders-value", "comment": "old"}
    assert operator.post(f"{address}&version=1", given).status_code == 302
    assert state.subjects["orders-value"][0] is None
    assert operator.post(address, given).status_code == 302
    assert operator.post(address, given).status_code == 400, "it is gone"


def test_viewers_change_nothing(state: RegistryState, viewer: Client) -> None:
    for address in (REGISTER, "/schemas/delete/?name=orders-value"):
        assert viewer.get(address).status_code == 403
        assert viewer.post(address, FORM).status_code == 403
    assert len(state.subjects["orders-value"]) == 2
