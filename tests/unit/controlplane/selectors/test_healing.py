"""Self-healing as rows: defaults, settings in force."""

from __future__ import annotations

import pytest

from controlplane.domain.healing import RULES, HealingAction, HealingMode
from controlplane.models import HealingSetting
from controlplane.selectors.healing import healing_action, healing_actions, limits_in_force

pytestmark = pytest.mark.django_db


def test_actions_have_the_limits_of_their_rule_until_they_are_changed() -> None:
    assert [a.action for a in healing_actions()] == list(HealingAction)
    action = HealingAction.RECOVER_DAMAGED_REPLICA
    assert limits_in_force()[action].per_hour == RULES[action].per_hour
    HealingSetting.objects.create(action=action, mode="on", cool_down_s=60, per_hour=1, changed_by="alice")
    found = limits_in_force()[action]
    assert (found.mode, found.cool_down_s, found.per_hour) == (HealingMode.ON, 60, 1)
    assert healing_action("none") is None
