"""The subject of a report as words."""

from __future__ import annotations

import pytest

from controlplane.controller.events import Subject, SubjectKind


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(SubjectKind.TOPIC, topic="t"), "topic t"),
        (Subject(SubjectKind.MOVE, "7", "t", 0), "move 7 t-0"),
        (Subject(SubjectKind.PARTITION, "", "t", 3), "partition t-3"),
        (Subject(SubjectKind.ACCESS, "acl x"), "access acl x"),
        (Subject(SubjectKind.ACCESS), "access"),
    ],
)
def test_the_text_of_a_subject_has_its_fields(subject: Subject, text: str) -> None:
    assert str(subject) == text
