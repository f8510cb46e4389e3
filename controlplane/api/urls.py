"""URLs of the REST API: nouns; actions are POSTs below the noun."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

from controlplane.api import (
    acl_templates,
    alert_thresholds,
    alerts,
    api_tokens,
    archives,
    brokers,
    bulk_operations,
    clients,
    cluster,
    cluster_documents,
    cluster_history,
    connect,
    effective_permissions,
    forecasts,
    group_configs,
    groups,
    half_messages,
    healing,
    health,
    history,
    index,
    lake,
    leader_elections,
    masking,
    moves,
    notifications,
    offset_resets,
    plans,
    proposals,
    quotas,
    recoveries,
    restarts,
    role_bindings,
    routes,
    schema_subjects,
    share_groups,
    spark_jobs,
    top,
    topics,
    transactions,
    users,
    zookeeper,
)

app_name = "api"

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
router.register("acls", groups.AclViewSet, "acl")
router.register("alert-thresholds", alert_thresholds.AlertThresholdViewSet, "alert-threshold")
router.register("alerts", alerts.AlertViewSet, "alert")
router.register("archives", archives.ArchiveViewSet, "archive")
router.register("brokers", brokers.BrokerViewSet, "broker")
router.register("changes", cluster.ChangeViewSet, "change")
router.register("damage-reports", recoveries.DamageReportViewSet, "damage-report")
router.register("document-plans", cluster_documents.DocumentPlanViewSet, "document-plan")
router.register("drift", cluster.DriftViewSet, "drift")
router.register("group-configs", group_configs.GroupConfigViewSet, "group-config")
router.register("groups", groups.ConsumerGroupViewSet, "group")
router.register("half-messages", half_messages.HalfMessageViewSet, "half-message")
router.register("masking-rules", masking.MaskingRuleViewSet, "masking-rule")
router.register("member-removals", offset_resets.MemberRemovalViewSet, "member-removal")
router.register("moves", moves.MoveViewSet, "move")
router.register("notification-channels", notifications.NotificationChannelViewSet, "notification-channel")
router.register("notification-deliveries", notifications.NotificationDeliveryViewSet, "notification-delivery")
router.register("offset-resets", offset_resets.OffsetResetViewSet, "offset-reset")
router.register("partitions", topics.PartitionViewSet, "partition")
router.register("plans", plans.PlanViewSet, "plan")
router.register("proposals", proposals.ProposalViewSet, "proposal")
router.register("quotas", quotas.QuotaViewSet, "quota")
router.register("recoveries", recoveries.RecoveryViewSet, "recovery")
router.register("restarts", restarts.RollingRestartViewSet, "restart")
router.register("role-bindings", role_bindings.RoleBindingViewSet, "role-binding")
router.register("routes", routes.RouteViewSet, "route")
router.register("share-groups", share_groups.ShareGroupViewSet, "share-group")
router.register("silences", alerts.SilenceViewSet, "silence")
router.register("spark-jobs", spark_jobs.SparkJobViewSet, "spark-job")
router.register("spark-runs", spark_jobs.SparkRunViewSet, "spark-run")
router.register("tokens", api_tokens.ApiTokenViewSet, "token")
router.register("topics", topics.TopicViewSet, "topic")
router.register("clients", clients.ClientViewSet, "client")
router.register("transactions", transactions.TransactionViewSet, "transaction")
router.register("users", users.UserViewSet, "user")

urlpatterns = [
    path("", index.IndexView.as_view(), name="index"),
    path("acl-templates", acl_templates.AclTemplatesView.as_view(), name="acl-templates"),
    path("acl-templates/<str:template>/apply", acl_templates.AclTemplateApplyView.as_view(), name="acl-template-apply"),
    path("bulk/topic-configs", bulk_operations.BulkTopicConfigsView.as_view(), name="bulk-topic-configs"),
    path("bulk/topic-deletion", bulk_operations.BulkTopicDeletionView.as_view(), name="bulk-topic-deletion"),
    path("bulk/group-deletion", bulk_operations.BulkGroupDeletionView.as_view(), name="bulk-group-deletion"),
    path("bulk/quota-limits", bulk_operations.BulkQuotaLimitsView.as_view(), name="bulk-quota-limits"),
    path("bulk/quota-deletion", bulk_operations.BulkQuotaDeletionView.as_view(), name="bulk-quota-deletion"),
    path("bulk/user-deletion", bulk_operations.BulkUserDeletionView.as_view(), name="bulk-user-deletion"),
    path("bulk/move-throttle", bulk_operations.BulkMoveThrottleView.as_view(), name="bulk-move-throttle"),
    path(
        "bulk/alert-acknowledgement",
        bulk_operations.BulkAlertAcknowledgementView.as_view(),
        name="bulk-alert-acknowledgement",
    ),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("connectors", connect.ConnectorsView.as_view(), name="connectors"),
    path("connectors/connector", connect.ConnectorView.as_view(), name="connector"),
    path("connectors/plugins", connect.ConnectPluginsView.as_view(), name="connect-plugins"),
    path("connectors/validate", connect.ConnectorValidateView.as_view(), name="connector-validate"),
    path("connectors/create", connect.ConnectorCreateView.as_view(), name="connector-create"),
    path("connectors/change", connect.ConnectorChangeView.as_view(), name="connector-change"),
    path("connectors/pause", connect.ConnectorPauseView.as_view(), name="connector-pause"),
    path("connectors/resume", connect.ConnectorResumeView.as_view(), name="connector-resume"),
    path("connectors/stop", connect.ConnectorStopView.as_view(), name="connector-stop"),
    path("connectors/restart", connect.ConnectorRestartView.as_view(), name="connector-restart"),
    path("connectors/restart-task", connect.TaskRestartView.as_view(), name="connector-restart-task"),
    path("connectors/delete", connect.ConnectorDeleteView.as_view(), name="connector-delete"),
    path("schema-subjects", schema_subjects.SchemaSubjectsView.as_view(), name="schema-subjects"),
    path("schema-subjects/version", schema_subjects.SchemaSubjectView.as_view(), name="schema-subject"),
    path("schema-subjects/register", schema_subjects.SchemaRegisterView.as_view(), name="schema-register"),
    path("schema-subjects/delete", schema_subjects.SchemaDeleteView.as_view(), name="schema-delete"),
    path("schema-subjects/check", schema_subjects.SchemaCheckView.as_view(), name="schema-check"),
    path("schema-subjects/difference", schema_subjects.SchemaDifferenceView.as_view(), name="schema-difference"),
    path("clusters", cluster.ClustersView.as_view(), name="clusters"),
    path("overview", cluster.OverviewView.as_view(), name="overview"),
    path("cluster-document/diff", cluster_documents.DocumentDifferenceView.as_view(), name="cluster-document-diff"),
    path("cluster-document", cluster_documents.ClusterDocumentView.as_view(), name="cluster-document"),
    path("cluster-history", cluster_history.KeptTimeView.as_view(), name="cluster-history"),
    path("cluster-history/state", cluster_history.PastClusterView.as_view(), name="past-cluster"),
    path("cluster-history/partitions", cluster_history.PastPartitionsView.as_view(), name="past-partitions"),
    path("cluster-history/configs", cluster_history.PastConfigsView.as_view(), name="past-configs"),
    path("cluster-history/difference", cluster_history.DifferenceView.as_view(), name="cluster-difference"),
    path("health-checks", health.HealthView.as_view(), name="health-checks"),
    path("health-checks/failures", health.HealthFailuresView.as_view(), name="health-failures"),
    path("health-checks/scores", health.HealthScoresView.as_view(), name="health-scores"),
    path("anomalies", health.AnomaliesView.as_view(), name="anomalies"),
    path("anomalies/metrics", health.WatchedMetricsView.as_view(), name="watched-metrics"),
    path("anomalies/metrics/<str:name>/<str:verb>", health.AnomalySwitchView.as_view(), name="anomaly-switch"),
    path("healing-actions", healing.HealingActionsView.as_view(), name="healing-actions"),
    path("healing-actions/<str:action>", healing.HealingActionView.as_view(), name="healing-action"),
    path("healing-runs", healing.HealingRunsView.as_view(), name="healing-runs"),
    path("history", history.HistoryView.as_view(), name="history"),
    path("incidents", alerts.IncidentView.as_view(), name="incidents"),
    path("processes/<str:name>/start", alerts.ProcessStartView.as_view(), name="process-start"),
    path("metrics", alerts.MetricsView.as_view(), name="metrics"),
    path("rebalance", restarts.RebalanceView.as_view(), name="rebalance"),
    path("leader-elections", leader_elections.LeaderElectionView.as_view(), name="leader-elections"),
    path("lake/tables", lake.LakeTablesView.as_view(), name="lake-tables"),
    path("lake/tables/<str:namespace>/<str:name>", lake.LakeTableView.as_view(), name="lake-table"),
    path("lake/query", lake.LakeQueryView.as_view(), name="lake-query"),
    path("hanging-transactions", transactions.HangingTransactionView.as_view(), name="hanging-transactions"),
    path("permissions", effective_permissions.EffectivePermissionsView.as_view(), name="permissions"),
    path("permissions/check", effective_permissions.PermissionCheckView.as_view(), name="permission-check"),
    path("permissions/authorizer", effective_permissions.AuthorizerView.as_view(), name="permission-authorizer"),
    path("access-check", role_bindings.AccessCheckView.as_view(), name="access-check"),
    path("forecasts", forecasts.ForecastsView.as_view(), name="forecasts"),
    path("top", top.TopView.as_view(), name="top"),
    path("zookeeper", zookeeper.ZooKeeperView.as_view(), name="zookeeper"),
    *router.urls,
]
