"""Metrics of messages that Kafka does not have: half messages, delayed messages, dead letters. Observed rows: only the monitor writes them.

Does not contain: the messages, which are in the brokers' logs.
"""

from __future__ import annotations

from django.db import models


class TopicMessages(models.Model):
    """Metrics of the messages of one topic. Null: the topic does not have the feature. `half_expired` and `dead_letters` are numbers by offsets: markers of
    transactions count. `dead_letters_grown`: new ones in the last ten minutes."""

    topic = models.CharField(max_length=249, primary_key=True)
    half_undecided = models.BigIntegerField(null=True)
    half_oldest_at = models.DateTimeField(null=True, help_text="When the oldest undecided one was written.")
    half_oldest_checks = models.PositiveIntegerField(null=True)
    half_checks = models.BigIntegerField(null=True, help_text="Checks sent since the present leaders lead.")
    half_expired = models.BigIntegerField(null=True, help_text="Records in the topic of expired half messages.")
    delayed_pending = models.BigIntegerField(null=True, help_text="Records that are not delivered yet.")
    delayed_next_at = models.DateTimeField(
        null=True, help_text="Delivery time of the first record that is not delivered."
    )
    delayed_late_ms = models.BigIntegerField(null=True, help_text="How late the last batch was sent, milliseconds.")
    dead_letters = models.BigIntegerField(null=True)
    dead_letters_grown = models.BigIntegerField(null=True)
    sampled_at = models.DateTimeField(help_text="Time of the oldest answer in these metrics.")

    class Meta:
        ordering = ["topic"]

    def __str__(self) -> str:
        return self.topic


class ShareGroupLetters(models.Model):
    """Dead letters of the records of one topic in one share group, as counted by one broker since its start."""

    group_id = models.CharField(max_length=255)
    topic = models.CharField(max_length=249)
    broker_id = models.IntegerField()
    written = models.BigIntegerField()
    unwritten = models.BigIntegerField(help_text="Records that were archived without a dead letter.")
    reason = models.CharField(max_length=40, blank=True)
    unwritten_at = models.DateTimeField(null=True, help_text="When `unwritten` last grew.")
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id", "topic", "broker_id"]
        constraints = [
            models.UniqueConstraint(fields=["group_id", "topic", "broker_id"], name="one_row_per_share_group_letters")
        ]

    def __str__(self) -> str:
        return f"{self.group_id}: {self.topic} on broker {self.broker_id}"
