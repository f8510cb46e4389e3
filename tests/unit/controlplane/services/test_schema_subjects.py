"""Changes of the registry and their audit rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controlplane.clients.schema_subjects import NewSchema, SchemaReference
from controlplane.domain.errors import Rejected
from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.services import schema_subjects as services
from tests.unit.controlplane.world import World
from tests.unit.registry_server import RegistryState, running_registry
from weir_common.schema_formats import SchemaType

GOOD, BAD = NewSchema(SchemaType.AVRO, '"int"'), NewSchema(SchemaType.AVRO, '"incompatible"')
WHO = {"actor": "alice", "comment": "new field"}


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[RegistryState]:
    with running_registry() as found:
        settings.WEIR = replace(settings.WEIR, schema_registry_url=found.url)
        yield found


def rows() -> list[tuple[str, str, str]]:
    return list(Change.objects.order_by("id").values_list("verb", "object_name", "outcome"))


def test_register_is_audited_with_its_outcome(state: RegistryState) -> None:
    made = services.register_schema("a", GOOD, **WHO)
    assert (made.subject, made.version, made.id) == ("a", 1, 1)
    with pytest.raises(Rejected) as rejection:
        services.register_schema("a", BAD, **WHO)
    assert rejection.value.field == "definition"
    assert rows() == [("schema.register", "a", Outcome.CONFIRMED), ("schema.register", "a", Outcome.REJECTED)]


def test_a_missing_value_is_rejected_before_a_request_to_the_registry(state: RegistryState) -> None:
    for subject, schema, comment in (("", GOOD, "x"), ("a", replace(GOOD, definition=" "), "x"), ("a", GOOD, "")):
        with pytest.raises(Rejected):
            services.register_schema(subject, schema, actor="alice", comment=comment)
    assert state.requests == [] and {outcome for *_, outcome in rows()} == {Outcome.REJECTED}


def test_a_registry_that_does_not_respond_leaves_an_unknown_outcome(settings: Any, world: World) -> None:
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:9")
    with pytest.raises(Rejected) as rejection:
        services.register_schema("a", GOOD, **WHO)
    assert rejection.value.field == ""
    assert rows() == [("schema.register", "a", Outcome.UNKNOWN)]


def test_a_check_changes_nothing(state: RegistryState) -> None:
    state.add("a", '"int"')
    assert services.check_schema("a", GOOD).compatible
    checked = services.check_schema("a", BAD)
    assert not checked.compatible and len(checked.reasons) == 1
    with pytest.raises(Rejected) as rejection:
        services.check_schema("a", NewSchema(SchemaType.AVRO, "invalid"))
    assert rejection.value.field == "definition" and rows() == []


def test_deletions_are_soft_and_audited(state: RegistryState) -> None:
    state.add("a", '"int"')
    state.add("a", '"long"')
    services.delete_version("a", 1, **WHO)
    services.delete_subject("a", **WHO)
    with pytest.raises(Rejected):
        services.delete_subject("a", **WHO)
    assert next(path for method, path in state.requests if method == "DELETE") == "/subjects/a/versions/1"
    outcomes = [outcome for *_, outcome in rows()]
    assert outcomes == [Outcome.CONFIRMED, Outcome.CONFIRMED, Outcome.REJECTED]


def test_references_are_typed_as_lines() -> None:
    schema = services.new_schema("AVRO", "{}", "shop.Customer customer 1\n\n b c 22")
    assert schema.references == (SchemaReference("shop.Customer", "customer", 1), SchemaReference("b", "c", 22))
    for wrong in ("a b", "a b c", "a b 1 2", "a b 1234567890"):
        with pytest.raises(Rejected) as rejection:
            services.new_schema("AVRO", "{}", wrong)
        assert rejection.value.field == "references"
