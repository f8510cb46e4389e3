"""Scopes of moves: from JSON and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import scope as scopes

ids = st.integers(1, 9)
names = st.text("abc.-", min_size=1, max_size=5)
placements = st.builds(scopes.Placement, names, st.integers(0, 99), st.lists(ids, max_size=4).map(tuple))
any_scope = st.one_of(
    st.builds(scopes.PartitionsScope, st.lists(placements, max_size=4).map(tuple), st.none() | st.integers(0, 999)),
    st.builds(scopes.TopicScope, names, st.lists(ids, max_size=4).map(tuple)),
    *(st.builds(kind, broker=ids) | st.builds(kind, rack=names) for kind in (scopes.DrainScope, scopes.FillScope)),
    st.builds(scopes.ReplicationFactorScope, names, ids),
    st.builds(scopes.RebalanceScope, st.just(("disk", "rack")), st.floats(0.01, 1.0)),
)


@given(any_scope)
def test_every_scope_is_restored_from_its_json(scope: scopes.Scope) -> None:
    assert scopes.parse(scopes.to_json(scope)) == scope


@pytest.mark.parametrize("value", [None, [], {}, {"kind": "sideways"}, {"kind": "partitions", "partitions": [{}]}])
def test_an_invalid_scope_is_rejected(value: Any) -> None:
    with pytest.raises(scopes.ScopeError):
        scopes.parse(value)
