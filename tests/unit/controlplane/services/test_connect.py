"""Changes of connectors and their audit rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controlplane.domain.connect import MASK
from controlplane.domain.errors import AlreadyExists, MisfitValue, Rejected
from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.selectors.connect import connector_detail
from controlplane.services import connect as services
from tests.unit.connect_server import WorkerState, running_worker
from tests.unit.controlplane.world import World

WHO = {"actor": "alice", "comment": "new table"}
CONFIG = {
    "connector.class": "shop.JdbcSink",
    "topics": "orders",
    "connection.url": "jdbc:x://shop:url-secret@db/x",
    "connection.auth": "typed-secret",
    "connection.password": "named-secret",
}
SECRETS = ("url-secret", "typed-secret", "named-secret")


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[WorkerState]:
    with running_worker() as found:
        settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (found.url,)),))
        yield found


def rows() -> list[tuple[str, str, str]]:
    return list(Change.objects.order_by("id").values_list("verb", "object_name", "outcome"))


def stored_text() -> str:
    return str(list(Change.objects.values()))


def test_a_connector_is_created_and_the_audit_log_has_no_secret(state: WorkerState) -> None:
    services.create_connector("etl", "jdbc", CONFIG, **WHO)
    assert state.connectors["jdbc"] == {**CONFIG, "name": "jdbc"}
    assert rows() == [("connector.create", "etl/jdbc", Outcome.CONFIRMED)]
    assert Change.objects.get().after["connection.auth"] == MASK
    assert not [s for s in SECRETS if s in stored_text()]
    with pytest.raises(AlreadyExists):
        services.create_connector("etl", "jdbc", CONFIG, **WHO)


def test_all_errors_of_a_config_are_reported_at_once(state: WorkerState) -> None:
    wrong = {"connector.class": "shop.JdbcSink", "tasks.max": "many", "connection.auth": "typed-secret"}
    with pytest.raises(MisfitValue) as rejection:
        services.create_connector("etl", "jdbc", wrong, **WHO)
    assert [path for path, _ in rejection.value.faults] == ["$.tasks.max", "$.connection.url"]
    assert state.connectors == {} and rows() == [("connector.create", "etl/jdbc", Outcome.REJECTED)]
    assert "typed-secret" not in stored_text()
    checked = services.validate_config("etl", "jdbc", wrong)
    assert not checked.valid and checked.error_count == 2 and len(rows()) == 1
    assert {f.name: len(f.errors) for f in checked.fields if f.errors} == {"tasks.max": 1, "connection.url": 1}


def test_a_class_that_the_workers_do_not_have_is_an_error_of_its_config(state: WorkerState) -> None:
    for config in ({"connector.class": "shop.Unknown"}, {"topics": "orders"}):
        with pytest.raises(MisfitValue) as rejection:
            services.create_connector("etl", "jdbc", config, **WHO)
        assert [path for path, _ in rejection.value.faults] == ["$.connector.class"]


def test_a_change_keeps_hidden_values_and_records_both_sides(state: WorkerState) -> None:
    state.connectors["jdbc"] = {**CONFIG, "name": "jdbc"}
    shown = connector_detail("etl", "jdbc")
    assert shown is not None
    edited = {c.name: c.value for c in shown.config} | {"topics": "orders,customers"}
    services.change_connector("etl", "jdbc", edited, version=shown.version, **WHO)
    assert state.connectors["jdbc"] == {**CONFIG, "name": "jdbc", "topics": "orders,customers"}
    row = Change.objects.get()
    assert (row.before, row.after) == ({"topics": "orders"}, {"topics": "orders,customers"})
    with pytest.raises(Rejected, match="was changed after you opened it"):
        services.change_connector("etl", "jdbc", edited, version=shown.version, **WHO)


def test_a_hidden_value_of_another_config_is_rejected(state: WorkerState) -> None:
    state.connectors["jdbc"] = {**CONFIG, "name": "jdbc"}
    edited = {**CONFIG, "connection.url": f"jdbc:x://shop:{MASK}@elsewhere/x"}
    with pytest.raises(MisfitValue) as rejection:
        services.change_connector("etl", "jdbc", edited, **WHO)
    assert [path for path, _ in rejection.value.faults] == ["$.connection.url"]
    with pytest.raises(MisfitValue):
        services.create_connector("etl", "new", {**CONFIG, "connection.auth": MASK}, **WHO)


def test_a_validation_shows_the_effect_of_a_change_without_secrets(state: WorkerState) -> None:
    state.connectors["jdbc"] = {**CONFIG, "name": "jdbc"}
    checked = services.validate_config(
        "etl", "jdbc", {**CONFIG, "connection.auth": "new-secret", "auto.create": "true"}
    )
    found = {c.name: (c.before, c.after) for c in checked.changes}
    assert found == {"connection.auth": (MASK, MASK), "auto.create": (None, "true")}
    assert checked.valid and "secret" not in str(checked)


@pytest.mark.parametrize("name", ["a/b", "a\\b", "50%", "a;b", "..", " ", "a\nb", "x" * 201])
def test_a_name_that_workers_cannot_address_is_rejected(state: WorkerState, name: str) -> None:
    with pytest.raises(Rejected) as rejection:
        services.create_connector("etl", name, CONFIG, **WHO)
    assert rejection.value.field == "name" and state.connectors == {}


def test_pause_resume_stop_restart_and_delete_are_audited(state: WorkerState) -> None:
    state.add("jdbc", tasks=2)
    state.fail_task("jdbc", 1)
    services.pause_connector("etl", "jdbc", actor="alice")
    assert state.states["jdbc"] == "PAUSED"
    services.resume_connector("etl", "jdbc", actor="alice")
    services.restart_task("etl", "jdbc", 1, actor="alice")
    assert ("jdbc", 1) not in state.states
    services.restart_connector("etl", "jdbc", include_tasks=True, only_failed=False, actor="alice")
    assert state.requests[-1][1].endswith("?includeTasks=true&onlyFailed=false")
    services.stop_connector("etl", "jdbc", **WHO)
    services.delete_connector("etl", "jdbc", **WHO)
    assert state.connectors == {}
    verbs = ["pause", "resume", "restart", "restart", "stop", "delete"]
    assert rows() == [(f"connector.{v}", "etl/jdbc", Outcome.CONFIRMED) for v in verbs]


def test_a_stop_and_a_deletion_need_a_reason(state: WorkerState) -> None:
    state.add("jdbc")
    for service in (services.stop_connector, services.delete_connector):
        with pytest.raises(Rejected) as rejection:
            service("etl", "jdbc", actor="alice", comment=" ")
        assert rejection.value.field == "comment"
    assert state.requests == [] and {outcome for *_, outcome in rows()} == {Outcome.REJECTED}


def test_a_rejection_of_the_worker_has_its_words(state: WorkerState) -> None:
    state.add("jdbc")
    text = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    state.statuses["/connectors/jdbc/pause"] = (409, {"message": text})
    with pytest.raises(Rejected, match="worker rebalance"):
        services.pause_connector("etl", "jdbc", actor="alice")
    with pytest.raises(Rejected):
        services.pause_connector("etl", "gone", actor="alice")
    assert [outcome for *_, outcome in rows()] == [Outcome.REJECTED, Outcome.REJECTED]


def test_a_worker_that_fails_leaves_an_unknown_outcome(state: WorkerState, settings: Any) -> None:
    state.add("jdbc")
    state.statuses["/connectors/jdbc/pause"] = (500, {"message": "Request timed out"})
    with pytest.raises(Rejected, match="Look at the connector"):
        services.pause_connector("etl", "jdbc", actor="alice")
    settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", ("http://127.0.0.1:9",)),))
    with pytest.raises(Rejected, match="did not respond"):
        services.pause_connector("etl", "jdbc", actor="alice")
    assert [outcome for *_, outcome in rows()] == [Outcome.UNKNOWN, Outcome.REJECTED], "nobody received the second one"
