"""Configs of a group on a page: the link to the form of a config."""

from __future__ import annotations

from console.templatetags.group_configs import edit_group_config_url
from controlplane.domain.group_config import GroupConfigKind, GroupConfigRow

ROW = GroupConfigRow("share.record.lock.duration.ms", GroupConfigKind.SHARE, "20000", True, "30000", "Doc.")


def test_the_link_fills_the_form() -> None:
    assert edit_group_config_url("a/b", ROW) == f"/edit/group-configs/a/b/?name={ROW.name}&value=20000"
