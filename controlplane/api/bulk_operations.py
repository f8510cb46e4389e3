"""The bulk operations: configs and deletion of topics, deletion of empty groups, limits and deletion of quotas, deletion of SCRAM users,
acknowledgement of alerts, throttles of moves. Does not contain: the common part (`bulk`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.bulk import REPORT, BulkItem, BulkItemChange, BulkItemOutcome, BulkValues, BulkView, body_of
from controlplane.api.quotas import limits_field
from controlplane.domain.errors import Rejected
from controlplane.domain.roles import RoleResource
from controlplane.selectors.bulk_lists import BulkList
from controlplane.services import bulk_access, bulk_alerts, bulk_groups, bulk_limits, bulk_topics, throttles
from controlplane.services.bulk_access import BulkAccessKind
from controlplane.services.bulk_limits import BulkLimitResult, BulkLimitRow
from controlplane.services.bulk_topics import BulkChange, BulkOperation
from controlplane.services.topic_problems import config_problems


class ConfigsField(drf.DictField):
    """All invalid configs together, each under its name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(child=drf.CharField(allow_blank=True, allow_null=True), allow_empty=False, **options)

    def to_internal_value(self, data: dict[str, object]) -> dict[str, str | None]:
        configs: dict[str, str | None] = super().to_internal_value(data)
        if wrong := config_problems({k: v for k, v in configs.items() if v is not None}):
            raise drf.ValidationError({name: [text] for name, text in wrong.items()})
        return configs


class LimitsField(drf.DictField):
    """All invalid limits together, each under its name."""

    def __init__(self) -> None:
        super().__init__(child=drf.FloatField(allow_null=True), allow_empty=False, help_text=limits_field().help_text)

    def to_internal_value(self, data: dict[str, object]) -> dict[str, float | None]:
        limits: dict[str, float | None] = super().to_internal_value(data)
        if wrong := bulk_limits.limit_problems(limits):
            raise drf.ValidationError({name: [text] for name, text in wrong.items()})
        return limits


def if_generations() -> drf.DictField:
    return drf.DictField(
        child=drf.IntegerField(),
        default=dict,
        help_text="{topic: generation} of a dry run: a topic that has changed since is rejected.",
    )


class ThrottleField(drf.IntegerField):
    def to_internal_value(self, data: float | str) -> int:
        rate = super().to_internal_value(data)
        try:
            throttles.check(rate)
        except Rejected as error:
            raise drf.ValidationError(error.reason, code="min_value") from None
        return rate


TOPIC_CONFIGS = body_of(
    "BulkTopicConfigs",
    BulkList.TOPICS,
    configs=ConfigsField(help_text="Only what is named changes; null returns to the default."),
    if_generations=if_generations(),
)
TOPIC_DELETION = body_of("BulkTopicDeletion", BulkList.TOPICS, if_generations=if_generations())
GROUP_DELETION = body_of("BulkGroupDeletion", BulkList.GROUPS)
QUOTA_LIMITS = body_of("BulkQuotaLimits", BulkList.QUOTAS, limits=LimitsField())
QUOTA_DELETION = body_of("BulkQuotaDeletion", BulkList.QUOTAS)
USER_DELETION = body_of("BulkUserDeletion", BulkList.USERS)
ALERT_ACKNOWLEDGEMENT = body_of("BulkAlertAcknowledgement", BulkList.ALERTS, comment_required=False)
MOVE_THROTTLE = body_of(
    "BulkMoveThrottle",
    BulkList.MOVES,
    throttle_bytes_per_s=ThrottleField(
        allow_null=True,
        help_text="Bytes per second and broker from now on; null for none. Replaces an adaptive throttle.",
    ),
)


class BulkTopics(BulkView):
    kind, resource, objects_max = BulkList.TOPICS, RoleResource.TOPIC, bulk_topics.TOPICS_MAX

    def change_of(self, v: BulkValues) -> BulkChange:
        raise NotImplementedError

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        change = self.change_of(v)
        changes_all = change.operation is BulkOperation.DELETE
        items = []
        for row in bulk_topics.preview(keys, change):
            problem = row.problem
            if v["if_generations"].get(row.name, row.generation) != row.generation:
                problem = bulk_topics.CHANGED_SINCE
            changes = [BulkItemChange(name, now, new) for name, now, new in row.changes] if not changes_all else []
            outcome = _planned_outcome(problem, changes_something=changes_all or bool(changes))
            items.append(BulkItem(row.name, row.name, outcome, problem, changes, row.generation))
        return items

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        given = {i.name: i.generation or 0 for i in items}
        before = {i.key: i for i in items}
        results = bulk_topics.execute(given, self.change_of(v), actor=self.actor, comment=v["comment"])
        return [BulkItem(r.name, r.name, r.outcome, r.detail, before[r.name].changes) for r in results]


