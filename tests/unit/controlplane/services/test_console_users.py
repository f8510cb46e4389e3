from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from controlplane.models import Change
from controlplane.services.console_users import set_active

pytestmark = pytest.mark.django_db


def test_a_user_is_disabled_and_enabled_and_each_is_recorded_one_time() -> None:
    user = get_user_model().objects.create_user("alice")
    for is_active in (False, False, True, True):
        set_active(user, is_active=is_active)
        user.refresh_from_db()
        assert user.is_active is is_active
    assert [c.verb for c in Change.objects.order_by("id")] == ["console_user.disable", "console_user.enable"]
