"""The command `verify_audit`: the head of the chain, an earlier head, and a changed row."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

from tests.unit.controlplane.management.commands.local_cluster import run
from tests.unit.controlplane.services.test_audit import by_hand, record_changes

pytestmark = pytest.mark.django_db


def test_the_head_of_a_sound_chain_is_an_earlier_head_of_the_next_call() -> None:
    record_changes(2)
    found = json.loads(run("verify_audit", "--json"))
    assert (found["changes"], found["problems"]) == (2, [])
    record_changes(1)
    assert "3 changes" in run("verify_audit", f"--head={found['head']}")


@pytest.mark.parametrize("head", ["", "812", "x:y", ":abc"])
def test_a_head_of_another_form_is_rejected(head: str) -> None:
    with pytest.raises(CommandError, match="is not a head"):
        run("verify_audit", f"--head={head}")


def test_a_head_that_is_no_link_of_the_chain_is_reported() -> None:
    record_changes(2)
    with pytest.raises(CommandError):
        run("verify_audit", f"--head=1:{'0' * 64}")


def test_a_changed_row_is_reported() -> None:
    record_changes(2)
    by_hand("UPDATE controlplane_change SET actor = 'mallory'")
    with pytest.raises(CommandError):
        run("verify_audit")