class BulkTopicConfigsView(BulkTopics):
    reader = TOPIC_CONFIGS

    @extend_schema(request=TOPIC_CONFIGS, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Set or remove config overrides of topics, at most 1,000."""
        return self.run()

    def change_of(self, v: BulkValues) -> BulkChange:
        configs = v["configs"].items()
        changed = {k: c for k, c in configs if c is not None}
        return BulkChange(BulkOperation.CONFIGS, changed, [k for k, c in configs if c is None])


class BulkTopicDeletionView(BulkTopics):
    reader = TOPIC_DELETION

    @extend_schema(request=TOPIC_DELETION, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Delete topics with their records, at most 1,000."""
        return self.run()

    def change_of(self, v: BulkValues) -> BulkChange:
        return BulkChange(BulkOperation.DELETE)


class BulkGroupDeletionView(BulkView):
    kind, resource, objects_max = BulkList.GROUPS, RoleResource.GROUP, bulk_groups.GROUPS_MAX
    reader = GROUP_DELETION

    @extend_schema(request=GROUP_DELETION, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Delete empty groups with their offsets, at most 200. Groups with members are rejected."""
        return self.run()

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        problems = {True: "The group has members. Stop its consumers first.", False: ""}
        return [
            BulkItem(r.group_id, r.group_id, _planned_outcome(problem), problem)
            for r in bulk_groups.preview(keys)
            for problem in (problems[r.members > 0],)
        ]

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        results = bulk_groups.delete_groups([i.key for i in items], actor=self.actor, comment=v["comment"])
        return [BulkItem(r.name, r.name, r.outcome, r.detail) for r in results]


class BulkAccessDeletion(BulkView):
    objects_max = bulk_access.ROWS_MAX
    access_kind: BulkAccessKind

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        return [BulkItem(r.key, r.name, _planned_outcome("")) for r in bulk_access.preview(self.access_kind, keys)]

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        keys = [i.key for i in items]
        results = bulk_access.delete(self.access_kind, keys, actor=self.actor, comment=v["comment"])
        return [BulkItem(k, r.name, r.outcome, r.detail) for k, r in zip(keys, results, strict=True)]


class BulkQuotaDeletionView(BulkAccessDeletion):
    kind, resource, access_kind = BulkList.QUOTAS, RoleResource.QUOTA, BulkAccessKind.QUOTAS
    reader = QUOTA_DELETION

    @extend_schema(request=QUOTA_DELETION, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Remove all limits of quotas, at most 500. Less specific quotas apply afterwards."""
        return self.run()

    def names_of(self, items: Sequence[BulkItem], keys: Sequence[str]) -> Collection[str]:
        return [i.name for i in items]


class BulkUserDeletionView(BulkAccessDeletion):
    kind, resource, access_kind = BulkList.USERS, RoleResource.USER, BulkAccessKind.USERS
    reader = USER_DELETION

    @extend_schema(request=USER_DELETION, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Delete SCRAM users with all credentials, at most 500. ACLs and quotas that name them stay."""
        return self.run()


class BulkQuotaLimitsView(BulkView):
    kind, resource, objects_max = BulkList.QUOTAS, RoleResource.QUOTA, bulk_limits.ROWS_MAX
    reader = QUOTA_LIMITS

    @extend_schema(request=QUOTA_LIMITS, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Change limits of quotas, at most 500. A quota without limits is deleted."""
        return self.run()

    def names_of(self, items: Sequence[BulkItem], keys: Sequence[str]) -> Collection[str]:
        return [i.name for i in items]

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        return [_limit_item(r) for r in bulk_limits.preview_quotas(keys, v["limits"])]

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        keys = [i.key for i in items]
        return _with_changes(items, bulk_limits.set_quotas(keys, v["limits"], actor=self.actor, comment=v["comment"]))


class BulkMoveThrottleView(BulkView):
    kind, resource, objects_max = BulkList.MOVES, RoleResource.TOPIC, bulk_limits.MOVES_MAX
    reader = MOVE_THROTTLE

    @extend_schema(request=MOVE_THROTTLE, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Change or remove the throttle of moves, at most 100, also during copying. Finished moves are rejected."""
        return self.run()

    def names_of(self, items: Sequence[BulkItem], keys: Sequence[str]) -> Collection[str]:
        return bulk_limits.topics_of_moves([i.key for i in items])

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        return [_limit_item(r) for r in bulk_limits.preview_throttles(keys, v["throttle_bytes_per_s"])]

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        keys, rate = [i.key for i in items], v["throttle_bytes_per_s"]
        return _with_changes(items, bulk_limits.throttle_moves(keys, rate, actor=self.actor, comment=v["comment"]))


class BulkAlertAcknowledgementView(BulkView):
    kind, resource, objects_max = BulkList.ALERTS, None, bulk_alerts.ALERTS_MAX
    reader = ALERT_ACKNOWLEDGEMENT

    @extend_schema(request=ALERT_ACKNOWLEDGEMENT, responses={200: REPORT})
    def post(self, request: Request) -> Response:
        """Record that this user works on the alerts, at most 500. Ended and acknowledged ones are rejected."""
        return self.run()

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        return [BulkItem(r.key, r.name, _planned_outcome(r.problem), r.problem) for r in bulk_alerts.preview(keys)]

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        results = bulk_alerts.acknowledge([i.key for i in items], actor=self.actor, comment=v["comment"])
        return [BulkItem(r.key, r.name, r.outcome, r.detail) for r in results]


def _planned_outcome(problem: str, *, changes_something: bool = True) -> BulkItemOutcome:
    if problem:
        return BulkItemOutcome.REJECTED
    return BulkItemOutcome.PLANNED if changes_something else BulkItemOutcome.UNCHANGED


def _limit_item(row: BulkLimitRow) -> BulkItem:
    changes = [BulkItemChange(name, _text(now), _text(new)) for name, now, new in row.changes]
    return BulkItem(
        row.key, row.name, _planned_outcome(row.problem, changes_something=bool(changes)), row.problem, changes
    )


def _text(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"


def _with_changes(items: Iterable[BulkItem], results: Iterable[BulkLimitResult]) -> list[BulkItem]:
    before = {i.key: i.changes for i in items}
    return [BulkItem(r.key, r.name, r.outcome, r.detail, before[r.key]) for r in results]
