"""Forms of topics: units, all errors at once, clone, one config, comparison of two topics."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.test import Client

from brokerd.cluster.configs import TOPIC_CONFIGS
from console.config_groups import CONFIG_GROUPS
from controlplane.models import ObservedPartition, Topic
from controlplane.models.change import Outcome
from controlplane.selectors.topics import FIXED_CONFIGS
from controlplane.services.common import record


def test_a_config_with_a_unit_is_reviewed_as_a_number_with_its_meaning(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    sent = {"step": "review", "partitions": "2", "c:retention.ms": "7 d", "c:segment.bytes": "64 MiB"}
    page = operator.post("/topics/fresh/alter/", sent).content.decode()
    assert "604800000 (7 d)" in page and "67108864" in page


def test_every_invalid_config_is_marked(seeded_cluster: dict[str, Any], operator: Client) -> None:
    sent = {"step": "review", "partitions": "2", "c:retention.ms": "7 parsecs", "c:segment.bytes": "-5"}
    response = operator.post("/topics/fresh/alter/", sent)
    page = response.content.decode()
    assert response.status_code == 400
    assert page.count('aria-invalid="true"') == 2
    assert "7 parsecs" in page
    assert Topic.objects.get(name="fresh").generation == 1


def test_one_config_is_edited_alone(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.get("/topics/fresh/alter/?config=retention.ms").content.decode()
    assert 'name="c:retention.ms"' in page and 'name="c:segment.bytes"' not in page
    sent = {"step": "review", "partitions": "2", "c:retention.ms": "1 h"}
    page = operator.post("/topics/fresh/alter/?config=retention.ms", sent).content.decode()
    assert "3600000 (1 h)" in page and "Change 1 value of" in page


def test_the_form_of_all_configs_is_in_groups_with_a_filter(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.get("/topics/fresh/alter/").content.decode()
    first = [
        page.index(f'name="c:{name}"')
        for name in ("retention.ms", "segment.ms", "delete.retention.ms", "remote.storage.enable")
    ]
    assert first == sorted(first) and page.count('class="subject"') == len(CONFIG_GROUPS)
    assert page.count('name="c:') == len(TOPIC_CONFIGS) - len(FIXED_CONFIGS) and 'id="name-filter"' in page
    chosen = operator.get("/topics/fresh/alter/?config=retention.ms").content.decode()
    assert 'class="subject"' not in chosen and 'id="name-filter"' not in chosen


def test_a_new_topic_shows_every_error_at_once(seeded_cluster: dict[str, Any], operator: Client) -> None:
    sent = {"name": "bad name!", "partitions": "0", "replication_factor": "9", "configs": "nonsense\nretention.ms=1 x"}
    response = operator.post("/new/topic/", sent)
    page = unescape(response.content.decode())
    assert response.status_code == 400
    assert page.count('<p class="error" role="alert"') == 5
    assert "has no '='" in page and "is not a unit" in page


def test_a_topic_is_created_with_units(seeded_cluster: dict[str, Any], operator: Client) -> None:
    response = operator.post("/new/topic/", {"name": "new-one", "partitions": "1", "configs": "retention.ms=2 d"})
    assert response.status_code == 302
    assert Topic.objects.get(name="new-one").configs == {"retention.ms": "172800000"}


def test_a_clone_has_the_partitions_and_overrides_of_the_topic(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    page = operator.get("/new/topic/?clone=fresh").content.decode()
    assert "<h1>Clone topic fresh</h1>" in page
    assert "retention.ms=60000" in page and 'value="2"' in page and "are not copied" in page
    assert operator.get("/new/topic/?clone=nope").status_code == 200


@pytest.mark.parametrize(("only", "rows"), [("", True), ("different", False), ("changed", False)])
def test_configs_of_two_topics_are_compared(
    seeded_cluster: dict[str, Any], operator: Client, only: str, rows: bool
) -> None:
    page = operator.get(f"/topics/fresh/?tab=configs&other=orders&only={only}").content.decode()
    assert "retention.ms" in page and "different" in page
    assert ("segment.bytes" in page) is rows


def test_a_comparison_with_an_unknown_topic_shows_an_error(seeded_cluster: dict[str, Any], operator: Client) -> None:
    assert "There is no topic nope." in operator.get("/topics/fresh/?tab=configs&other=nope").content.decode()


def test_the_configs_before_a_change_are_restored_by_its_page(seeded_cluster: dict[str, Any], operator: Client) -> None:
    before, after = (
        {"partitions": 2, "configs": {"retention.ms": "86400000"}},
        {"configs": {"cleanup.policy": "compact"}},
    )
    change = record(
        "eve", "topic.alter", "topic", "fresh", before=before, after={**before, **after}, outcome=Outcome.CONFIRMED
    )
    other = record("eve", "topic.alter", "topic", "gone", before=before, after=after, outcome=Outcome.CONFIRMED)
    address = f"/topics/fresh/alter/?restore={change.pk}"
    shown = operator.get(f"/audit/{change.pk}/").content.decode()
    assert address in shown and '<a href="/topics/fresh/">fresh</a>' in shown
    assert "restore=" not in operator.get(f"/audit/{other.pk}/").content.decode(), "its topic does not exist"

    page = operator.get(address).content.decode()
    assert page.count('name="c:') == 2 and 'value="86400000"' in page and f"Undo of change {change.pk}" in page
    sent = {"step": "review", "partitions": "2", "c:retention.ms": "86400000", "c:cleanup.policy": ""}
    assert "86400000 (1 d)" in operator.post(address, sent).content.decode()
    assert operator.get(f"/topics/fresh/alter/?restore={other.pk}").content.decode().count('name="c:') > 2


def test_the_review_has_the_default_of_a_removed_override(seeded_cluster: dict[str, Any], operator: Client) -> None:
    sent = {"step": "review", "partitions": "2", "c:retention.ms": ""}
    for language, expected in (("en", "default (604800000)"), ("zh-hans", "默认（604800000）")):
        operator.cookies["weir_language"] = language
        assert expected in operator.post("/topics/fresh/alter/?config=retention.ms", sent).content.decode()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"c:retention.bytes": "1000"}, "About 3.0 kB of the oldest records of 1 partition."),
        ({"c:retention.ms": "1 h"}, "Records that are older than 1 h."),
        ({"c:retention.bytes": "5000"}, ""),
        ({"c:retention.ms": "30 d"}, ""),
        ({"c:retention.ms": "1 h", "c:cleanup.policy": "compact"}, ""),
    ],
)
def test_a_review_names_the_records_that_a_shorter_retention_deletes(
    seeded_cluster: dict[str, Any], operator: Client, sent: dict[str, str], expected: str
) -> None:
    """On call the retention of the largest topic is shortened because a disk is full: the review did not say that records are lost."""
    ObservedPartition.objects.filter(topic__name="flights").update(size_bytes=500)
    ObservedPartition.objects.filter(topic__name="flights", index=0).update(size_bytes=4000)
    Topic.objects.filter(name="flights").update(configs={})
    form = {"step": "review", "partitions": str(Topic.objects.get(name="flights").partitions), **sent}
    page = operator.post("/topics/flights/alter/", form).content.decode()
    assert "Review changes" in page
    assert ("This cannot be undone." in page) == bool(expected) and expected in page


def test_several_configs_are_edited_alone(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.get("/topics/flights/alter/?config=retention.bytes&config=retention.ms").content.decode()
    assert page.count('name="c:') == 2 and "All configs" in page
    whole = operator.get("/topics/flights/alter/?config=absent").content.decode()
    assert whole.count('name="c:') > 20 and "c:weir.delay.enable" in whole
    assert "c:weir.delay.topic" not in whole, "read-only"


def test_a_config_of_the_creation_is_shown_and_not_edited(seeded_cluster: dict[str, Any], operator: Client) -> None:
    fixed = "weir.majority.acks.enable"
    page = operator.get("/topics/flights/?tab=configs").content.decode()
    assert fixed in page and f"?config={fixed}" not in page and "?config=retention.ms" in page
    assert fixed not in operator.get("/topics/flights/alter/").content.decode()


def test_a_deletion_names_active_producers_outside_the_list_of_deleted_data(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    page = operator.get("/topics/flights/delete/").content.decode()
    after_list = page.partition("Will be deleted:")[2].partition("</ul>")
    assert "roducer" not in after_list[0] and "roducer" in after_list[2].partition("<form")[0]
