"""Settings of share groups: durations, bounds, and the effective settings of a group."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.config.groups import GROUP_SETTINGS, group_problem
from brokerd.config.share_groups import (
    SHARE_CONFIGS,
    SHARE_SETTINGS,
    check_share,
    dead_letter_name_problem,
    duration_ms,
    share_group_config,
)

DEFAULTS: dict[str, Any] = {s.name: s.default for s in (*GROUP_SETTINGS, *SHARE_SETTINGS)}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1H30M", 5_400_000), ("P2DT0.5S", 172_800_500), ("PT0S", 0), ("P1D", 86_400_000), ("PT1.0015S", 1_001)],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1X", "PT-1H", "-PT1H", "PT1H "])
def test_what_is_not_a_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        duration_ms(text)


def test_kafkas_defaults() -> None:
    config = share_group_config(DEFAULTS, {})
    assert (config.session_ms, config.heartbeat_ms, config.lock_ms, config.deliveries_max) == (45_000, 5_000, 30_000, 5)
    assert (config.reset, config.reset_ms, config.committed, config.locks_max) == ("latest", None, False, 2_000)
    check_share(DEFAULTS)


def test_settings_of_a_group() -> None:
    own = {
        "share.auto.offset.reset": "by_duration:PT1M",
        "share.isolation.level": "read_committed",
        "share.record.lock.duration.ms": "15000",
        "share.renew.acknowledge.enable": "false",
        "weir.share.key.order.enable": "true",
    }
    assert group_problem(own, DEFAULTS) is None
    config = share_group_config(DEFAULTS, own)
    assert (config.reset_ms, config.committed, config.lock_ms, config.renew) == (60_000, True, 15_000, False)
    assert config.key_order and not share_group_config(DEFAULTS, {}).key_order


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "many"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:1H"),
        ("share.isolation.level", "serializable"),
        ("share.renew.acknowledge.enable", "yes"),
        ("share.unknown", "1"),
        ("errors.deadletterqueue.topic.name", "payments"),
        ("errors.deadletterqueue.topic.name", "dlq./"),
        ("errors.deadletterqueue.copy.record.enable", "yes"),
        ("weir.share.key.order.enable", "1"),
    ],
)
def test_invalid_settings_of_a_group_are_rejected(name: str, text: str) -> None:
    assert name in (group_problem({name: text}, DEFAULTS) or "")


def test_the_topic_of_dead_letters_has_the_prefix_of_the_broker() -> None:
    own = {"errors.deadletterqueue.topic.name": "dlq.tasks", "errors.deadletterqueue.copy.record.enable": "true"}
    assert group_problem(own, DEFAULTS) is None
    config = share_group_config(DEFAULTS, own)
    assert (config.dead_letter_topic, config.copy_record) == ("dlq.tasks", True)
    assert (dead_letter_name_problem("dlq.tasks", "dlq."), dead_letter_name_problem("tasks", "")) == (None, None)
    assert "must begin with failed-" in (dead_letter_name_problem("dlq.tasks", "failed-") or "")
    assert "internal" in (dead_letter_name_problem("__consumer_offsets", "") or "")


def test_contradictions_are_rejected() -> None:
    for c in SHARE_CONFIGS.values():
        if c.broker is not None and c.high is not None:
            with pytest.raises(ValueError, match=c.broker):
                check_share({**DEFAULTS, c.broker: DEFAULTS[c.high] + 1})
    both = {"group.share.heartbeat.interval.ms": 15_000, "group.share.session.timeout.ms": 15_000}
    with pytest.raises(ValueError, match="not below"):
        check_share({**DEFAULTS, **both, "group.share.min.session.timeout.ms": 1})
