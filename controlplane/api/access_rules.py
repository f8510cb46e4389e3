"""Table of the routes of the REST API: the resource that a route needs a role for. Invariants: every changing route is in RULES, with a rule or with
CLUSTER. A reading route that is not in VIEWS shows the whole cluster: users who see only some resources get a rejection
(tests/unit/controlplane/api/test_access_rules.py, test_visibility.py). Does not contain: the decision (`controlplane.services.authorization`)."""

from __future__ import annotations

from controlplane.domain.roles import Access, RoleResource
from controlplane.services.authorization import AccessRule
from controlplane.services.request_resources import (
    acl_of_fields,
    acl_of_path,
    broker_or_all,
    brokers_of_field,
    brokers_of_restart,
    entity_of_field,
    entity_of_quota,
    field_name,
    group_of_reset,
    name_of_plan,
    no_names,
    path_name,
    source_of_route,
    targets_of_route,
    topics_of_move,
    topics_of_plan,
    topics_of_scope,
    user_of_route,
)

CLUSTER = None
"""Only an operator of the whole cluster may do it."""
TOPIC = AccessRule(RoleResource.TOPIC, path_name("name"))
TOPIC_OF_BODY = AccessRule(RoleResource.TOPIC, field_name("topic"))
PRODUCES = AccessRule(RoleResource.TOPIC, path_name("name"), Access.PRODUCE_RECORDS)
GROUP = AccessRule(RoleResource.GROUP, path_name("group_id"))
GROUP_OF_BODY = AccessRule(RoleResource.GROUP, field_name("group_id"))
USER = AccessRule(RoleResource.USER, path_name("name"))
RESET = AccessRule(RoleResource.GROUP, group_of_reset)
MOVE = AccessRule(RoleResource.TOPIC, topics_of_move)
BROKER = AccessRule(RoleResource.BROKER, path_name("broker_id"))
LOG_DIRECTORIES = AccessRule(RoleResource.BROKER, path_name("broker_id"), whole_cluster=True)
"""They have replicas of all topics, and a drain moves all. Notes of restarts name partitions."""
RESTART = AccessRule(RoleResource.BROKER, brokers_of_restart, whole_cluster=True)
QUOTA = AccessRule(RoleResource.QUOTA, entity_of_quota)
PLAN = AccessRule(RoleResource.PLAN, name_of_plan)
TARGETS = AccessRule(RoleResource.TOPIC, targets_of_route, Access.PRODUCE_RECORDS)
SOURCE = AccessRule(RoleResource.TOPIC, source_of_route, Access.READ_RECORDS)
PRINCIPAL = AccessRule(RoleResource.USER, user_of_route)
ROUTE = AccessRule(RoleResource.ROUTE, path_name("name"))

BULK = {
    kind: AccessRule(kind, no_names, checked_by_view=True)
    for kind in (RoleResource.TOPIC, RoleResource.GROUP, RoleResource.QUOTA, RoleResource.USER)
}
"""`controlplane.api.bulk` checks the role for each object of the names or of the filter."""

