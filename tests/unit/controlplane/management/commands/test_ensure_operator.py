"""The command `ensure_operator`: the operator, the password and the token stay over repeated calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from tests.unit.controlplane.management.commands.local_cluster import run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.delenv("WEIR_PASSWORD", raising=False)


def test_without_a_password_no_operator_is_created() -> None:
    with pytest.raises(CommandError, match="WEIR_PASSWORD"):
        run("ensure_operator", "--username=ops")
    assert not get_user_model().objects.exists()


def test_a_new_password_replaces_the_old_one_and_the_token_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    token = run("ensure_operator", "--username=ops", "--password=one")
    monkeypatch.setenv("WEIR_PASSWORD", "two")
    assert run("ensure_operator", "--username=ops") == token
    user = get_user_model().objects.get()
    assert user.check_password("two") and user.is_staff and user.is_superuser


def test_a_deactivated_operator_is_active_again_and_an_unchanged_password_is_not_hashed_again() -> None:
    run("ensure_operator", "--username=ops", "--password=one")
    user = get_user_model().objects.get()
    hashed, user.is_active = user.password, False
    user.save()
    run("ensure_operator", "--username=ops", "--password=one")
    user.refresh_from_db()
    assert (user.password, user.is_active) == (hashed, True)


def test_a_token_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert run("ensure_operator", "--username=ops", "--password=one", f"--token-out={path}") == ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("ensure_operator", "--username=ops", "--password=one").strip() == path.read_text()
