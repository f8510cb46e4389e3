"""Texts of the domain in the language of the user."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.utils import translation

from brokerd.config.groups import GROUP_CONFIGS
from brokerd.config.share_groups import SHARE_CONFIGS
from brokerd.config.streams_groups import STREAMS_CONFIGS
from console import vocabulary
from controlplane.domain import alert_thresholds, group_config
from controlplane.domain import window as windows
from controlplane.domain.alert import RULES
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.errors import Rejected
from controlplane.domain.leader_election import ElectionVerdict, verdict_text
from controlplane.domain.move_revert import cancel_problem
from controlplane.domain.offset_input import offsets_of_text
from controlplane.domain.record_filter import JsonCondition
from controlplane.domain.restart import blocker
from controlplane.domain.scope import TopicScope
from controlplane.models import Move
from controlplane.selectors.cluster_history import UnknownTime
from controlplane.selectors.move_windows import window_closed_reason
from controlplane.selectors.moves import title_of
from tests.unit.controlplane.domain.test_move import ALIVE, observed_part, part_view


def test_an_alert_is_translated_by_its_kind() -> None:
    stored = ("broker_down", "3", "Broker 3 is down: 20 replicas are offline.")
    assert vocabulary.alert_text(*stored) == stored[2]
    do = "Start the brokers of the missing replicas (down now: 3). If they are permanently lost, move the partitions to other brokers."
    assert vocabulary.alert_do("partitions_under_min_isr", do) == do
    with translation.override("zh-hans"):
        assert vocabulary.alert_text(*stored) == "Broker 3 已宕机。"
        assert (
            vocabulary.alert_title("partitions_under_replicated", "", "1 partition has a replica that is out of sync.")
            == "有分区的副本不同步。"
        )
        assert vocabulary.alert_do("no_controller", next(r.do for r in RULES if r.kind == "no_controller")).startswith(
            "启动"
        )
        assert vocabulary.alert_do("partitions_under_min_isr", do) == do, "without the phrase, its values are unknown"


def test_sentences_with_values_are_translated_as_a_whole() -> None:
    few = blocker(1, "t", 0, [1, 2], 2)
    title = title_of(TopicScope("t", (1, 2)))
    assert few == "t-0: without this broker, 1 replica is in sync, but min.insync.replicas is 2."
    assert vocabulary.translated(few) == few and vocabulary.translated(title) == "Topic t to brokers 1, 2"
    with translation.override("zh-hans"):
        assert vocabulary.translated(few) == "t-0：停止该 Broker 后只剩 1 个同步副本，少于 min.insync.replicas（2）。"
        assert vocabulary.translated(title) == "将 Topic t 迁移到 Broker 1, 2"
        assert vocabulary.translated(verdict_text(ElectionVerdict.BROKER_OFFLINE, 7)) == "Broker 7 已宕机。"


def rejection(parse: Callable[[str], object], text: str) -> str:
    with pytest.raises(Rejected) as error:
        parse(text)
    return error.value.reason


TAIL = part_view(state="truncating", delete_below=40)
RISKY = part_view(state="copying", observed=observed_part((2, 3, 1), isr=(3,), generation=8, adding=(), removing=(1,)))


@pytest.mark.parametrize(
    ("reason", "english", "chinese"),
    [
        (rejection(JsonCondition.parse, "$.a ~ 1"), "' ~ 1' is not understood. Write", "无法理解 ' ~ 1'。请填写"),
        (rejection(offsets_of_text, "[1]"), "Entry 1: enter {", "第 1 项：请输入 {"),
        (cancel_problem([TAIL], ALIVE), f"{TAIL.name}: records below", f"{TAIL.name}：正在删除 Offset 40 之前的消息"),
        (cancel_problem([RISKY], ALIVE), f"{RISKY.name}: none of its", f"{RISKY.name}：其旧副本"),
        (
            window_closed_reason(Move(window=windows.read({"stop_by": "2026-03-03T00:00:00Z"}))),
            "The window of the move (",
            "该迁移的维护窗口 (",
        ),
    ],
)
def test_a_reason_with_values_is_in_the_language_of_the_page(reason: str | None, english: str, chinese: str) -> None:
    """These reasons were f-strings, which have no key in the catalogues."""
    assert vocabulary.translated(reason).startswith(english)
    with translation.override("zh-hans"):
        assert vocabulary.translated(reason).startswith(chinese)


def test_a_sentence_has_translated_parts() -> None:
    error = UnknownTime(datetime(2026, 1, 2, tzinfo=UTC), None, datetime(2026, 1, 3, tzinfo=UTC))
    assert error.reason == "The cluster at 2026-01-02 00:00:00 UTC is not known: known from 2026-01-03 00:00:00 UTC."
    with translation.override("zh-hans"):
        assert (
            vocabulary.translated(error.reason)
            == "2026-01-02 00:00:00 UTC 的集群状态未知：从 2026-01-03 00:00:00 UTC 起已知。"
        )


def test_every_threshold_has_a_title() -> None:
    assert set(alert_thresholds.TITLES) == set(ThresholdName)
    with translation.override("zh-hans"):
        assert vocabulary.threshold_title("disk_free_low") == "磁盘可用空间：降级"


def test_each_description_of_a_group_config_can_be_translated() -> None:
    definitions = (*GROUP_CONFIGS.values(), *SHARE_CONFIGS.values(), *STREAMS_CONFIGS.values())
    assert [c.doc for c in definitions] == list(group_config.DOCS)