OWN = frozenset({"POST token-list", "DELETE token-detail"})
"""Changing routes about the user's own objects, with a permission class of their own."""
RULES: dict[str, AccessRule | None] = {
    "POST topic-list": AccessRule(RoleResource.TOPIC, field_name("name")),
    "POST bulk-topic-configs": BULK[RoleResource.TOPIC],
    "POST bulk-topic-deletion": BULK[RoleResource.TOPIC],
    "POST bulk-group-deletion": BULK[RoleResource.GROUP],
    "POST bulk-quota-limits": BULK[RoleResource.QUOTA],
    "POST bulk-quota-deletion": BULK[RoleResource.QUOTA],
    "POST bulk-user-deletion": BULK[RoleResource.USER],
    "POST bulk-move-throttle": BULK[RoleResource.TOPIC],
    "PATCH topic-detail": TOPIC,
    "DELETE topic-detail": TOPIC,
    "POST topic-produce": PRODUCES,
    "POST topic-copy-records": PRODUCES,
    "POST topic-preview-copy": PRODUCES,
    "POST topic-send-dead-letters": PRODUCES,
    "POST topic-send-matching-dead-letters": PRODUCES,
    "POST topic-send-edited-dead-letter": PRODUCES,
    "POST topic-cancel-message": PRODUCES,
    "POST topic-preview-cancel": PRODUCES,
    "POST leader-elections": TOPIC_OF_BODY,
    "POST recovery-list": TOPIC_OF_BODY,
    "DELETE group-detail": GROUP,
    "PATCH group-config-detail": GROUP,
    "DELETE share-group-detail": GROUP,
    "POST member-removal-list": GROUP_OF_BODY,
    "POST offset-reset-list": GROUP_OF_BODY,
    "POST offset-reset-apply": RESET,
    "POST offset-reset-cancel": RESET,
    "POST offset-reset-preview": RESET,
    "POST offset-reset-undo": RESET,
    "POST move-list": AccessRule(RoleResource.TOPIC, topics_of_scope),
    "POST move-approve": MOVE,
    "POST move-cancel": MOVE,
    "POST move-pause": MOVE,
    "POST move-resume": MOVE,
    "POST move-roll-back": MOVE,
    "POST move-schedule": MOVE,
    "POST move-start": MOVE,
    "POST move-throttle": MOVE,
    "POST user-list": AccessRule(RoleResource.USER, field_name("name")),
    "PATCH user-detail": USER,
    "DELETE user-detail": USER,
    **dict.fromkeys(
        (
            "POST broker-cordon",
            "POST broker-demote",
            "POST broker-restore",
            "POST broker-restore-leadership",
            "POST broker-uncordon",
        ),
        BROKER,
    ),
    **dict.fromkeys(
        ("POST broker-cancel-log-directory-move", "POST broker-drain", "POST broker-move-log-directory"),
        LOG_DIRECTORIES,
    ),
    "PATCH broker-configs": AccessRule(RoleResource.BROKER, broker_or_all),
    "POST restart-list": AccessRule(RoleResource.BROKER, brokers_of_field("brokers"), whole_cluster=True),
    "POST restart-cancel": RESTART,
    "POST restart-pause": RESTART,
    "POST restart-resume": RESTART,
    "POST route-list": AccessRule(RoleResource.ROUTE, field_name("name"), also=(SOURCE, TARGETS, PRINCIPAL)),
    "PATCH route-detail": AccessRule(RoleResource.ROUTE, path_name("name"), also=(TARGETS, PRINCIPAL)),
    "DELETE route-detail": ROUTE,
    "POST route-test": ROUTE,
    "POST quota-list": AccessRule(RoleResource.QUOTA, entity_of_field),
    "PATCH quota-detail": QUOTA,
    "DELETE quota-detail": QUOTA,
    "POST acl-list": AccessRule(RoleResource.ACL, acl_of_fields),
    "DELETE acl-detail": AccessRule(RoleResource.ACL, acl_of_path),
    "POST plan-list": AccessRule(RoleResource.PLAN, field_name("name")),
    "DELETE plan-detail": PLAN,
    "POST plan-move": AccessRule(
        RoleResource.PLAN, name_of_plan, also=(AccessRule(RoleResource.TOPIC, topics_of_plan),)
    ),
    **dict.fromkeys(
        (
            "POST acl-template-apply",
            "POST anomaly-switch",
            "PATCH healing-action",
            "POST process-start",
            "POST rebalance",
            "POST lake-query",
            "PATCH alert-threshold-detail",
            "PUT alert-threshold-override",
            "DELETE alert-threshold-override",
            "POST alert-acknowledge",
            "POST bulk-alert-acknowledgement",
            "POST alert-notes",
            "POST alert-withdraw",
            "POST archive-list",
            "POST archive-resume",
            "POST archive-stop",
            "POST connector-change",
            "POST connector-create",
            "POST connector-delete",
            "POST connector-pause",
            "POST connector-restart",
            "POST connector-restart-task",
            "POST connector-resume",
            "POST connector-stop",
            "POST connector-validate",
            "POST document-plan-list",
            "POST document-plan-apply",
            "POST drift-adopt",
            "POST masking-rule-list",
            "DELETE masking-rule-detail",
            "POST notification-channel-list",
            "PATCH notification-channel-detail",
            "DELETE notification-channel-detail",
            "POST notification-channel-test",
            "POST plan-approve",
            "POST proposal-list",
            "POST proposal-approve",
            "POST proposal-reject",
            "POST role-binding-list",
            "DELETE role-binding-detail",
            "POST schema-check",
            "POST schema-delete",
            "POST schema-register",
            "POST silence-list",
            "POST silence-end",
            "POST spark-job-list",
            "DELETE spark-job-detail",
            "POST spark-job-run",
            "POST spark-job-schedule",
            "POST spark-job-stop",
        ),
        CLUSTER,
    ),
}

