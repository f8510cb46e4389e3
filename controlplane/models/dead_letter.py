"""Dead letters that were sent again, and the transactions that sent them. A constraint allows one transaction of a partition at a time, and one sending
of a dead letter, and of the record that it names, to a target. Rows of dead letters that retention has deleted are deleted by the next sending.
"""

from __future__ import annotations

from django.db import models


class ResendState(models.TextChoices):
    """`sending`: from before the transaction until its end is known. `unknown`: its end cannot be known any more; its dead letters are not sent again."""

    SENDING = "sending", "sending"
    SENT = "sent", "sent"
    NOT_SENT = "not_sent", "not sent"
    UNKNOWN = "unknown", "unknown"


class DeadLetterBatch(models.Model):
    """Dead letters of one partition that one transaction sends to `target`. `topic`, `topic_id`: of the dead letter topic."""

    topic = models.CharField(max_length=249)
    topic_id = models.UUIDField()
    partition = models.PositiveIntegerField()
    target = models.CharField(max_length=249)
    state = models.CharField(max_length=10, choices=ResendState.choices, default=ResendState.SENDING)
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition"],
                condition=models.Q(state="sending"),
                name="one_open_batch_per_dead_letter_partition",
            )
        ]

    def __str__(self) -> str:
        return f"dead letters of {self.topic}-{self.partition} to {self.target}, {self.state}"


class SentDeadLetter(models.Model):
    """A dead letter of a batch that is sending, sent or unknown. `source`: the failed record that it names, `id of the topic:partition@offset`; "": a dead
    letter of a consumer by the convention of headers."""

    batch = models.ForeignKey(DeadLetterBatch, on_delete=models.CASCADE, related_name="letters")
    topic_id = models.UUIDField()
    partition = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    target = models.CharField(max_length=249)
    source = models.CharField(max_length=80, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "offset", "target"], name="one_sending_per_dead_letter_and_target"
            ),
            models.UniqueConstraint(
                fields=["topic_id", "source", "target"],
                condition=~models.Q(source=""),
                name="one_sending_per_failed_record_and_target",
            ),
        ]

    def __str__(self) -> str:
        return f"dead letter {self.partition}@{self.offset} to {self.target}"
