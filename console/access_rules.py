"""Table of the pages: the resource that a page needs a role for. Invariants: every page that only operators may open is in RULES, with a rule or with CLUSTER
(tests/unit/console/test_access_rules.py). The other pages in RULES decide with their rule whether they show buttons. A page that is neither in VIEWS nor
in RULES with a rule shows the whole cluster: users who see only some resources may not open it.
Does not contain: the decision (`controlplane.services.authorization`)."""

from __future__ import annotations

from controlplane.domain.roles import Access, RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.selectors.visibility import current_visibility
from controlplane.services.authorization import AccessRule
from controlplane.services.request_resources import (
    acl_of_fields,
    acl_of_path,
    brokers_of_restart,
    entity_of_quota,
    field_name,
    group_of_reset,
    name_of_plan,
    no_names,
    path_name,
    query_name,
    source_of_route,
    targets_of_route,
    topics_of_move,
    topics_of_moved_plan,
    user_of_route,
)

CLUSTER = None
"""The rule of a view that only an operator of the whole cluster may use."""
TOPIC = AccessRule(RoleResource.TOPIC, path_name("name"))
TOPICS = AccessRule(RoleResource.TOPIC, no_names)
"""The view checks each resource (`shell.require_role`), because only its form names them. The same applies to GROUPS."""
PRODUCES = AccessRule(RoleResource.TOPIC, path_name("name"), Access.PRODUCE_RECORDS)
GROUP = AccessRule(RoleResource.GROUP, path_name("group_id"))
GROUP_OF_QUERY = AccessRule(RoleResource.GROUP, query_name("group"))
GROUPS = AccessRule(RoleResource.GROUP, no_names)
USER = AccessRule(RoleResource.USER, path_name("name"))
RESET = AccessRule(RoleResource.GROUP, group_of_reset)
MOVE = AccessRule(RoleResource.TOPIC, topics_of_move)

BROKER = AccessRule(RoleResource.BROKER, path_name("broker_id"))
BROKERS = AccessRule(RoleResource.BROKER, no_names)
LOG_DIRECTORIES = AccessRule(RoleResource.BROKER, path_name("broker_id"), whole_cluster=True)
"""Needs a role for all brokers, because a log directory has replicas of all topics. So do restarts, whose notes name partitions."""
RESTART = AccessRule(RoleResource.BROKER, brokers_of_restart, whole_cluster=True)
RESTARTS = AccessRule(RoleResource.BROKER, no_names, whole_cluster=True)
QUOTA = AccessRule(RoleResource.QUOTA, entity_of_quota)
QUOTAS = AccessRule(RoleResource.QUOTA, no_names)
TARGETS = AccessRule(RoleResource.TOPIC, targets_of_route, Access.PRODUCE_RECORDS)
SOURCE = AccessRule(RoleResource.TOPIC, source_of_route, Access.READ_RECORDS)
PRINCIPAL = AccessRule(RoleResource.USER, user_of_route)
ROUTE = AccessRule(RoleResource.ROUTE, path_name("name"))

