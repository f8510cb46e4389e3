"""The second column of a stored sentence: its text and values, for languages other than English. Contains the field and its values."""

from __future__ import annotations

from django.db import models

from weir_common.json_values import JsonObject
from weir_common.phrases import phrase_to_json


def phrase_field(subject: str) -> models.JSONField[JsonObject, JsonObject]:
    """`subject`: what the sentence is, in the help of the field. Empty: the sentence has no phrase."""
    return models.JSONField(
        default=dict, help_text=f"Text and values of {subject} (weir_common.phrases), for other languages."
    )


def note_columns(note: str) -> dict[str, object]:
    """The values of the columns `note` and `note_phrase` of a row."""
    return {"note": note, "note_phrase": phrase_to_json(note)}
