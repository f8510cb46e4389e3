"""Groups of topic configs."""

from __future__ import annotations

from collections import Counter

from brokerd.cluster.configs import TOPIC_CONFIGS
from console.config_groups import CONFIG_GROUPS, GROUPED_MIN, grouped_configs


def test_each_config_of_the_catalogue_is_in_exactly_one_group() -> None:
    names = Counter(name for group in CONFIG_GROUPS for name in group.names)
    assert names == Counter(list(TOPIC_CONFIGS))


def test_the_configs_that_are_changed_most_are_first() -> None:
    rows = [name for group in grouped_configs(sorted(TOPIC_CONFIGS), str) for name in group.rows]
    assert rows[:3] == ["retention.ms", "retention.bytes", "cleanup.policy"] and len(rows) == len(TOPIC_CONFIGS)


def test_an_empty_group_has_no_heading() -> None:
    names = [name for name in TOPIC_CONFIGS if not name.startswith(("remote.", "local."))]
    assert "Tiered storage" not in [group.title for group in grouped_configs(names, str)]


def test_a_short_list_has_the_order_of_the_groups_and_no_headings() -> None:
    names = ["flush.ms", "retention.ms", "min.insync.replicas"]
    (group,) = grouped_configs(names, str)
    assert (group.title, group.rows) == ("", ["retention.ms", "min.insync.replicas", "flush.ms"])
    assert len(grouped_configs(sorted(TOPIC_CONFIGS)[: GROUPED_MIN - 1], str)) == 1
    assert grouped_configs([], str)[0].rows == []
