"""The desired state of topics. Services write it; the database thread of the controller sets only `applied_*` and `note`."""

from __future__ import annotations

import uuid

from django.db import models

from brokerd.cluster.requests import RequestKind
from controlplane.models.choices import choices


class Topic(models.Model):
    """`generation` grows with every change. The controller applies a row if its generation is greater than that of the metadata log.

    `deleted_at` set is a tombstone: only a tombstone deletes a topic, a missing row never does.
    `assignment` is {partition: [broker, ...]} (keys are strings, as in JSON) or null for automatic placement. It applies at creation and to
    added partitions; later changes of the placement are moves.
    `request_id` identifies the broker's request that last changed the row, so that the controller can answer it.
    `overlay`: what running moves add to `configs` while they copy (`services.throttles`). The metadata log gets both; `configs` stays unchanged.
    `note`: why the controller could not apply the row of generation `note_generation`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=249)
    partitions = models.PositiveIntegerField()
    replication_factor = models.PositiveSmallIntegerField()
    configs = models.JSONField(default=dict)
    overlay = models.JSONField(null=True, help_text="What running moves add to the configs.")
    assignment = models.JSONField(null=True, help_text="Partition to brokers; null: automatic placement.")
    internal = models.BooleanField(default=False)
    generation = models.PositiveBigIntegerField(default=1, help_text="Grows with every change.")
    applied_generation = models.PositiveBigIntegerField(
        default=0, help_text="Generation that the metadata log contains."
    )
    controller_epoch = models.BigIntegerField(default=-1)
    note = models.TextField(default="", help_text="Why the controller could not apply the topic.")
    note_generation = models.PositiveBigIntegerField(default=0)
    request_id = models.CharField(max_length=200, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True, help_text="Tombstone; only this deletes a topic.")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(deleted_at__isnull=True), name="one_living_topic_per_name"
            ),
            models.CheckConstraint(condition=models.Q(partitions__gte=1), name="topic_has_a_partition"),
            models.CheckConstraint(condition=models.Q(replication_factor__gte=1), name="topic_has_a_replica"),
        ]
        indexes = [
            models.Index(
                fields=["name"],
                condition=models.Q(applied_generation__lt=models.F("generation")),
                name="topic_waiting_to_be_applied",
            )
        ]

    def __str__(self) -> str:
        return self.name


class HandledRequest(models.Model):
    """A broker's request whose rows were written. A repeated request (a new controller, a lost response) writes nothing again."""

    request_id = models.CharField(primary_key=True, max_length=200)
    kind = models.CharField(
        max_length=40,
        choices=choices(RequestKind),
        help_text="Kind of the request of a broker (brokerd.cluster.requests).",
    )
    topic_ids = models.JSONField(default=list)
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return self.request_id
