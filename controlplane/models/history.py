"""Recorded history of metrics (decision 054). Only the monitor writes these rows.

A value is first part of a frame. Each hour the frames become chunks of 10 s, and after a day chunks of a minute. Times are Unix seconds.
"""

from __future__ import annotations

from django.db import models


class HistorySeries(models.Model):
    """One metric of one subject: `cluster`, `topic:NAME`, `group:ID`, `share_group:ID`, `broker:ID`, `partition:TOPIC:INDEX`."""

    subject = models.CharField(max_length=300)
    metric = models.CharField(max_length=40)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["subject", "metric"], name="one_row_per_history_series")]

    def __str__(self) -> str:
        return f"{self.metric} of {self.subject}"


class HistoryFrame(models.Model):
    """The values of up to 1,000 series at one point in time. `codes`: 16 bits for each series of the block, by its id (`weir_common.history_codes.code_of`)."""

    block = models.PositiveIntegerField(help_text="Id of the series, divided by 1,000.")
    at = models.BigIntegerField(help_text="Unix seconds.")
    codes = models.BinaryField()

    class Meta:
        ordering = ["block", "at"]
        constraints = [models.UniqueConstraint(fields=["block", "at"], name="one_row_per_history_frame")]

    def __str__(self) -> str:
        return f"block {self.block} at {self.at}"


class HistoryChunk(models.Model):
    """360 consecutive values of a series. `codes`: `weir_common.history_codes.pack`."""

    series = models.ForeignKey(HistorySeries, on_delete=models.CASCADE, related_name="chunks", db_index=False)
    step_s = models.PositiveSmallIntegerField(help_text="Seconds between two values: 10 or 60.")
    begins = models.BigIntegerField(help_text="Unix seconds of the first value.")
    codes = models.BinaryField()

    class Meta:
        ordering = ["series_id", "step_s", "begins"]
        constraints = [
            models.UniqueConstraint(fields=["series", "step_s", "begins"], name="one_row_per_history_chunk"),
        ]

    def __str__(self) -> str:
        return f"series {self.series_id} from {self.begins}, every {self.step_s} s"
