"""`diff`, `apply` and `export`: requests, output and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.weir.cli.test_app import FakeClient, run_with
from weir.cli.client import NoServer, RequestRejected
from weir_common.document_text import read_document

STEPS: list[dict[str, Any]] = [
    {
        "kind": "topic",
        "name": "flights",
        "action": "alter",
        "changes": [{"field": "partitions", "before": 3, "after": 6}],
        "result": "pending",
        "detail": "",
    },
    {"kind": "acl", "name": "old", "action": "delete", "changes": [], "result": "pending", "detail": ""},
]
PLAN: dict[str, Any] = {
    "id": 7,
    "digest": "d" * 64,
    "steps": STEPS,
    "creates": 0,
    "alters": 1,
    "deletes": 1,
    "done": 0,
    "failed": 0,
}
EQUAL = {**PLAN, "steps": [], "alters": 0, "deletes": 0}
DIFFERENCE = {
    "owner": "payments",
    **{f: PLAN[f] for f in ("digest", "steps", "creates", "alters", "deletes")},
    "refusals": [],
}
DOCUMENT = {"owner": "payments", "topics": [{"name": "flights", "partitions": 6}]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text("owner: payments\ntopics:\n- {name: flights, partitions: 6}\n")
    return str(path)


def test_diff_shows_the_steps_and_exits_with_1_if_there_are_any(file: str) -> None:
    client = FakeClient(DIFFERENCE)
    found = run_with(client, "diff", "-f", file, "--prune")
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "~ topic flights (alter)",
        "    partitions: 3 -> 6",
        "- acl old (delete)",
        f"difference: 0 to create, 1 to alter, 1 to delete; digest {'d' * 12}",
    ]
    assert client.requests == [
        ("POST", "/cluster-document/diff", None, {"document": DOCUMENT, "prune": True, "take_over": False})
    ]
    same = run_with(FakeClient({**DIFFERENCE, "steps": []}), "diff", "-f", file)
    assert (same.exit_code, same.output) == (0, "no difference\n")


def test_diff_stores_a_plan_only_on_request(file: str) -> None:
    client = FakeClient(PLAN)
    found = run_with(client, "diff", "-f", file, "--save", "--comment", "PR 12")
    assert found.exit_code == 1 and "plan 7: 0 to create" in found.output
    ((method, path, _, body),) = client.requests
    assert (method, path) == ("POST", "/document-plans")
    assert body == {"document": DOCUMENT, "prune": False, "take_over": False, "comment": "PR 12"}
    assert run_with(FakeClient(), "diff", "-f", file, "--comment", "PR 12").exit_code == 2


def test_what_the_cluster_rejects_is_shown_and_is_an_error(file: str) -> None:
    rejected = {**DIFFERENCE, "steps": [], "refusals": [{"path": "topics.0.partitions", "detail": "fewer"}]}
    found = run_with(FakeClient(rejected), "diff", "-f", file)
    assert (found.exit_code, found.output) == (2, "! topics.0.partitions: fewer\n")


@pytest.mark.parametrize("error", [NoServer("away"), RequestRejected(400, {"detail": "no"})])
def test_diff_ends_with_2_after_an_error(file: str, error: Exception) -> None:
    assert run_with(FakeClient(error), "diff", "-f", file).exit_code == 2


def test_an_unreadable_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("topics: []\ntopics: []\n")
    found = run_with(FakeClient(), "diff", "-f", str(bad))
    assert found.exit_code == 2 and "line 2" in found.output


def test_apply_sends_the_digest_of_the_plan_it_has_shown(file: str) -> None:
    client = FakeClient(PLAN, {**PLAN, "done": 2})
    found = run_with(client, "apply", "-f", file, "--comment", "deploy", "--yes")
    assert found.exit_code == 0 and "2 of 2 steps done" in found.output
    assert client.requests[1] == (
        "POST",
        "/document-plans/7/apply",
        None,
        {"digest": PLAN["digest"], "comment": "deploy"},
    )
    client = FakeClient(PLAN, PLAN)
    assert run_with(client, "apply", "--plan", "7", "--comment", "deploy", "--yes").exit_code == 0
    assert client.requests[0][:2] == ("GET", "/document-plans/7")


def test_apply_without_a_difference_changes_nothing(file: str) -> None:
    client = FakeClient(EQUAL)
    assert run_with(client, "apply", "-f", file, "--comment", "x", "--yes").exit_code == 0
    assert len(client.requests) == 1


def test_a_failed_step_is_shown_and_ends_with_4(file: str) -> None:
    failed = {**PLAN, "failed": 1, "steps": [{**STEPS[0], "result": "failed", "detail": "no space"}]}
    found = run_with(FakeClient(PLAN, failed), "apply", "-f", file, "--comment", "x", "--yes")
    assert found.exit_code == 4 and "failed: no space" in found.output


def test_apply_asks_and_needs_exactly_one_source(file: str) -> None:
    client = FakeClient(PLAN)
    assert run_with(client, "apply", "-f", file, "--comment", "x").exit_code == 2
    assert len(client.requests) == 1
    assert run_with(FakeClient(), "apply", "--comment", "x").exit_code == 2
    assert run_with(FakeClient(), "apply", "-f", file, "--plan", "7", "--comment", "x").exit_code == 2
    assert run_with(FakeClient(), "apply", "--plan", "7", "--prune", "--comment", "x").exit_code == 2


def test_an_export_is_yaml_or_json() -> None:
    client = FakeClient(DOCUMENT)
    assert read_document(run_with(client, "export", "--owner", "payments").output) == DOCUMENT
    assert client.requests == [("GET", "/cluster-document", {"owner": "payments"}, None)]
    assert read_document(run_with(FakeClient(DOCUMENT), "-o", "json", "export").output) == DOCUMENT
