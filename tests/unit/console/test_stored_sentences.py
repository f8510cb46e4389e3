"""Sentences that are stored or raised are shown in the language of the page, with their names and values. REST and the audit log have the English text."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone, translation
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from console import cells
from console.vocabulary import translated
from controlplane.domain import driver_restarts
from controlplane.domain.compare import StoredComparison, equal_text
from controlplane.domain.errors import Rejected
from controlplane.domain.formats import Format, render
from controlplane.models import (
    Alert,
    AlertEntry,
    ArchiveJob,
    Change,
    ClusterEvent,
    Move,
    MovePartition,
    Plan,
    Proposal,
    RestartStep,
    SparkJob,
    SparkRun,
)
from controlplane.models.change import Outcome
from controlplane.models.phrase_field import note_columns
from controlplane.monitoring.publisher import move_shape
from controlplane.selectors import moves as move_selectors
from controlplane.services import alerts, move_worker, moves, proposals, schema_subjects
from controlplane.services.move_planning import parse_scope
from controlplane.services.proposal_kinds import ProposalHandler
from tests.unit.controlplane.world import World
from tests.unit.registry_server import running_registry
from weir_common.phrases import sentence

CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN"}


def page(client: Client, address: str) -> str:
    return " ".join(client.get(address, **CHINESE).content.decode().split())


def test_the_timeline_and_the_events_before_an_alert_are_translated(world: World, operator: Client) -> None:
    world.topic("orders", (1, 2))
    world.down(1)
    alerts.evaluate()
    found = Alert.objects.get(kind="broker_down")
    assert "Broker 1 宕机：" in page(operator, f"/alerts/{found.pk}/")
    row = AlertEntry.objects.get(alert=found, kind="opened")
    assert row.text.startswith("Broker 1 is down") and row.phrase["values"]["id"] == "1"
    timeline = page(operator, f"/alerts/{found.pk}/").partition("时间线")[2]
    assert "Broker 1 已宕机" in timeline and "Broker 1 is down" not in timeline
    assert ClusterEvent.objects.get(kind="broker_down").text.startswith("Broker 1 went down: ")


def test_a_row_of_an_earlier_version_has_its_english_text(world: World, operator: Client) -> None:
    world.topic("orders", (1, 2))
    world.down(1)
    alerts.evaluate()
    found = Alert.objects.get(kind="broker_down")
    AlertEntry.objects.update(phrase={})
    assert "Broker 1 is down" in page(operator, f"/alerts/{found.pk}/").partition("时间线")[2]


def test_a_lifted_safety_check_keeps_its_values_in_move_and_proposal(
    seeded_cluster: dict[str, Any], operator: Client, django_user_model: Any
) -> None:
    english = "ledger-0 would have 1 replica, fewer than its min.insync.replicas 2; acks=all would be acknowledged by 1 replica."
    chinese = "ledger-0 将有 1 个副本，少于其 min.insync.replicas 2；acks=all 将由 1 个副本确认。"
    move = Move.objects.exclude(overrides=[]).get()
    assert move.overrides == (english,)
    assert chinese in page(operator, f"/moves/{move.pk}/")
    proposal = Proposal.objects.get()
    shown = page(operator, f"/proposals/{proposal.pk}/")
    assert (
        chinese in shown and f"迁移 {move.pk}，跳过安全检查" in shown and "该迁移更改 1 个分区。迁移立即启动。" in shown
    )
    user = django_user_model.objects.create_user("cleo", is_staff=True)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    response = client.get(f"/api/v1/proposals/{proposal.pk}").json()["shown"]
    assert response["lines"][0] == english and "phrases" not in response


def test_a_stored_text_without_a_phrase_is_shown_as_it_is(seeded_cluster: dict[str, Any], operator: Client) -> None:
    move = Move.objects.exclude(overrides=[]).get()
    Move.objects.filter(pk=move.pk).update(overrides=("an English sentence",))
    assert "an English sentence" in page(operator, f"/moves/{move.pk}/")
    proposal = Proposal.objects.get()
    Proposal.objects.update(shown={k: v for k, v in proposal.shown.items() if k != "phrases"})
    assert "ledger-0 would have 1 replica" in page(operator, f"/proposals/{proposal.pk}/")


def test_the_note_of_a_restart_is_translated(seeded_cluster: dict[str, Any], operator: Client) -> None:
    step = RestartStep.objects.exclude(note="").get()
    assert step.note.startswith("Not safe to restart yet: ledger-0: without this broker, 1 replica is in sync")
    assert "停止该 Broker 后只剩 1 个同步副本" in page(operator, f"/brokers/restarts/{step.restart_id}/")


@pytest.mark.parametrize(
    ("address", "form", "chinese"),
    [
        ("/new/topic/", {"name": "orders", "partitions": 1, "replication_factor": 1}, "Topic 'orders' 已存在"),
        ("/moves/1/approve/", {}, "迁移 1 的状态为 running；此操作要求状态为以下之一：planned。"),
    ],
)
def test_a_rejection_is_shown_in_the_language_of_the_page_and_recorded_in_english(
    seeded_cluster: dict[str, Any], operator: Client, address: str, form: dict[str, Any], chinese: str
) -> None:
    assert chinese in unescape(operator.post(address, form, **CHINESE).content.decode())
    newest = Change.objects.filter(outcome="refused").first()
    assert newest is not None and newest.detail.isascii()


def test_a_missing_permission_is_explained_in_the_language_of_the_page(
    seeded_cluster: dict[str, Any], viewer: Client
) -> None:
    assert "读取消息需要 read_records 权限" in page(viewer, "/messages/?topic=orders")


def test_a_plan_that_cannot_be_made_has_its_reason_in_the_language_of_the_page(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    shown = page(operator, "/moves/new/?kind=drain&broker=1&step=review")
    assert "flights-0 有 4 个副本，没有其他存活且未停止分配的 Broker 可以接收 Broker 1 上的副本" in shown
    assert not Plan.objects.filter(warnings__contains="⟦").exists()


def started_move(world: World) -> Move:
    world.topic("flights", (1, 2), (1, 2))
    scope = {"kind": "topic", "topic": "flights", "brokers": [2, 3]}
    move = moves.plan_move(parse_scope(scope), actor="bea", comment="Stop")
    moves.start_move(move.pk, actor="bea", comment="Stop")
    move_worker.advance_move(move.pk)
    return move


def test_the_notes_of_partitions_and_moves_are_translated(world: World, operator: Client) -> None:
    move = started_move(world)
    world.put("flights", 0, replicas=[1], isr=[1], assignment_generation=7)
    world.put("flights", 1, replicas=[1], isr=[1], assignment_generation=7)
    for _ in range(3):
        move_worker.advance_move(move.pk)
    move.refresh_from_db()
    assert move.note == (
        "2 of 2 partitions were rejected; their notes have the reasons. No partition has moved, so there is nothing to roll back: plan them again."
    )
    shown = page(operator, f"/moves/{move.pk}/")
    assert "已拒绝：读取之后分配已更改（代次 0，现为 7；副本现为 [1]，正在添加 []，正在移除 []）。请重新规划。" in shown
    failed = "2 个分区中有 2 个被拒绝；原因见其备注。没有分区已迁移，因此无需回滚：请重新规划。"
    assert shown.count(failed) == 2, "the note, and the timeline"
    assert re.search('<td class="wide sub" lang=""[^>]*>Stop</td>', shown), (
        "a comment of a user is not a text of the catalogue"
    )
    (row,) = move_selectors.move_rows([move.pk])
    live = move_shape(row)
    with translation.override("zh-hans"):
        assert cells.move(live)["note"] == failed
    with translation.override("en"):
        assert cells.move(live)["note"] == move.note
    assert Change.objects.filter(verb="move.failed").get().detail == move.note


def test_the_reason_of_a_controller_is_quoted_in_a_translated_note(world: World, operator: Client) -> None:
    move = started_move(world)
    move_worker.order_rejected(move.pk, "flights", 0, "broker 3 is unknown")
    assert "Controller 拒绝了重分配：broker 3 is unknown。" in page(operator, f"/moves/{move.pk}/")


def test_the_result_of_a_comparison_keeps_its_phrase(world: World, operator: Client) -> None:
    part = started_move(world).parts.first()
    assert part is not None
    text = equal_text(5, 9, 3)
    part.compared, part.note = StoredComparison(equal=True, text=text, first=5, after=9), ""
    part.save()
    stored = MovePartition.objects.get(pk=part.pk).compared
    assert stored == part.compared and stored.text == "Offsets 5 to 9 are equal on 3 replicas."
    assert "Offset 5 到 9 在 3 个副本上相等。" in page(operator, f"/moves/{part.move_id}/")
    part.compared = replace(stored, text="an English text of an earlier version")
    part.save()
    assert "an English text of an earlier version" in page(operator, f"/moves/{part.move_id}/")


@pytest.mark.parametrize("rejected", [False, True])
def test_the_result_of_an_approved_operation_is_translated(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch, rejected: bool
) -> None:
    proposal = Proposal.objects.get()
    said = (
        sentence("Broker {broker} rejected the abort marker: {error}.", broker=3, error="INVALID_TXN_STATE")
        if rejected
        else sentence("Move {move} is approved and has started.", move=7)
    )
    result = (Outcome.REJECTED if rejected else Outcome.CONFIRMED, said)
    handler = ProposalHandler("", lambda target, arguments: None, lambda act: result)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(proposals, "kind_of", lambda kind: handler)
    Proposal.objects.update(state="approved", decided_by="cleo")
    assert proposals.carry_out(proposal.pk).detail == str(said)
    chinese = "Broker 3 拒绝了中止标记：INVALID_TXN_STATE。" if rejected else "迁移 7 已批准并已启动。"
    monkeypatch.undo()
    assert chinese in page(operator, f"/proposals/{proposal.pk}/") and chinese in page(operator, "/proposals/")


@pytest.mark.parametrize(
    ("actor", "english", "chinese"),
    [
        ("cleo", "Rejected by cleo: the disks are new", "已被 cleo 拒绝：the disks are new"),
        ("", "Withdrawn by {author}: the disks are new", "已被 {author} 撤回：the disks are new"),
        (None, "The approval request expired after 24 h without a decision.", "审批请求在 24 小时后仍未决定，已过期。"),
    ],
)
def test_the_end_of_an_approval_request_is_translated_in_the_audit_log(
    seeded_cluster: dict[str, Any], operator: Client, actor: str | None, english: str, chinese: str
) -> None:
    """`actor`: who rejects the request, "" = its author, None = nobody."""
    proposal = Proposal.objects.get()
    if actor is None:
        Proposal.objects.update(expires_at=timezone.now() - timedelta(hours=1))
        assert proposals.sweep() == 1
    else:
        proposals.reject(proposal.pk, actor=actor or proposal.proposed_by, comment="the disks are new")
    change = Change.objects.get(verb="proposal.propose")
    assert change.detail == english.format(author=proposal.proposed_by)
    for address in ("/audit/", f"/audit/{change.pk}/"):
        assert chinese.format(author=proposal.proposed_by) in page(operator, address), address


def test_the_approval_by_the_author_is_translated_in_the_audit_log(
    seeded_cluster: dict[str, Any], operator: Client, settings: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, second_person=False)
    proposal = Proposal.objects.get()
    proposals.approve(proposal.pk, actor=proposal.proposed_by)
    change = Change.objects.get(verb="proposal.approve")
    assert "由请求者本人批准：WEIR_SECOND_PERSON 已关闭。" in page(operator, f"/audit/{change.pk}/")


def test_the_state_in_the_rejection_of_a_decision_is_translated(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    proposal = Proposal.objects.get()
    proposals.reject(proposal.pk, actor="cleo", comment="no")
    with pytest.raises(Rejected):
        proposals.approve(proposal.pk, actor="cleo")
    change = Change.objects.get(verb="proposal.approve")
    assert "is rejected; only an open request" in change.detail
    assert f"审批请求 {proposal.pk} 的状态为 已拒绝" in page(operator, f"/audit/{change.pk}/")


def test_the_outcomes_of_changed_schemas_are_translated_in_the_audit_log(
    seeded_cluster: dict[str, Any], operator: Client, settings: Any
) -> None:
    with running_registry() as registry:
        settings.WEIR = replace(settings.WEIR, schema_registry_url=registry.url)
        with pytest.raises(Rejected):
            schema_subjects.delete_subject("gone", actor="ada", comment="old")
    settings.WEIR = replace(settings.WEIR, schema_registry_url="http://127.0.0.1:9")
    with pytest.raises(Rejected):
        schema_subjects.delete_subject("orders", actor="ada", comment="old")
    unknown, unreachable = Change.objects.filter(verb="schema.delete").order_by("pk")
    assert unknown.detail == "The schema registry has no subject gone."
    assert unreachable.detail.endswith("Look at the subject before you try again.")
    assert "Schema Registry 没有 Subject gone 。" in page(operator, f"/audit/{unknown.pk}/")
    shown = page(operator, f"/audit/{unreachable.pk}/")
    assert "Schema Registry 没有应答" in shown and "重试前请查看该 Subject。" in shown


def test_the_problems_of_a_document_are_translated(seeded_cluster: dict[str, Any], operator: Client) -> None:
    text = '{"topics": [{"name": "a", "partitons": 3}, {"partitions": 0}], "users": [{"name": "x", "password": "y"}]}'
    shown = unescape(operator.post("/documents/compare/", {"document": text}, **CHINESE).content.decode())
    for chinese in (
        "没有此字段。您是指 partitions 吗？",
        "此字段必填。",
        "需要 1 到 10000 的整数，而不是 0。",
        "文档不含机密信息",
    ):
        assert chinese in shown


def test_the_notes_of_archives_and_spark_runs_are_translated(world: World, operator: Client) -> None:
    note = driver_restarts.restart_note("java.lang.OutOfMemoryError")
    archive = ArchiveJob.objects.create(topics=["orders"], actor="bea", **note_columns(note))
    job = SparkJob.objects.create(name="nightly", kind="profile", parameters={"topics": ["orders"]}, actor="bea")
    run = SparkRun.objects.create(job=job, parameters=job.parameters, actor="bea", **note_columns(note))
    chinese = "Spark 进程已结束，正在重启。java.lang.OutOfMemoryError"
    for address in ("/pipeline/", f"/pipeline/{archive.pk}/", f"/spark-jobs/{job.pk}/", f"/spark-runs/{run.pk}/"):
        assert chinese in page(operator, address), address
    ArchiveJob.objects.update(note_phrase={})
    assert "The Spark process ended and is restarted." in page(operator, "/pipeline/")


def test_a_long_log_is_cut_and_the_note_keeps_its_phrase() -> None:
    note = driver_restarts.failure_note("x" * 5_000)
    assert len(note) == driver_restarts.NOTE_CHARS_MAX and note_columns(note)["note_phrase"]
    assert driver_restarts.failure_note(" ") == "The Spark process ended 5 times without a committed batch."


def test_a_registry_and_connect_workers_without_a_response_are_explained_in_the_language_of_the_page(
    world: World, operator: Client, settings: Any
) -> None:
    nobody = "http://127.0.0.1:9"
    settings.WEIR = replace(settings.WEIR, schema_registry_url=nobody, connect_urls=(("etl", (nobody,)),))
    rejected = "没有应答（URLError）。"
    assert f"Schema Registry {rejected}" in page(operator, "/schemas/")
    assert f"Schema Registry {rejected}" in page(operator, "/schemas/subject/?name=orders-value")
    assert f"Connect 集群 etl 的 Worker {nobody} 没有应答（ConnectionRefusedError）。" in page(operator, "/connect/")


def test_a_wrong_parameter_of_a_spark_job_is_explained_in_the_language_of_the_page(
    world: World, operator: Client
) -> None:
    world.topic("orders", (1, 2))
    form = {"name": "a", "since": "yesterday", "table": "orders", "topics": "orders"}
    shown = unescape(operator.post("/spark-jobs/new/replay/", form, **CHINESE).content.decode())
    assert "起始时间必须是时间，例如 2026-01-31T08:00:00+00:00。" in shown
    late = {**form, "since": "", "schedule": "61 * * * *"}
    shown = unescape(operator.post("/spark-jobs/new/replay/", late, **CHINESE).content.decode())
    assert "分钟 '61' 不是 0 到 59 的数字。" in shown


def test_the_note_of_a_record_value_is_translated() -> None:
    note = render(b"\xff", Format.JSON).note
    assert note == "Not JSON: it is not UTF-8 (byte 0)."
    with translation.override("zh-hans"):
        assert translated(note) == "不是 JSON：它不是 UTF-8（第 0 字节）。"
