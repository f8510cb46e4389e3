"""The API's addresses. Law: nouns; acts are POSTs below the noun."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView

from controlplane.api import archives, cluster, groups, moves, plans, proposals, topics

app_name = "api"

urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("overview", cluster.Overview.as_view(), name="overview"),
    path("brokers", cluster.Brokers.as_view(), name="brokers"),
    path("brokers/<int:broker_id>", cluster.Broker.as_view(), name="broker"),
    path("brokers/<int:broker_id>/replicas", cluster.BrokerReplicas.as_view(), name="broker-replicas"),
    path("brokers/<int:broker_id>/restart", cluster.BrokerRestart.as_view(), name="broker-restart"),
    path("topics", topics.Topics.as_view(), name="topics"),
    path("topics/<str:name>", topics.Topic.as_view(), name="topic"),
    path("topics/<str:name>/configs", topics.TopicConfigs.as_view(), name="topic-configs"),
    path("topics/<str:name>/partitions", topics.TopicPartitions.as_view(), name="topic-partitions"),
    path("topics/<str:name>/partitions/<int:partition>", topics.Partition.as_view(), name="partition"),
    path("topics/<str:name>/partitions/<int:partition>/messages", topics.Messages.as_view(), name="messages"),
    path("partitions", topics.Partitions.as_view(), name="partitions"),
    path("drift", cluster.Drift.as_view(), name="drift"),
    path("drift/<uuid:topic_id>/adopt", cluster.Adopt.as_view(), name="adopt"),
    path("groups", groups.Groups.as_view(), name="groups"),
    path("groups/<path:group_id>", groups.Group.as_view(), name="group"),
    path("acls", groups.Acls.as_view(), name="acls"),
    path("acls/<int:acl_id>", groups.Acl.as_view(), name="acl"),
    path("moves", moves.Moves.as_view(), name="moves"),
    path("moves/<int:move_id>", moves.Move.as_view(), name="move"),
    path("moves/<int:move_id>/parts", moves.MoveParts.as_view(), name="move-parts"),
    path("moves/<int:move_id>/story", moves.MoveStory.as_view(), name="move-story"),
    path("moves/<int:move_id>/samples", moves.MoveSamples.as_view(), name="move-samples"),
    path("moves/<int:move_id>/plan", moves.MovePlan.as_view(), name="move-plan"),
    path("moves/<int:move_id>/throttle", moves.MoveThrottle.as_view(), name="move-throttle"),
    path("moves/<int:move_id>/schedule", moves.MoveSchedule.as_view(), name="move-schedule"),
    path("moves/<int:move_id>/<str:act>", moves.MoveAct.as_view(), name="move-act"),
    path("plans", plans.Plans.as_view(), name="plans"),
    path("plans/<int:plan_id>", plans.Plan.as_view(), name="plan"),
    path("plans/<int:plan_id>/parts", plans.PlanParts.as_view(), name="plan-parts"),
    path("plans/<int:plan_id>/file", plans.PlanFile.as_view(), name="plan-file"),
    path("plans/<int:plan_id>/difference", plans.PlanDifference.as_view(), name="plan-difference"),
    path("plans/<int:plan_id>/approve", plans.PlanApprove.as_view(), name="plan-approve"),
    path("plans/<int:plan_id>/move", plans.PlanMove.as_view(), name="plan-begin"),
    path("recoveries", moves.Recoveries.as_view(), name="recoveries"),
    path("recoveries/<int:recovery_id>", moves.Recovery.as_view(), name="recovery"),
    path("proposals", proposals.Proposals.as_view(), name="proposals"),
    path("proposals/<int:proposal_id>", proposals.Proposal.as_view(), name="proposal"),
    path("proposals/<int:proposal_id>/approve", proposals.ProposalApprove.as_view(), name="proposal-approve"),
    path("proposals/<int:proposal_id>/reject", proposals.ProposalReject.as_view(), name="proposal-reject"),
    path("changes", cluster.Changes.as_view(), name="changes"),
    path("archives", archives.Archives.as_view(), name="archives"),
    path("archives/<int:job_id>", archives.Archive.as_view(), name="archive"),
    path("archives/<int:job_id>/written", archives.ArchiveWritten.as_view(), name="archive-written"),
    path("archives/<int:job_id>/batches", archives.ArchiveBatches.as_view(), name="archive-batches"),
    path("archives/<int:job_id>/<str:act>", archives.ArchiveAct.as_view(), name="archive-act"),
]
