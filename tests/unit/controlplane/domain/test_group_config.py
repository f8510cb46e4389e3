"""The kind of group that a config applies to."""

from __future__ import annotations

import pytest

from controlplane.domain.group_config import GroupConfigKind, kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("consumer.session.timeout.ms", GroupConfigKind.CONSUMER),
        ("share.record.lock.duration.ms", GroupConfigKind.SHARE),
        ("errors.deadletterqueue.topic.name", GroupConfigKind.SHARE),
        ("weir.share.key.order.enable", GroupConfigKind.SHARE),
    ],
)
def test_the_name_of_a_config_tells_its_kind(name: str, kind: GroupConfigKind) -> None:
    assert kind_of(name) is kind
