"""Texts of the domain in the language of the user."""

from __future__ import annotations

from django.utils import translation

from console import vocabulary
from controlplane.domain import wait_reason
from controlplane.domain.alert import RULES


def test_an_alert_is_translated_by_its_kind() -> None:
    stored = ("broker_down", "3", "Broker 3 is down: 20 replicas are offline.")
    assert vocabulary.alert_text(*stored) == stored[2]
    do = "Start the brokers of the missing replicas (down now: 3). If they are permanently lost, move the partitions to other brokers."
    assert vocabulary.alert_do("partitions_under_min_isr", do) == do
    with translation.override("zh-hans"):
        assert vocabulary.alert_text(*stored) == "Broker 3 已宕机。"
        assert (
            vocabulary.alert_title("partitions_under_replicated", "", "1 partition has a replica that is out of sync.")
            == "分区副本不足"
        )
        assert vocabulary.alert_do("no_controller", next(r.do for r in RULES if r.kind == "no_controller")).startswith(
            "启动"
        )
        assert vocabulary.alert_do("partitions_under_min_isr", do) == do, "without the phrase, its values are unknown"


def test_each_reason_of_a_waiting_move_is_translated_with_its_count() -> None:
    reasons = "retention (1,200), a target that is down (3)"
    assert (
        vocabulary.wait_text(reasons) == reasons
        and vocabulary.wait_text("") == ""
        and vocabulary.wait_text(wait_reason.THROTTLE_GONE) == wait_reason.THROTTLE_GONE
    )
    with translation.override("zh-hans"):
        assert vocabulary.wait_text(reasons) == "保留期 (1,200), 宕机的目标 Broker (3)"
        assert vocabulary.wait_text(wait_reason.THROTTLE_GONE) == "限速的移除"
