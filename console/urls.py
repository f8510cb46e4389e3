"""The console's addresses: a noun each, acts below it. Every filter, order and page is in the query."""

from __future__ import annotations

from django.urls import path

from console.views import (
    acls,
    audit,
    brokers,
    groups,
    messages,
    move_new,
    moves,
    overview,
    pipeline,
    search,
    session,
    topic_forms,
    topics,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("login/", session.SignIn.as_view(), name="login"),
    path("logout/", session.SignOut.as_view(), name="logout"),
    path("theme/", session.choose_theme, name="theme"),
    path("search/", search.search, name="search"),
    path("brokers/", brokers.broker_list, name="brokers"),
    path("brokers/<int:broker_id>/", brokers.broker, name="broker"),
    path("topics/", topics.topic_list, name="topics"),
    path("new/topic/", topic_forms.create, name="topic-new"),
    path("topics/<str:name>/", topics.topic, name="topic"),
    path("topics/<str:name>/alter/", topic_forms.alter, name="topic-alter"),
    path("topics/<str:name>/delete/", topic_forms.delete, name="topic-delete"),
    path("topics/<str:name>/<int:index>/", topic_forms.partition, name="partition"),
    path("topics/<str:name>/<int:index>/recover/<int:broker_id>/", topic_forms.recover, name="recover"),
    path("adopt/<uuid:topic_id>/", topic_forms.adopt, name="adopt"),
    path("groups/", groups.group_list, name="groups"),
    path("delete/group/<path:group_id>/", groups.delete, name="group-delete"),
    path("groups/<path:group_id>/", groups.group, name="group"),
    path("moves/", moves.move_list, name="moves"),
    path("moves/new/", move_new.new, name="move-new"),
    path("moves/<int:move_id>/", moves.move, name="move"),
    path("moves/<int:move_id>/<str:verb>/", moves.act, name="move-act"),
    path("messages/", messages.look_up, name="messages"),
    path("acls/", acls.acl_list, name="acls"),
    path("acls/new/", acls.create, name="acl-new"),
    path("acls/<int:acl_id>/delete/", acls.delete, name="acl-delete"),
    path("pipeline/", pipeline.job_list, name="pipeline"),
    path("pipeline/new/", pipeline.start, name="job-new"),
    path("pipeline/<int:job_id>/", pipeline.job, name="job"),
    path("pipeline/<int:job_id>/<str:verb>/", pipeline.act, name="job-act"),
    path("audit/", audit.audit, name="audit"),
    path("audit/<int:change_id>/", audit.change, name="change"),
]