VIEW = Access.VIEW
LIST = AccessRule(RoleResource.TOPIC, no_names, VIEW)
"""The selectors omit what the user may not see (`controlplane.selectors.visibility`), or the rows have no resource."""
VIEW_TOPIC = AccessRule(RoleResource.TOPIC, path_name("name"), VIEW)
VIEW_GROUP = AccessRule(RoleResource.GROUP, path_name("group_id"), VIEW)
VIEW_MOVE = AccessRule(RoleResource.TOPIC, topics_of_move, VIEW)
VIEW_RESET = AccessRule(RoleResource.GROUP, group_of_reset, VIEW)
VIEWS: dict[str, AccessRule] = {
    "index": LIST,
    "schema": LIST,
    "overview": LIST,
    "history": LIST,
    "incidents": LIST,
    "alert-list": LIST,
    "alert-detail": LIST,
    "change-list": LIST,
    "damage-report-list": LIST,
    "drift-list": LIST,
    "group-list": LIST,
    "group-config-detail": VIEW_GROUP,
    "group-detail": VIEW_GROUP,
    "half-message-list": LIST,
    "move-list": LIST,
    "move-detail": VIEW_MOVE,
    "move-brokers": VIEW_MOVE,
    "move-delete-records": VIEW_MOVE,
    "move-history": VIEW_MOVE,
    "move-parts": VIEW_MOVE,
    "move-plan": VIEW_MOVE,
    "move-producer-latency": VIEW_MOVE,
    "move-samples": VIEW_MOVE,
    "offset-reset-list": LIST,
    "offset-reset-detail": VIEW_RESET,
    "partition-list": LIST,
    "recovery-list": LIST,
    "recovery-detail": LIST,
    "share-group-list": LIST,
    "share-group-detail": VIEW_GROUP,
    "token-list": LIST,
    "token-detail": LIST,
    "topic-list": LIST,
    **dict.fromkeys(
        (
            "topic-detail",
            "topic-configs",
            "topic-dead-letters",
            "topic-delayed-messages",
            "topic-half-messages",
            "topic-messages",
            "topic-partition",
            "topic-partition-messages",
            "topic-partition-storage",
            "topic-partition-truncations",
            "topic-partitions",
            "topic-pending-messages",
            "topic-produce",
            "topic-storage",
        ),
        VIEW_TOPIC,
    ),
    "acl-list": LIST,
    "acl-detail": AccessRule(RoleResource.ACL, acl_of_path, VIEW),
    "broker-list": LIST,
    **dict.fromkeys(
        ("broker-detail", "broker-configs", "broker-refusals", "broker-replicas", "broker-requests", "broker-restart"),
        AccessRule(RoleResource.BROKER, path_name("broker_id"), VIEW),
    ),
    "quota-list": LIST,
    "quota-detail": AccessRule(RoleResource.QUOTA, entity_of_quota, VIEW),
    "route-list": LIST,
    "route-detail": AccessRule(RoleResource.ROUTE, path_name("name"), VIEW),
    "user-list": LIST,
    "user-detail": AccessRule(RoleResource.USER, path_name("name"), VIEW),
}
"""Reading routes that a user who sees only some resources may use."""
