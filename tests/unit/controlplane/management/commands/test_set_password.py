"""The command `set_password`: SCRAM credentials from a password on standard input."""

from __future__ import annotations

import io

import pytest
from django.core.management.base import CommandError

from brokerd.security.scram import ALGORITHMS
from controlplane.models import AccessEntry
from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


def test_a_password_is_set_for_every_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    assert "alice can authenticate" in run("set_password", "alice")
    assert AccessEntry.objects.count() == len(ALGORITHMS)


def test_an_empty_password_is_rejected_and_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(CommandError):
        run("set_password", "alice")
    assert not AccessEntry.objects.exists()
