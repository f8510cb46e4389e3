"""Progress of share groups. Observed rows: only the monitor writes them. Does not contain: members, which pages read from the coordinators."""

from __future__ import annotations

from django.db import models

from controlplane.domain.lag import Block, LagStatus
from controlplane.models.choices import choices


class ShareGroupPartition(models.Model):
    """A share group in one partition. `start_offset`: the first offset whose delivery has not ended; null before the first fetch. `lag_ms`: age of the record
    there; `lag_at_least`: it may be older. `block`: why the status is blocked. `member_count`: members to which the partition is assigned.
    `is_full`: the limit of records in flight is reached, so no new record is delivered; null: unknown.
    `track`: the form that a new process continues from (`lag.Track`)."""

    group_id = models.CharField(max_length=255)
    topic = models.CharField(max_length=249)
    index = models.PositiveIntegerField()
    start_offset = models.BigIntegerField(null=True)
    lag_records = models.BigIntegerField(null=True, help_text="Records whose delivery has not ended; null: unknown.")
    lag_ms = models.BigIntegerField(null=True, help_text="Milliseconds: age of the record at the start offset.")
    lag_at_least = models.BooleanField(default=False, help_text="The lag in time is a lower bound.")
    status = models.CharField(max_length=20, default="unknown", choices=choices(LagStatus), db_index=True)
    block = models.CharField(max_length=20, default="", blank=True, choices=choices(Block))
    is_full = models.BooleanField(null=True, help_text="The limit of records in flight is reached; null: unknown.")
    member_count = models.PositiveIntegerField(default=0)
    track = models.JSONField(default=dict)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id", "topic", "index"]
        constraints = [
            models.UniqueConstraint(fields=["group_id", "topic", "index"], name="one_row_per_share_group_partition")
        ]

    def __str__(self) -> str:
        return f"{self.group_id}: {self.topic}-{self.index}"
