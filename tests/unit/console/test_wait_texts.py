"""Texts and tones of the reasons why a move waits."""

from __future__ import annotations

import pytest
from django.utils import translation

from console import move_cells
from console.wait_texts import wait_text, wait_tone
from controlplane.domain.wait_reason import NEEDS_OPERATOR, Wait, WaitReason


def test_each_reason_is_translated_with_its_count() -> None:
    waits = (Wait(WaitReason.RETENTION, 1_200), Wait(WaitReason.TARGET_DOWN, 3))
    removal = (Wait(WaitReason.THROTTLE_REMOVAL, 0),)
    assert wait_text(waits) == "retention (1,200 partitions), a target that is down (3 partitions)"
    assert (wait_text(()), wait_text(removal)) == ("", "removal of its throttle")
    with translation.override("zh-hans"):
        assert wait_text(waits) == "保留期（1,200 个分区）、目标 Broker 恢复（3 个分区）"
        assert wait_text(removal) == "限速的移除"


@pytest.mark.parametrize(
    ("waits_for", "tone"),
    [
        ([WaitReason.QUEUED], ""),
        ([WaitReason.RETENTION, WaitReason.QUEUED], ""),
        ([WaitReason.THROTTLE], "amber"),
        ([WaitReason.THROTTLE, WaitReason.TARGET_DOWN, WaitReason.QUEUED], "red"),
        ([WaitReason.SOURCE_DOWN], "red"),
    ],
)
def test_a_wait_that_needs_an_operator_has_a_tone(waits_for: list[WaitReason], tone: str) -> None:
    waits = [Wait(reason, 4) for reason in waits_for]
    assert wait_tone(waits) == tone
    for shown in (
        move_cells.move_status("running", waits),
        move_cells.ends("running", waits, None, None, in_words=True),
    ):
        assert "waits for" in shown
        assert [t for t in ("amber", "red") if f"st-{t}" in shown] == ([tone] if tone else [])


@pytest.mark.parametrize("reason", WaitReason)
def test_every_reason_has_a_text_and_only_those_for_an_operator_have_a_tone(reason: WaitReason) -> None:
    assert wait_text([Wait(reason, 2)])
    assert bool(wait_tone([Wait(reason, 2)])) == (reason in NEEDS_OPERATOR)