CHECKED_IN_VIEW = (
    "broker-config-edit",
    "bulk-groups",
    "bulk-move-throttles",
    "bulk-quota-limits",
    "bulk-quotas",
    "bulk-topics",
    "bulk-users",
    "move-new",
    "quota-new",
    "restart-new",
)
"""Pages whose views check the resources of their forms."""
RULES: dict[str, AccessRule | None] = {
    "topics": TOPICS,
    "topic": TOPIC,
    "partition": TOPIC,
    "topic-new": AccessRule(RoleResource.TOPIC, field_name("name")),
    "topic-alter": TOPIC,
    "topic-delete": TOPIC,
    "recover": TOPIC,
    "bulk-move-throttles": TOPICS,
    "bulk-topics": TOPICS,
    "dead-letters": PRODUCES,
    "dead-letters-send": PRODUCES,
    "dead-letters-send-matching": PRODUCES,
    "dead-letter-edit": PRODUCES,
    "delayed-messages": PRODUCES,
    "delayed-message-cancel": PRODUCES,
    "produce": PRODUCES,
    "record-copy": AccessRule(RoleResource.TOPIC, field_name("topic"), Access.PRODUCE_RECORDS),
    "groups": GROUPS,
    "bulk-groups": GROUPS,
    "group": GROUP,
    "group-delete": GROUP,
    "group-configs": GROUP,
    "group-config-edit": GROUP,
    "share-group": GROUP,
    "share-group-delete": GROUP,
    "offset-reset-new": GROUP_OF_QUERY,
    "offset-reset": RESET,
    "offset-reset-act": RESET,
    "member-remove": GROUP_OF_QUERY,
    "moves": TOPICS,
    "move": MOVE,
    "move-act": MOVE,
    "move-new": TOPICS,
    "users": AccessRule(RoleResource.USER, no_names),
    "bulk-users": AccessRule(RoleResource.USER, no_names),
    "user": USER,
    "user-new": AccessRule(RoleResource.USER, field_name("name")),
    "user-password": USER,
    "user-delete": USER,
    "acls": AccessRule(RoleResource.ACL, no_names),
    "acl-new": AccessRule(RoleResource.ACL, acl_of_fields),
    "acl-delete": AccessRule(RoleResource.ACL, acl_of_path),
    "brokers": BROKERS,
    "broker": BROKER,
    "broker-act": BROKER,
    "broker-configs": BROKER,
    "broker-config-edit": BROKERS,
    "log-directories": LOG_DIRECTORIES,
    "log-directory-move": LOG_DIRECTORIES,
    "log-directory-cancel": LOG_DIRECTORIES,
    "restarts": RESTARTS,
    "restart": RESTART,
    "restart-act": RESTART,
    "restart-new": RESTARTS,
    "plans": AccessRule(RoleResource.PLAN, no_names),
    "plan": AccessRule(RoleResource.PLAN, name_of_plan),
    "plan-act": AccessRule(
        RoleResource.PLAN, name_of_plan, also=(AccessRule(RoleResource.TOPIC, topics_of_moved_plan),)
    ),
    "quotas": QUOTAS,
    "quota": QUOTA,
    "quota-new": QUOTAS,
    "bulk-quota-limits": QUOTAS,
    "bulk-quotas": QUOTAS,
    "quota-edit": QUOTA,
    "quota-delete": QUOTA,
    "routes": AccessRule(RoleResource.ROUTE, no_names),
    "route": ROUTE,
    "route-new": AccessRule(RoleResource.ROUTE, field_name("name"), also=(SOURCE, TARGETS, PRINCIPAL)),
    "route-edit": AccessRule(RoleResource.ROUTE, path_name("name"), also=(TARGETS, PRINCIPAL)),
    "route-delete": ROUTE,
    "route-act": ROUTE,
    **dict.fromkeys(
        (
            "adopt",
            "acls-from-template",
            "alert-act",
            "alert-threshold",
            "alert-threshold-override",
            "anomaly-switch",
            "connector-act",
            "connector-delete",
            "connector-edit",
            "connector-new",
            "connector-restart",
            "connector-stop",
            "document-apply",
            "document-plan-again",
            "document-plan-new",
            "bulk-acknowledge",
            "healing-switch",
            "job-act",
            "job-new",
            "lake-query",
            "masking-delete",
            "masking-new",
            "notification-delete",
            "notification-edit",
            "notification-new",
            "notification-test",
            "process-start",
            "proposal-new",
            "role-binding-delete",
            "role-binding-new",
            "schema-delete",
            "schema-register",
            "silence-end",
            "spark-job-act",
            "spark-job-delete",
            "spark-job-new",
            "spark-job-schedule",
        ),
        CLUSTER,
    ),
}

VIEW = Access.VIEW
LIST = AccessRule(RoleResource.TOPIC, no_names, VIEW)
"""The selectors omit what the user may not see (`controlplane.selectors.visibility`), or the page is about the user alone."""
VIEW_TOPIC = AccessRule(RoleResource.TOPIC, path_name("name"), VIEW)
VIEW_GROUP = AccessRule(RoleResource.GROUP, path_name("group_id"), VIEW)
VIEWS: dict[str, AccessRule] = {
    **dict.fromkeys(
        (
            "overview",
            "search",
            "palette",
            "keyboard-shortcuts",
            "topics",
            "undecided-half-messages",
            "groups",
            "share-groups",
            "moves",
            "alerts",
            "alert",
            "runbook",
            "messages",
            "messages-download",
            "offset-resets",
            "users",
            "brokers",
            "acls",
            "quotas",
            "routes",
            "tokens",
            "token-new",
            "token-revoke",
            "saved-views",
            "saved-view-save",
            "saved-view-delete",
            "columns",
            "theme",
            "api-reference",
            "api-reference-noun",
        ),
        LIST,
    ),
    "topic": VIEW_TOPIC,
    "partition": VIEW_TOPIC,
    "dead-letters": VIEW_TOPIC,
    "delayed-messages": VIEW_TOPIC,
    "half-messages": VIEW_TOPIC,
    "group": VIEW_GROUP,
    "group-configs": VIEW_GROUP,
    "share-group": VIEW_GROUP,
    "move": AccessRule(RoleResource.TOPIC, topics_of_move, VIEW),
    "offset-reset": AccessRule(RoleResource.GROUP, group_of_reset, VIEW),
    "user": AccessRule(RoleResource.USER, path_name("name"), VIEW),
    "broker": AccessRule(RoleResource.BROKER, path_name("broker_id"), VIEW),
    "broker-configs": AccessRule(RoleResource.BROKER, path_name("broker_id"), VIEW),
    "quota": AccessRule(RoleResource.QUOTA, entity_of_quota, VIEW),
    "route": AccessRule(RoleResource.ROUTE, path_name("name"), VIEW),
}
"""Pages that a user who sees only some resources may open, in addition to those of RULES with a rule."""


def may_be_seen(visibility: Visibility, page: str) -> bool:
    """Return whether a user with this visibility may open this page, or some page of this name."""
    rule = VIEWS.get(page) or RULES.get(page)
    return not visibility.limited or (rule is not None and rule.filtered)


def may_open(page: str) -> bool:
    """Return whether the user of this request may open this page, or some page of this name."""
    return may_be_seen(current_visibility(), page)
