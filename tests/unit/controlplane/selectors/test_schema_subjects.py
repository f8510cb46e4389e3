"""Pages about subjects of a registry, with a registry on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controlplane.domain.errors import Rejected
from controlplane.selectors import schema_subjects as selectors
from tests.unit.controlplane.world import World
from tests.unit.registry_server import RegistryState, running_registry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[RegistryState]:
    with running_registry() as found:
        settings.WEIR = replace(settings.WEIR, schema_registry_url=found.url)
        yield found


def test_a_page_of_subjects_asks_for_its_own_rows_only(state: RegistryState, world: World) -> None:
    world.topic("orders", (1, 2))
    for name in ("orders-value", "orders-key", "gone-value", "other"):
        state.add(name, ORDER)
    state.add("orders-value", ORDER)
    state.levels["orders-value"] = "FULL"
    page = selectors.subject_list(per_page=2)
    assert [r.name for r in page.rows] == ["gone-value", "orders-key"] and page.total == 4
    assert not any("orders-value" in path for _, path in state.requests)
    (row,) = selectors.subject_list(query="ORDERS-v").rows
    assert (row.versions, row.type, row.compatibility, row.topic) == (2, "AVRO", "FULL", "orders")
    rows = selectors.subject_list(sort="-name").rows
    assert [(r.name, r.topic) for r in rows][:2] == [("other", None), ("orders-value", "orders")]
    assert page.compatibility == "BACKWARD" and page.configured and page.problem == ""


def test_details_that_do_not_arrive_in_time_are_unknown(state: RegistryState, monkeypatch: pytest.MonkeyPatch) -> None:
    state.add("a", ORDER)
    monkeypatch.setattr(selectors, "DETAIL_SECONDS", 0.2)
    client = selectors.required_registry()
    state.waiting = True
    (row,) = selectors._rows(client, ["a"])
    assert (row.versions, row.type, row.compatibility) == (None, None, None)
    state.released.set()


def test_a_registry_that_is_not_there_is_a_problem(settings: Any, world: World) -> None:
    settings.WEIR = replace(settings.WEIR, schema_registry_url="")
    assert not selectors.subject_list().configured
    with pytest.raises(Rejected):
        selectors.subject_detail("a")
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:9")
    page = selectors.subject_list()
    assert page.configured and page.rows == [] and "did not respond" in page.problem
    with pytest.raises(Rejected, match="did not respond"):
        selectors.subject_detail("a")
    with pytest.raises(Rejected, match="did not respond"):
        selectors.difference("a", 1, 2)


def test_one_version_and_its_difference(state: RegistryState) -> None:
    state.add("orders-value", ORDER)
    state.add("orders-value", {**ORDER, "name": "Order2"}, references=[{"name": "c", "subject": "other", "version": 1}])
    state.add("other", ORDER)
    found = selectors.subject_detail("orders-value")
    assert found is not None and (found.version, found.versions, found.topic) == (2, [1, 2], None)
    assert found.definition.splitlines()[1] == '  "type": "record",' and found.references[0].subject == "other"
    used = selectors.subject_detail("other", 1)
    assert used is not None and used.referenced_by == [2]
    assert selectors.subject_detail("orders-value", 9) is None
    changed = selectors.difference("orders-value", 2, 1)
    assert changed is not None and changed.complete
    assert [line for line in changed.lines if line[0] in "+-"] == [
        "--- version 1",
        "+++ version 2",
        '-  "name": "Order",',
        '+  "name": "Order2",',
    ]
    assert selectors.difference("orders-value", 2, 9) is None


def test_the_source_of_protobuf_and_text_that_is_not_json_stay() -> None:
    version = selectors.SubjectVersion("a", 1, 1, "PROTOBUF", 'syntax = "proto3";', [])
    assert selectors.format_definition(version) == 'syntax = "proto3";'
    assert selectors.format_definition(replace(version, type="AVRO", definition="{")) == "{"
