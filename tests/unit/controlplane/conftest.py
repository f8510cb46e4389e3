from __future__ import annotations

from typing import Any

import pytest
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World
from tests.unit.process_limits import time_for_processes

__all__ = ["time_for_processes"]


@pytest.fixture(autouse=True)
def secret_key(settings: Any) -> None:
    """Sets WEIR_SECRET_KEY. Without it the server answers no request."""
    settings.SECRET_KEY_GIVEN = True


@pytest.fixture
def world(db: None) -> World:
    return World()


@pytest.fixture
def operator(db: None) -> APIClient:
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.create_user("alice", is_staff=True)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client


@pytest.fixture
def viewer_client(db: None) -> APIClient:
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.create_user("bob")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client
