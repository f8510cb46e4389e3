"""Configs of a group on a page: values with their meaning, and the form of a config."""

from __future__ import annotations

from console.templatetags.group_configs import edit_group_config_url, group_config_value
from controlplane.domain.group_config import GroupConfigKind, GroupConfigRow

ROW = GroupConfigRow("share.record.lock.duration.ms", GroupConfigKind.SHARE, "20000", True, "30000", "Doc.")


def test_a_value_is_shown_with_its_meaning() -> None:
    assert group_config_value(ROW, "20000") == '20000 <span class="sub">20 s</span>'
    assert group_config_value(ROW, "<r>") == "&lt;r&gt;"
    assert "Not set." in group_config_value(ROW, "") and "Not set." in group_config_value(ROW, None)


def test_the_link_fills_the_form() -> None:
    assert edit_group_config_url("a/b", ROW) == f"/edit/group-configs/a/b/?name={ROW.name}&value=20000"
