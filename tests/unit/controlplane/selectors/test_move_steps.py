"""The step that plans a failed move again has the scope of this move."""

from __future__ import annotations

import pytest

from controlplane.domain.scope import DrainScope, FillScope, ReplicationFactorScope, Scope, TopicScope
from controlplane.selectors.move_steps import _scope_values


@pytest.mark.parametrize(
    ("scope", "values"),
    [
        (DrainScope(broker=3, rack=None), ["drain", "broker=3"]),
        (FillScope(broker=None, rack="b"), ["fill", "rack=b"]),
        (TopicScope(topic="orders", brokers=(1, 2)), ["topic", "topic=orders", "over=1", "over=2"]),
        (
            ReplicationFactorScope(topic="orders", replication_factor=3),
            ["replication_factor", "topic=orders", "factor=3"],
        ),
    ],
)
def test_a_scope_becomes_the_values_of_the_form(scope: Scope, values: list[str]) -> None:
    assert _scope_values(scope) == values
