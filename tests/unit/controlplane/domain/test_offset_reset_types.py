"""Values of an offset reset: the stored form of a request, and what a partition changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controlplane.domain.offset_reset_types import (
    CommittedOffset,
    PartitionReset,
    ResetSpec,
    ResetTarget,
    RowProblem,
)


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (ResetSpec(ResetTarget.LATEST), {"target": "latest"}),
        (ResetSpec(ResetTarget.OFFSET, topics=("a",), offset=0), {"target": "offset", "topics": ["a"], "offset": 0}),
        (
            ResetSpec(ResetTarget.TIME, partitions=(("a", 1),), time_ms=0),
            {"target": "time", "partitions": [["a", 1]], "time_ms": 0},
        ),
        (ResetSpec(ResetTarget.SHIFT, shift=-3), {"target": "shift", "shift": -3}),
        (ResetSpec(ResetTarget.GROUP, source_group="g"), {"target": "group", "source_group": "g"}),
        (ResetSpec(ResetTarget.UNDO, undone=7), {"target": "undo", "undone": 7}),
        (
            ResetSpec(ResetTarget.FILE, offsets={("b", 0): 5, ("a", 1): 0}),
            {"target": "file", "offsets": [["a", 1, 0], ["b", 0, 5]]},
        ),
    ],
    ids=lambda x: x.target.value if isinstance(x, ResetSpec) else "",
)
def test_a_request_is_stored_without_the_fields_that_have_no_value(spec: ResetSpec, stored: object) -> None:
    assert spec.to_json() == stored
    assert ResetSpec.from_json(json.loads(json.dumps(stored))) == spec


def test_a_partition_with_a_problem_or_with_an_equal_offset_does_not_change() -> None:
    row = PartitionReset("a", 1, CommittedOffset(5), CommittedOffset(9))
    assert row.changes and not row.overtaken and row.key == ("a", 1)
    assert not replace(row, problem=RowProblem.NO_LEADER).changes
    assert not replace(row, after=row.now).changes and replace(row, after=None).changes
    assert replace(row, lost=1).overtaken
