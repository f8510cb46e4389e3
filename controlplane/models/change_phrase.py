"""The sentence of a change's detail with its values, for other languages than English.

Invariant: the row of the change, which is sealed, has the English text. A phrase that does not render to this text is not shown
(`selectors.changes`), so a changed phrase cannot change what the audit log says.
"""

from __future__ import annotations

from django.db import models

from controlplane.models.change import Change
from controlplane.models.phrase_field import phrase_field


class ChangePhrase(models.Model):
    """Not a column of `Change`, because a new column would copy the table and remove its triggers."""

    change = models.OneToOneField(Change, on_delete=models.CASCADE, primary_key=True, related_name="phrase")
    detail = phrase_field("the detail")

    def __str__(self) -> str:
        return f"phrase of change {self.change_id}"
