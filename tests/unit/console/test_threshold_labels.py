"""Labels of the thresholds of an alert."""

from __future__ import annotations

from console.threshold_labels import CONDITIONS, change_label, condition_label, scope_label
from controlplane.domain.alert import THRESHOLD_KINDS
from controlplane.domain.alert_thresholds import MAXIMUM_NUMBERS, OBJECTS, ThresholdName, ThresholdScope


def test_each_threshold_of_an_alert_is_shown_as_a_condition() -> None:
    """Its title reads like a state of the object: "Group has stopped, 30 s"."""
    decisive = {name for name, kinds in THRESHOLD_KINDS.items() if kinds} - MAXIMUM_NUMBERS
    assert set(CONDITIONS) == decisive


def test_each_threshold_has_a_label_and_each_object_a_link() -> None:
    assert all(condition_label(name) for name in ThresholdName)
    assert all(change_label(scope) for scope in OBJECTS.values()) and all(
        scope_label(scope) for scope in ThresholdScope
    )
