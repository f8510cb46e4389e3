"""Offset resets of consumer groups: previews, waiting and applied resets, with the offsets before for an undo. States change by compare-and-set on
(id, state, version). A constraint allows one reset of a group to write at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models

from brokerd.wire.errors import ErrorCode
from controlplane.db.typed_json import TypedJSONField
from controlplane.domain.offset_reset_json import (
    differences_from_json,
    differences_to_json,
    errors_from_json,
    errors_to_json,
    rows_from_json,
    rows_to_json,
)
from controlplane.domain.offset_reset_types import (
    Key,
    PartitionReset,
    ReportedDifference,
    ResetSpec,
    ResetState,
    ResetTotals,
)
from controlplane.models.choices import choices
from controlplane.models.phrase_field import phrase_field


class ResetCause(models.TextChoices):
    """The reason why the last attempt to apply a reset did not succeed, or not completely."""

    NONE = "", ""
    ACTIVE = "active", "group active"
    CHANGED = "changed", "offsets changed since the preview"
    OUT_OF_RANGE = "out_of_range", "new offset no longer in the log"
    NO_RESPONSE = "no_response", "no response"
    DECLINED = "declined", "declined by the coordinator"
    DIFFERENT = "different", "read back different"


class OffsetReset(models.Model):
    """`rows`: the partitions; with the offsets before they are the source of an undo. `differences`: of the last comparison. `errors`: of the
    coordinator, by partition. `undo_of`: the reset that this one undoes. `applying_at` is set from the claim on: with it, a finished reset was
    sent."""

    group_id = models.CharField(max_length=255, db_index=True)
    spec: models.Field[ResetSpec, ResetSpec] = TypedJSONField(load=ResetSpec.from_json, dump=ResetSpec.to_json)
    rows: models.Field[Sequence[PartitionReset], tuple[PartitionReset, ...]] = TypedJSONField(
        load=rows_from_json, dump=rows_to_json, default=tuple
    )
    totals: models.Field[ResetTotals, ResetTotals] = TypedJSONField(ResetTotals, default=ResetTotals)
    state = models.CharField(
        max_length=10, choices=choices(ResetState), default=ResetState.PREVIEWED.value, db_index=True
    )
    cause = models.CharField(max_length=12, choices=ResetCause.choices, default=ResetCause.NONE, blank=True)
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    differences: models.Field[Sequence[ReportedDifference], tuple[ReportedDifference, ...]] = TypedJSONField(
        load=differences_from_json, dump=differences_to_json, default=tuple
    )
    errors: models.Field[dict[Key, ErrorCode], dict[Key, ErrorCode]] = TypedJSONField(
        load=errors_from_json, dump=errors_to_json, default=dict
    )
    requests = models.PositiveIntegerField(default=0, help_text="Requests of the preview to brokers.")
    undo_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="undos")
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    wait_until = models.DateTimeField(null=True, help_text="End of the wait for a group without members.")
    version = models.PositiveIntegerField(default=0)
    computed_at = models.DateTimeField(help_text="When the offsets of the rows were read.")
    applying_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["group_id"], condition=models.Q(state="applying"), name="one_reset_writes_per_group"
            )
        ]

    def __str__(self) -> str:
        return f"offset reset {self.pk} of {self.group_id}"
