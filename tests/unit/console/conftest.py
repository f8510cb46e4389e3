from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import translation

from tests.unit.console.seed import seed
from tests.unit.controlplane.world import World
from tests.unit.process_limits import time_for_processes

__all__ = ["time_for_processes"]


@pytest.fixture(autouse=True)
def numbered_from_one(db: None) -> None:
    """Tests open pages by id. On PostgreSQL a rollback does not reset the sequences."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'S' AND relname LIKE 'controlplane_%'")
            for (name,) in cursor.fetchall():
                cursor.execute(f"ALTER SEQUENCE {connection.ops.quote_name(name)} RESTART")


@pytest.fixture(autouse=True)
def default_language() -> Iterator[None]:
    """A request for a Chinese page leaves its language active in the thread, and another test would read Chinese texts."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def secret_key(settings: Any) -> None:
    """Without WEIR_SECRET_KEY the server answers no request."""
    settings.SECRET_KEY_GIVEN = True


@pytest.fixture
def world(db: None) -> World:
    return World()


@pytest.fixture
def seeded_cluster(db: None) -> dict[str, Any]:
    return seed()


def _client(name: str, *, staff: bool) -> Client:
    from django.contrib.auth import get_user_model

    client = Client()
    client.force_login(get_user_model().objects.create_user(name, is_staff=staff))
    return client


@pytest.fixture
def operator(db: None) -> Client:
    return _client("alice", staff=True)


@pytest.fixture
def viewer(db: None) -> Client:
    return _client("bob", staff=False)
