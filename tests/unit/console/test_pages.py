"""Every page opens for the users with its permission. Unknown values are shown as unknown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import Change

PAGES = [
    "/",
    "/brokers/",
    "/clusters/",
    "/brokers/1/",
    "/brokers/1/drain/",
    "/brokers/1/configs/",
    "/brokers/1/configs/?other=2&only=different&q=log",
    "/brokers/1/configs/edit/?name=log.retention.ms&scope=cluster",
    "/brokers/1/log-directories/",
    "/brokers/1/log-directories/?directory=/data&sort=topic",
    "/brokers/leader-elections/",
    "/brokers/leader-elections/?topic=orders",
    "/brokers/leader-elections/?topic=orders&partition=0",
    "/share-groups/",
    "/transactions/",
    "/transactions/?state=open&minutes=5",
    "/hanging-transactions/",
    "/hanging-transactions/?topic=orders",
    "/zookeeper/",
    "/connect/",
    "/connect/new/",
    "/schemas/",
    "/schemas/register/",
    "/documents/",
    "/documents/compare/",
    "/bulk/groups/?q=nightly",
    "/bulk/quotas/?q=payments",
    "/bulk/users/?q=bill",
    "/bulk/quota-limits/?q=payments",
    "/bulk/move-throttles/",
    "/clients/",
    "/clients/?broker=1&with=brokers&q=shop&sort=client_id",
    "/brokers/restarts/",
    "/brokers/restarts/new/",
    "/brokers/restarts/new/?b=2&b=1",
    "/brokers/restarts/1/",
    "/brokers/rebalance/",
    "/brokers/rebalance/?goal=leaders&goal=disk&tolerance=0.05",
    "/moves/new/?kind=rebalance&step=review&goal=leaders",
    "/topics/",
    "/topics/?state=problems&internal=1",
    "/topics/?state=drift",
    "/topics/orders/",
    "/topics/orders/?tab=configs",
    "/topics/orders/?tab=groups",
    "/topics/orders/?tab=changes",
    "/topics/orders/1/",
    "/topics/orders/alter/",
    "/topics/orders/delete/",
    "/topics/orders/produce/",
    "/topics/orders/copy/",
    "/masking/",
    "/masking/new/",
    "/role-bindings/",
    "/role-bindings/?user=alice&access=operate&resource_type=topic&resource_name=orders",
    "/role-bindings/new/",
    "/alerts/thresholds/",
    "/alerts/thresholds/group_stall/",
    "/notifications/",
    "/notifications/deliveries/",
    "/notifications/deliveries/?state=failed",
    "/new/notification/",
    "/new/notification/?kind=email",
    "/topics/orders/0/recover/1/",
    "/new/topic/",
    "/groups/",
    "/groups/slow-reader/",
    "/delete/group/nightly/",
    "/moves/",
    "/moves/?tab=recoveries",
    "/moves/?tab=damage",
    "/moves/?tab=damage&state=all",
    "/moves/1/",
    "/moves/1/cancel/",
    "/moves/1/roll_back/",
    "/moves/1/throttle/",
    "/moves/new/",
    "/moves/new/?kind=partitions&topic=orders",
    "/moves/new/?kind=partitions&topic=orders&step=where&p=0&p=2",
    "/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4",
    "/moves/new/?kind=drain",
    "/moves/new/?kind=plan",
    "/moves/new/?kind=drain&broker=1&step=review",
    "/moves/new/?kind=topic&topic=orders&over=1&over=2&over=3&step=review",
    "/moves/new/?kind=replication_factor&topic=orders&factor=2&step=review",
    "/plans/",
    "/plans/?state=archived&q=x",
    "/plans/1/",
    "/plans/1/difference/",
    "/plans/1/difference/?other=2",
    "/plans/2/approve/",
    "/plans/1/move/",
    "/plans/2/drop/",
    "/moves/1/schedule/",
    "/alerts/",
    "/alerts/?state=resolved",
    "/alerts/1/",
    "/alerts/1/silence/",
    "/silences/",
    "/runbooks/broker_down/",
    "/proposals/",
    "/proposals/?state=open&q=ledger",
    "/proposals/1/",
    "/proposals/new/?kind=move.approve&target=2",
    "/messages/",
    "/acls/",
    "/acls/new/",
    "/acls/from-template/",
    "/acls/1/delete/",
    "/permissions/",
    "/permissions/?principal=User:billing",
    "/permissions/?principal=User:billing&resource_type=topic&resource_name=orders&operation=write",
    "/tokens/",
    "/tokens/?q=x",
    "/new/token/",
    "/users/",
    "/users/?q=bill&mechanism=SCRAM-SHA-256",
    "/users/billing/",
    "/new/user/",
    "/password/user/billing/",
    "/delete/user/billing/",
    "/quotas/",
    "/quotas/?q=bill&entity_type=user",
    "/new/quota/",
    "/routes/",
    "/new/route/",
    "/routes/orders-by-kind/edit/",
    "/routes/orders-by-kind/delete/",
    "/spark-jobs/",
    "/spark-jobs/new/archive/",
    "/spark-jobs/new/compact/?tables=orders",
    "/spark-jobs/1/",
    "/spark-jobs/2/",
    "/spark-jobs/2/schedule/",
    "/spark-runs/1/",
    "/lake/",
    "/lake/query/?sql=SELECT+1",
    "/pipeline/",
    "/pipeline/new/",
    "/pipeline/1/",
    "/audit/",
    "/audit/?outcome=refused",
    "/audit/1/",
    "/search/?q=or",
    "/saved-views/",
    "/new/topic/?clone=orders",
    "/topics/orders/alter/?config=retention.ms",
    "/topics/orders/?tab=configs&other=flights&only=different",
    "/bulk/topics/",
    "/bulk/topics/?q=app&state=problems",
    "/bulk/topics/?t=orders&t=flights",
]


@pytest.mark.parametrize("address", PAGES)
def test_every_page_opens_on_a_busy_cluster(seeded_cluster: dict[str, Any], operator: Client, address: str) -> None:
    response = operator.get(address)
    assert response.status_code == 200, response.content.decode()[:2000]
    text = response.content.decode()
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)", text) and not re.search(r"\sstyle=|\son[a-z]+=", text)


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/brokers/",
        "/topics/",
        "/groups/",
        "/moves/",
        "/acls/",
        "/users/",
        "/quotas/",
        "/routes/",
        "/pipeline/",
        "/alerts/",
        "/audit/",
        "/messages/",
    ],
)
def test_every_list_opens_on_an_empty_database(db: None, operator: Client, address: str) -> None:
    response = operator.get(address)
    assert response.status_code == 200
    assert "The cluster monitor has not read the cluster yet." in response.content.decode()


@pytest.mark.parametrize(
    "address",
    [
        *("/", "/brokers/", "/brokers/restarts/", "/topics/", "/groups/", "/moves/", "/moves/?tab=damage", "/plans/"),
        *(
            "/moves/?tab=recoveries",
            "/proposals/",
            "/acls/",
            "/users/",
            "/quotas/",
            "/routes/",
            "/pipeline/",
            "/alerts/",
            "/silences/",
            "/audit/",
        ),
    ],
)
def test_the_row_of_an_empty_table_spans_all_columns(db: None, operator: Client, address: str) -> None:
    text = operator.get(address).content.decode()
    tables = re.findall(r"<table.*?</table>", text, flags=re.DOTALL)
    spans = [(t.count("<th "), re.findall(r'<td colspan="(\d+)" class="none">', t)) for t in tables]
    assert spans and all(found == [str(columns)] for columns, found in spans), spans


def test_a_login_succeeds_or_fails(db: None, client: Client) -> None:

    get_user_model().objects.create_user("carol", password="a long password")
    assert "correct username" in client.post("/login/", {"username": "carol", "password": "no"}).content.decode()
    response = client.post(
        "/login/?next=/topics/", {"username": "carol", "password": "a long password", "next": "/topics/"}
    )
    assert response.headers["Location"] == "/topics/"


def test_a_list_keeps_its_filter_order_and_page_in_its_links(seeded_cluster: dict[str, Any], operator: Client) -> None:
    text = operator.get("/topics/?q=o&sort=-size_bytes&per_page=1&internal=1").content.decode()
    assert 'aria-sort="descending"' in text
    assert "page=2" in text and "q=o" in text and "of 2 topics" in text


def test_unknown_is_a_dash_with_its_reason_and_not_a_zero(seeded_cluster: dict[str, Any], operator: Client) -> None:
    text = operator.get("/groups/nightly/").content.decode()
    assert '<span class="unk" title="Unknown: ' in text


def test_the_theme_is_stored_and_redirects_only_within_the_site(db: None, operator: Client) -> None:
    response = operator.post("/theme/", {"theme": "dark", "next": "https://evil.example/"})
    assert response.headers["Location"] == "/"
    assert 'data-theme="dark"' in operator.get("/").content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "/moves/1/cancel/",
        "/moves/1/roll_back/",
        "/topics/orders/0/recover/1/",
        "/acls/1/delete/",
        "/topics/orders/delete/",
    ],
)
def test_a_costly_act_requires_a_reason(seeded_cluster: dict[str, Any], operator: Client, address: str) -> None:
    before = Change.objects.count()
    response = operator.post(address, {"confirm_name": "orders", "comment": " "})
    assert "Give a reason; it is recorded in the audit log." in response.content.decode()
    assert Change.objects.count() == before
