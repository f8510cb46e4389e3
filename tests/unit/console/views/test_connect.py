"""The pages of Kafka Connect."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from controlplane.models import Change
from tests.unit.connect_server import WorkerState, running_worker
from tests.unit.controlplane.world import World

ONE = "cluster=etl&name=jdbc"
CONFIG = {
    "connector.class": "shop.JdbcSink",
    "topics": "orders",
    "connection.url": "jdbc:x://shop:url-secret@db/x",
    "connection.auth": "typed-secret",
    "transforms.drop.type": "shop.Drop",
}
FORM = {
    "c:topics": "orders",
    "c:connection.url": "jdbc:x",
    "extra": "transforms.drop.type=shop.Drop",
    "comment": "new table",
}


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[WorkerState]:
    world.topic("orders", (1, 2))
    with running_worker() as found:
        settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (found.url,)),))
        found.connectors["jdbc"] = {**CONFIG, "name": "jdbc"}
        yield found


def text_of(client: Client, address: str, status: int = 200) -> str:
    page = client.get(address)
    assert page.status_code == status
    return page.content.decode()


def test_clusters_and_connectors_with_failed_tasks(state: WorkerState, viewer: Client) -> None:
    state.fail_task("jdbc")
    listed = text_of(viewer, "/connect/")
    assert (
        "4.3.1" in listed and state.cluster_id in listed and "/connect/connector/?cluster=etl&amp;name=jdbc" in listed
    )
    assert 'href="/groups/connect-jdbc/"' in listed and "JdbcSink" in listed
    assert "name=jdbc" in text_of(viewer, "/connect/?state=failed"), "it runs, and a task of it failed"
    assert ">With failures</a>" in listed, "Failed would be a state"
    state.cluster_id = "elsewhere"
    assert 'href="/groups/connect-jdbc/"' not in text_of(viewer, "/connect/"), "it is a group of another cluster"
    assert "No matching connectors." in text_of(viewer, "/connect/?state=paused")


def test_one_connector_with_the_trace_of_a_failed_task_and_hidden_secrets(state: WorkerState, viewer: Client) -> None:
    state.fail_task("jdbc", trace="cannot log in with typed-secret")
    state.topics["jdbc"] = ["orders"]
    state.offsets["jdbc"] = [{"partition": {"kafka_partition": 0}, "offset": {"kafka_offset": 9}}]
    page = text_of(viewer, f"/connect/connector/?{ONE}")
    assert "cannot log in with ********" in page and "jdbc:x://shop:********@db/x" in page
    assert "typed-secret" not in page and "url-secret" not in page
    assert 'href="/topics/orders/"' in page and 'href="/groups/connect-jdbc/"' in page and "kafka_offset" in page
    text_of(viewer, "/connect/connector/?cluster=etl&name=gone", 404)


def test_workers_that_do_not_respond_are_named_with_what_to_do(settings: Any, world: World, operator: Client) -> None:
    settings.WEIR = replace(settings.WEIR, connect_urls=())
    assert "Set WEIR_CONNECT_URLS" in text_of(operator, "/connect/")
    assert "Set WEIR_CONNECT_URLS" in text_of(operator, "/connect/new/")
    settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", ("http://127.0.0.1:9",)),))
    page = text_of(operator, "/connect/")
    assert "Worker http://127.0.0.1:9 of Connect cluster etl did not respond" in page
    assert "Check that its workers run" in page
    assert "did not respond" in text_of(operator, f"/connect/connector/?{ONE}", 409)
    assert "did not respond" in text_of(operator, "/connect/new/", 409)


def test_a_connector_is_created_after_a_validation_with_all_errors_beside_their_fields(
    state: WorkerState, operator: Client
) -> None:
    assert "class=shop.JdbcSink" in text_of(operator, "/connect/new/")
    address = "/connect/new/?cluster=etl&class=shop.JdbcSink"
    empty = text_of(operator, address)
    assert "Address of the database." in empty and "Missing required" not in empty
    wrong = {
        **FORM,
        "name": "new",
        "c:connection.url": "",
        "c:tasks.max": "many",
        "extra": "no equals",
        "step": "check",
    }
    page = operator.post(address, wrong)
    text = html.unescape(page.content.decode())
    assert page.status_code == 400
    for field, error in (
        ("id_c:connection.url_error", "Missing required configuration"),
        ("id_c:tasks.max_error", "Not a number"),
        ("id_extra_error", "has no '='"),
    ):
        assert error in text.split(f'id="{field}"', 1)[1].split("</p>", 1)[0]
    assert operator.post(address, {**wrong, "step": "", "extra": ""}).status_code == 400
    checked = operator.post(address, {**FORM, "name": "new", "step": "check", "comment": ""})
    assert checked.status_code == 200 and "The workers accept this config" in checked.content.decode()
    assert "new" not in state.connectors
    made = operator.post(address, {**FORM, "name": "new"})
    assert made.status_code == 302 and made.headers["Location"] == "/connect/connector/?cluster=etl&name=new"
    assert state.connectors["new"] == {
        "name": "new",
        "connector.class": "shop.JdbcSink",
        "topics": "orders",
        "connection.url": "jdbc:x",
        "transforms.drop.type": "shop.Drop",
    }


def test_a_config_is_changed_without_its_secrets_being_shown(state: WorkerState, operator: Client) -> None:
    address = f"/connect/edit/?{ONE}"
    page = text_of(operator, address)
    assert "typed-secret" not in page and "transforms.drop.type=shop.Drop" in page
    version = page.split('name="version" value="', 1)[1].split('"', 1)[0]
    sent = {
        "c:topics": "orders,customers",
        "c:connection.url": "jdbc:x://shop:********@db/x",
        "c:connection.auth": "********",
        "extra": "transforms.drop.type=shop.Drop",
        "version": version,
        "comment": "one more topic",
    }
    checked = operator.post(address, {**sent, "step": "check"}).content.decode()
    assert "orders,customers" in checked and state.connectors["jdbc"]["topics"] == "orders"
    assert operator.post(address, sent).status_code == 302
    assert state.connectors["jdbc"] == {**CONFIG, "name": "jdbc", "topics": "orders,customers"}
    stale = operator.post(address, sent)
    assert stale.status_code == 400 and "was changed after you opened it" in stale.content.decode()
    unknown = operator.post(address, {**sent, "version": "", "c:connection.url": "jdbc:x://shop:********@elsewhere/x"})
    assert unknown.status_code == 400 and "The shown value is hidden" in unknown.content.decode()


def test_a_config_can_be_changed_without_the_definition_of_its_class(state: WorkerState, operator: Client) -> None:
    path = "/connector-plugins/shop.JdbcSink/config/validate"
    state.statuses[path] = (500, {"message": "no class def found"})
    page = text_of(operator, f"/connect/edit/?{ONE}")
    assert "no class def found" in page and "topics=orders" in page


def test_pause_has_an_undo_and_tasks_restart(state: WorkerState, operator: Client) -> None:
    paused = operator.post(f"/connect/act/pause/?{ONE}", follow=True).content.decode()
    assert state.states["jdbc"] == "PAUSED" and "/connect/act/resume/?cluster=etl&amp;name=jdbc" in paused
    operator.post(f"/connect/act/resume/?{ONE}")
    assert state.states["jdbc"] == "RUNNING"
    state.fail_task("jdbc")
    operator.post(f"/connect/act/restart-task/?{ONE}&task=0")
    assert ("jdbc", 0) not in state.states
    assert operator.get(f"/connect/act/pause/?{ONE}").status_code == 302 and state.states["jdbc"] == "RUNNING"
    assert operator.post(f"/connect/act/delete/?{ONE}").status_code == 404
    assert operator.post("/connect/act/pause/?cluster=etl&name=gone").status_code == 409


def test_restart_stop_and_deletion_are_confirmed(state: WorkerState, operator: Client) -> None:
    assert "last committed offset" in text_of(operator, f"/connect/restart/?{ONE}")
    operator.post(f"/connect/restart/?{ONE}", {"include_tasks": "on", "comment": ""})
    assert state.requests[-1][1] == "/connectors/jdbc/restart?includeTasks=true&onlyFailed=false"
    assert operator.post(f"/connect/stop/?{ONE}", {"comment": ""}).status_code == 400
    assert operator.post(f"/connect/stop/?{ONE}", {"comment": "freeze"}).status_code == 302
    assert state.states["jdbc"] == "STOPPED"
    address = f"/connect/delete/?{ONE}"
    assert operator.post(address, {"confirm_name": "other", "comment": "old"}).status_code == 400
    gone = operator.post(address, {"confirm_name": "jdbc", "comment": "old"})
    assert gone.status_code == 302 and gone.headers["Location"] == "/connect/" and "jdbc" not in state.connectors
    assert operator.post(address, {"confirm_name": "jdbc", "comment": "old"}).status_code == 400


def test_viewers_and_a_read_only_console_change_nothing(
    state: WorkerState, viewer: Client, operator: Client, settings: Any
) -> None:
    pages = [f"/connect/{p}/?{ONE}" for p in ("new", "edit", "stop", "restart", "delete", "act/pause")]
    for address in pages:
        assert viewer.post(address, FORM).status_code == 403
    assert viewer.get(f"/connect/edit/?{ONE}").status_code == 403
    settings.WEIR = replace(settings.WEIR, read_only=True)
    for address in pages:
        assert operator.post(address, FORM).status_code == 403
    assert not [r for r in state.requests if r[0] in ("POST", "DELETE") or r[1].endswith("/pause")]
    assert Change.objects.filter(verb__startswith="connector.").count() == 0
