"""URLs of the REST API: nouns; actions are POSTs below the noun."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

from controlplane.api import (
    alert_thresholds,
    alerts,
    api_tokens,
    archives,
    brokers,
    clients,
    cluster,
    effective_permissions,
    groups,
    history,
    index,
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
    routes,
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
router.register("drift", cluster.DriftViewSet, "drift")
router.register("groups", groups.ConsumerGroupViewSet, "group")
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
router.register("routes", routes.RouteViewSet, "route")
router.register("silences", alerts.SilenceViewSet, "silence")
router.register("tokens", api_tokens.ApiTokenViewSet, "token")
router.register("topics", topics.TopicViewSet, "topic")
router.register("clients", clients.ClientViewSet, "client")
router.register("transactions", transactions.TransactionViewSet, "transaction")
router.register("users", users.UserViewSet, "user")

urlpatterns = [
    path("", index.IndexView.as_view(), name="index"),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("overview", cluster.OverviewView.as_view(), name="overview"),
    path("history", history.HistoryView.as_view(), name="history"),
    path("incidents", alerts.IncidentView.as_view(), name="incidents"),
    path("processes/<str:name>/start", alerts.ProcessStartView.as_view(), name="process-start"),
    path("metrics", alerts.MetricsView.as_view(), name="metrics"),
    path("rebalance", restarts.RebalanceView.as_view(), name="rebalance"),
    path("leader-elections", leader_elections.LeaderElectionView.as_view(), name="leader-elections"),
    path("hanging-transactions", transactions.HangingTransactionView.as_view(), name="hanging-transactions"),
    path("permissions", effective_permissions.EffectivePermissionsView.as_view(), name="permissions"),
    path("permissions/check", effective_permissions.PermissionCheckView.as_view(), name="permission-check"),
    path("zookeeper", zookeeper.ZooKeeperView.as_view(), name="zookeeper"),
    *router.urls,
]
