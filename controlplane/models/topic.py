"""A topic as it is wanted. Law: written by services; the controller's database thread only fills `applied_*` and `note`."""

from __future__ import annotations

import uuid

from django.db import models


class Topic(models.Model):
    """`generation` grows with every change; the controller applies a row when it is greater than the metadata log's.

    `deleted_at` set is a tombstone: only it deletes a topic, a missing row never does.
    `assignment` is {partition: [broker, ...]} (keys are strings, as JSON has them) or null for automatic placement; it counts at
    creation and for added partitions, later placement changes are moves.
    `request_id` names the broker's request that last changed the row, so that the controller can answer it.
    `overlay` holds what running moves add to `configs` while they copy (`services.throttles`); the log gets both, nobody's own wish is touched.
    `note` is the controller's word when it could not apply the row (with `note_generation`, the generation it speaks of).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=249)
    partitions = models.PositiveIntegerField()
    replication_factor = models.PositiveSmallIntegerField()
    configs = models.JSONField(default=dict)
    overlay = models.JSONField(null=True)
    assignment = models.JSONField(null=True)
    internal = models.BooleanField(default=False)
    generation = models.PositiveBigIntegerField(default=1)
    applied_generation = models.PositiveBigIntegerField(default=0)
    controller_epoch = models.BigIntegerField(default=-1)
    note = models.TextField(default="")
    note_generation = models.PositiveBigIntegerField(default=0)
    request_id = models.CharField(max_length=200, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

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
    """A broker's request whose rows were written: asked again (a new controller, a lost answer), it writes nothing twice."""

    request_id = models.CharField(primary_key=True, max_length=200)
    kind = models.CharField(max_length=40)
    topic_ids = models.JSONField(default=list)
    at = models.DateTimeField(auto_now_add=True, db_index=True)
