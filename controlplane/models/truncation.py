"""Records that replicas deleted because their leader did not have them. Only the monitor writes these rows."""

from __future__ import annotations

from django.db import models


class ReplicaTruncation(models.Model):
    """A replica deleted the records of the offsets `first_offset` to `end_offset` - 1. Records below `high_watermark` were acknowledged. The broker's high
    watermark may be older than that of its former leader, so more records may have been acknowledged."""

    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    first_offset = models.BigIntegerField()
    end_offset = models.BigIntegerField(help_text="Offset after the last deleted record.")
    high_watermark = models.BigIntegerField(help_text="High watermark of the replica before the deletion.")
    leader_epoch = models.IntegerField(help_text="Epoch of the leader that did not have the records.")
    truncated_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-truncated_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "broker_id", "truncated_at"],
                name="one_truncation_per_replica_and_time",
            )
        ]

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition} on broker {self.broker_id}: from {self.first_offset} to below {self.end_offset}"
