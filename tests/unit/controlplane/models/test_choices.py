"""Choices of a field from an enum."""

from __future__ import annotations

from enum import StrEnum

from controlplane.models.choices import choices


class Kind(StrEnum):
    NONE = ""
    CATCHING_UP = "catching_up"


def test_labels_are_words_also_for_an_empty_value() -> None:
    assert choices(Kind) == [("", "none"), ("catching_up", "catching up")]
