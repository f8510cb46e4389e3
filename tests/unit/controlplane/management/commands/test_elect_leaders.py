"""`weir elect_leaders`: the preview, the election, exit codes."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from controlplane.clients.connection import NoResponse
from controlplane.models import Change
from tests.unit.controlplane.election_responses import Elections, electing
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> Elections:
    return electing(monkeypatch, World())


def run(*args: str) -> str:
    out = StringIO()
    call_command("elect_leaders", *args, stdout=out)
    return out.getvalue()


def test_without_execute_nothing_is_changed(responses: Elections) -> None:
    said = run("--topic", "orders")
    assert "orders-0\t2 -> 1\telectable" in said and "2 would change, 1 cannot. Nothing was changed" in said
    assert json.loads(run("--all-topic-partitions", "--json"))["electable"] == 2
    assert responses.requests == [] and not Change.objects.exists()


def test_execute_elects_and_is_audited(responses: Elections) -> None:
    said = run("--topic", "orders", "--partition", "0", "--execute", "--comment", "after the restart")
    assert "orders-0\t2 -> 1\tconfirmed" in said and "1 confirmed, 0 unchanged, 0 rejected, 0 unknown." in said
    change = Change.objects.get()
    assert change.comment == "after the restart" and change.actor.endswith("(weir elect_leaders)")
    with pytest.raises(CommandError, match="not in the ISR"):
        run("--topic", "orders", "--partition", "2", "--execute")


def test_an_unknown_outcome_has_an_exit_code(responses: Elections) -> None:
    responses.error = NoResponse("it is frozen")
    with pytest.raises(CommandError) as failed:
        run("--all-topic-partitions", "--execute")
    assert failed.value.returncode == 2
