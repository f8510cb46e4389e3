"""Reading records in the console and over REST: permission, audit, the query of the form, progress, download."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.test import Client

from brokerd.wire.records import Record
from controlplane.domain.formats import Format
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.models import Change, SparkJob
from controlplane.selectors import key_lookups, messages
from controlplane.selectors.key_lookups import KeyLookup, PartitionLookup
from controlplane.selectors.lake_lookups import LakeSearch, LakeState
from controlplane.selectors.messages import KeyPartition, MessageRead, MessageRow, PartitionRead
from controlplane.services import masking
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


RIGHT = "the right password"


READ = "/messages/?topic=flights&partitions=0&start=earliest"


REST = "/api/v1/topics/flights/messages?partitions=0&start=earliest"


ONE = "/api/v1/topics/flights/partitions/0/messages?start=earliest"


def user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(name, password=RIGHT, **more)


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def read_queries(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[RecordQuery, str]]:
    """Every read finds two records, without a broker. Returns the queries."""
    world.topic("flights", (1, 2))
    world.topic("__consumer_offsets", (1, 2))
    asked: list[tuple[RecordQuery, str]] = []

    def read(query: RecordQuery, resume: str = "", **renderers: Any) -> MessageRead:
        asked.append((query, resume))
        rows = [MessageRow(0, o, 1_795_315_445_123, "UA", "secret", 2, 6, [("h", "x")], []) for o in (7, 8)]
        by_key = [KeyPartition("murmur2", 3), KeyPartition("crc32", 5)] if query.filters.key else []
        problem = PartitionRead(4, None, None, None, "no_leader", "Partition 4 was not read to the end.")
        return MessageRead(
            query.topic,
            rows,
            [PartitionRead(0, 0, 9, 7), problem],
            by_key,
            scanned=1_200_000,
            found=2,
            percent=30.0,
            records_per_s=100_000,
            complete=False,
            stopped="time",
            note="The time limit of one read is reached.",
            resume="TOKEN",
        )

    def download(query: RecordQuery, resume: str = "", *, renderer: Any, plain: Any) -> MessageRead:
        asked.append((query, resume))
        records = [(0, Record(7, 1_000, b"k", b"\xff\x00")), (1, Record(8, -1, None, "ü".encode() * 10_000))]
        rows = [messages.message_row(p, r, renderer) for p, r in records]
        return MessageRead(query.topic, rows, complete=False, stopped="bytes")

    monkeypatch.setattr(messages, "read_messages", read)
    monkeypatch.setattr(messages, "read_for_download", download)
    return asked


@pytest.fixture
def root(read_queries: Any) -> Client:
    return client_of(user("root", is_superuser=True, is_staff=True))


# -- permission and audit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [READ, REST, ONE])
def test_records_are_read_with_a_permission_of_its_own_and_each_read_is_in_the_audit(
    read_queries: Any, address: str
) -> None:
    viewer = user("viewer", is_staff=True)
    response = client_of(viewer).get(address)
    assert response.status_code == 403 and "secret" not in response.content.decode() and not read_queries
    assert "read_records" in response.content.decode()
    call_command("read_records", "viewer")
    response = client_of(get_user_model().objects.get(pk=viewer.pk)).get(address)
    assert response.status_code == 200 and "secret" in response.content.decode()
    read, rejected = Change.objects.order_by("-id")[:2]
    assert (read.actor, read.verb, read.object_kind, read.object_name) == (
        "viewer",
        "records.read",
        "records",
        "flights-0",
    )
    assert (read.outcome, rejected.outcome) == ("confirmed", "refused")
    assert read.detail == "2 records. Offsets 7 to 8."
    assert read.after == {
        "topic": "flights",
        "partitions": "0",
        "start": "earliest",
        "limit": 50,
        "records": 2,
        "offsets": {"0": [7, 8]},
    } | ({"minutes": 15} if address == READ else {})
    call_command("read_records", "viewer", "--revoke")
    assert client_of(get_user_model().objects.get(pk=viewer.pk)).get(address).status_code == 403


@pytest.mark.parametrize("address", [READ, REST, READ.replace("/messages/", "/messages/download/")])
def test_internal_topics_are_for_administrators(read_queries: Any, address: str) -> None:
    reader = user("reader")
    reader.user_permissions.add(Permission.objects.get(codename="read_records"))
    internal = address.replace("flights", "__consumer_offsets")
    assert client_of(reader).get(address).status_code == 200
    assert client_of(reader).get(internal).status_code == 403
    assert client_of(user("root", is_superuser=True)).get(internal).status_code == 200


def test_reads_of_records_do_not_hide_the_changes_of_the_overview(root: Client) -> None:
    root.get(READ)
    assert "records.read" not in root.get("/").content.decode()
    assert "records.read" in root.get("/audit/?kind=records").content.decode()


# -- masking -----------------------------------------------------------------------------------------------------------------

SECRET = "4111-1111"


@pytest.fixture
def masked_record(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic whose record has the secret in its key, value and header, and a rule for each."""
    world.topic("flights", (1, 2))
    for target, field in (("key", ""), ("value", "$.customer.card"), ("header", "authorization")):
        masking.create_rule(topics="fl*", target=target, field=field, actor="root")
    value = json.dumps({"customer": {"card": SECRET, "name": "Ann"}}).encode()
    found = Record(7, 1_700_000_000_000, SECRET.encode(), value, (("Authorization", SECRET.encode()),))

    def read(query: RecordQuery, resume: str = "", *, renderer: Any, plain: Any) -> MessageRead:
        return MessageRead(query.topic, [messages.message_row(0, found, renderer)])

    monkeypatch.setattr(messages, "read_messages", read)
    monkeypatch.setattr(messages, "read_for_download", read)


@pytest.mark.parametrize("wanted", list(Format))
@pytest.mark.parametrize("address", [READ, REST, READ.replace("/messages/", "/messages/download/")])
def test_a_viewer_sees_no_masked_part_in_any_format(masked_record: None, address: str, wanted: Format) -> None:
    viewer = user("viewer")
    viewer.user_permissions.add(Permission.objects.get(codename="read_records"))
    response = client_of(viewer).get(f"{address}&key_format={wanted}&value_format={wanted}")
    text = response.content.decode()
    assert response.status_code == 200 and "Ann" in text and "[masked]" in text
    encoded = SECRET.encode()
    spaced = " ".join(f"{b:02x}" for b in encoded)
    for form in (SECRET, encoded.hex(), spaced, base64.b64encode(encoded).decode()[:-2]):
        assert form not in text
    assert SECRET not in "".join(str((c.after, c.detail)) for c in Change.objects.all())


@pytest.mark.parametrize("address", [READ, REST])
def test_an_operator_sees_the_raw_record(masked_record: None, address: str) -> None:
    operator = user("operator", is_staff=True)
    operator.user_permissions.add(Permission.objects.get(codename="read_records"))
    text = client_of(operator).get(address).content.decode()
    assert text.count(SECRET) >= 3 and "[masked]" not in text


def test_the_chosen_format_is_shown(masked_record: None) -> None:
    operator = client_of(user("root", is_superuser=True, is_staff=True))
    row = operator.get(f"{REST}&key_format=hex&value_format=integer").json()["rows"][0]
    assert (row["key"], row["key_format"]) == (SECRET.encode().hex(), "hex")
    assert row["value_format"] == "hex" and row["binary"] == ["key", "value"]
    assert row["notes"] == ["value: Not integer: it has 50 bytes; this format has 1, 2, 4, 8."]
    assert operator.get(f"{REST}&value_format=xml").status_code == 400


# -- the query ---------------------------------------------------------------------------------------------------------------


def test_form_and_rest_make_the_same_query(root: Client, read_queries: list[tuple[RecordQuery, str]]) -> None:
    filters = f"key=UA&key_contains=U&value_contains=x&json={quote('$.a == 1')}&header=h=x"
    shared = f"start=minutes&minutes=15&limit=20&{filters}"
    root.get(f"/messages/?topic=flights&partitions=0,2-3&{shared}&resume=T&all_partitions=on")
    root.get(f"/api/v1/topics/flights/messages?partitions=0,2-3&{shared}&resume=T&all_partitions=true")
    assert read_queries[0] == read_queries[1]
    query, resume = read_queries[0]
    assert query.partitions == (0, 2, 3) and query.start is StartPosition.MINUTES and query.minutes == 15
    assert (query.limit, query.all_partitions, resume) == (20, True, "T")
    assert (query.filters.key, query.filters.json, query.filters.header) == ("UA", "$.a == 1", "h=x")


def test_an_address_with_only_the_topic_reads_the_newest_records_of_all_partitions(
    root: Client, read_queries: list[tuple[RecordQuery, str]]
) -> None:
    assert root.get("/messages/?topic=flights").status_code == 200
    query, _ = read_queries[0]
    assert query.start is StartPosition.LATEST and query.partitions == () and query.limit == 50


def test_a_time_is_utc(root: Client, read_queries: list[tuple[RecordQuery, str]]) -> None:
    root.get("/messages/?topic=flights&start=timestamp&time=2026-11-22T02:04:05")
    assert read_queries[0][0].timestamp_ms == 1_795_313_045_000


@pytest.mark.parametrize(
    "given", ["partitions=x", "limit=0", "limit=501", "start=x", "offset=-1", "time=x", "minutes=7"]
)
def test_invalid_input_reads_nothing(root: Client, read_queries: Any, given: str) -> None:
    response = root.get(f"/messages/?topic=flights&{given}")
    assert response.status_code == 400 and 'role="alert"' in response.content.decode() and not read_queries


# -- what is shown -----------------------------------------------------------------------------------------------------------


def test_the_page_shows_progress_problems_and_how_to_continue(root: Client) -> None:
    text = root.get(READ).content.decode()
    for shown in (
        "Not complete",
        "The time limit of one read is reached.",
        "1,200,000 records scanned",
        "100,000 records/s",
        "30 % of the range",
        "Partition 4 was not read to the end.",
        "resume=TOKEN",
        "topic=flights&amp;partitions=0&amp;start=offset&amp;offset=7&amp;limit=1",
    ):
        assert shown in text, shown


@pytest.mark.parametrize(("start", "shown"), [("latest", "Newest 2 records shown"), ("earliest", "2 records shown")])
def test_a_full_page_is_not_called_incomplete(
    root: Client, monkeypatch: pytest.MonkeyPatch, start: str, shown: str
) -> None:
    rows = [MessageRow(0, o, 1_000, "UA", "v", 2, 1, [], []) for o in (7, 8)]
    full = MessageRead("flights", rows, found=2, complete=False, stopped="limit", note="There are more.", resume="T")
    monkeypatch.setattr(messages, "read_messages", lambda *_, **__: full)
    text = " ".join(root.get(f"/messages/?topic=flights&start={start}&limit=2").content.decode().split())
    assert f"> {shown}</b>: There are more." in text and "Not complete" not in text and "resume=T" in text


def test_the_partitions_of_a_key_are_named(root: Client) -> None:
    text = " ".join(root.get("/messages/?topic=flights&key=UA").content.decode().split())
    assert "partition 3 (Java clients, murmur2), partition 5 (librdkafka clients, crc32); only these were read" in text
    assert "all_partitions=on" in text
    assert "only these were read" not in root.get("/messages/?topic=flights&key=UA&all_partitions=on").content.decode()


def test_a_permalink_replaces_a_start_relative_to_now(root: Client) -> None:
    text = root.get("/messages/?topic=flights&key=UA").content.decode()
    assert "topic=flights&amp;key=UA&amp;start=timestamp&amp;time=2026-11-22T02%3A44%3A05" in text
    text = root.get("/messages/?topic=flights&start=minutes&minutes=15&resume=T").content.decode()
    assert "topic=flights&amp;start=timestamp&amp;time=20" in text


def test_a_download_has_one_line_per_record_and_a_note_if_it_is_incomplete(
    root: Client, read_queries: list[tuple[RecordQuery, str]]
) -> None:
    response = root.get("/messages/download/?topic=flights&start=earliest")
    first, second = [json.loads(line) for line in response.content.decode().splitlines()]
    assert first == {
        "topic": "flights",
        "partition": 0,
        "offset": 7,
        "timestamp_ms": 1_000,
        "key": "k",
        "value": "ff00",
        "headers": [],
        "binary": ["value"],
    }
    assert second["value"] == "ü" * 10_000 and second["timestamp_ms"] is None and "binary" not in second
    assert response.headers["Content-Disposition"] == 'attachment; filename="flights-bytes.ndjson"'
    assert response.headers["Weir-Complete"] == "false"
    assert read_queries[0][0].limit == messages.DOWNLOAD_RECORDS_MAX
    assert Change.objects.get(verb="records.download").after["records"] == 2


# -- a search by key index ---------------------------------------------------------------------------------------------------


@pytest.fixture
def lookups(world: World, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A topic with a key index, whose every look-up finds two records and is not complete. Returns the queries."""
    world.topic("indexed", (1, 2), configs={"weir.index.keys": "true"})
    seen: list[dict[str, Any]] = []

    def look_up(topic: str, key: bytes, **query: Any) -> KeyLookup:
        seen.append({"topic": topic, "key": key, **query})
        rows = [MessageRow(0, o, 1_795_315_445_123, "UA", "found", 2, 5, [], []) for o in (8, 7)]
        more = PartitionLookup(0, "more", "limit", "", 7, 0, 90, 60, 4_096, 1_024, 3, 1)
        failed = PartitionLookup(1, "failed", problem="indexed-1 has no leader with a known address")
        return KeyLookup(
            topic, rows, [more, failed], complete=False, token="NEXT", note="Older records may have this key."
        )

    monkeypatch.setattr(key_lookups, "look_up_key", look_up)
    return seen


def shown_text(client: Client, address: str) -> str:
    return " ".join(client.get(address).content.decode().split())


def test_a_search_by_key_uses_the_index_and_shows_its_reach(
    root: Client, read_queries: list[Any], lookups: list[dict[str, Any]]
) -> None:
    text = shown_text(root, "/messages/?topic=indexed&key=UA&limit=20")
    (query,) = lookups
    assert not read_queries and (query["topic"], query["key"], query["limit"]) == ("indexed", b"UA", 20)
    for shown in (
        "Older records may have this key.",
        "2 found by the key index, newest first",
        "3 segments by index, 1 scanned",
        "Partition 1 was not searched: indexed-1 has no leader with a known address",
        '<td class="num">60</td>',
        "resume=NEXT",
        "until=20",
    ):
        assert shown in text, shown
    assert "only these were read" not in text
    assert Change.objects.latest("id").verb == "records.look_up"


def test_the_next_page_of_a_search_keeps_its_start(
    root: Client, read_queries: Any, lookups: list[dict[str, Any]]
) -> None:
    text = shown_text(root, "/messages/?topic=indexed&key=UA&start=minutes&minutes=15&resume=T")
    assert lookups[0]["token"] == "T" and lookups[0]["from_ms"] is not None
    following = next(part for part in text.split('href="') if "resume=NEXT" in part).partition('"')[0]
    assert "start=timestamp" in following and "time=20" in following and "minutes=15" not in following


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("topic=flights&key=UA", "The topic has no key index"),
        ("topic=indexed&key=UA&start=earliest", "A search by key index is newest first."),
        ("topic=indexed&key=UA&value_contains=x", "The key index has keys only."),
    ],
)
def test_a_scan_shows_the_reason_why_the_index_is_not_used(
    root: Client, read_queries: list[Any], lookups: list[Any], address: str, shown: str
) -> None:
    text = shown_text(root, f"/messages/?{address}")
    assert shown in text and read_queries and not lookups


def test_a_look_up_of_an_archived_topic_offers_a_search_of_the_lake(
    root: Client, read_queries: Any, lookups: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "/messages/?topic=indexed&key=UA"
    without_archive = shown_text(root, address)
    assert "Search the lake" not in without_archive and not lookups[0]["lake"]
    SparkJob.objects.create(name="archive", kind="archive", parameters={"topics": ["indexed"]}, actor="a")
    text = shown_text(root, address)
    link = next(part for part in text.split('href="') if "lake=1" in part).partition('"')[0].replace("&amp;", "&")
    found = KeyLookup("indexed", lake=LakeSearch(LakeState.SEARCHED, 1, 1_234))

    def look_up(topic: str, key: bytes, **query: Any) -> KeyLookup:
        assert query["lake"]
        return found

    monkeypatch.setattr(key_lookups, "look_up_key", look_up)
    text = shown_text(root, link)
    assert "Lake: 1 found, files read: 1,234." in text and "Search the lake" not in text
    assert Change.objects.latest("id").after["lake"] is True
    found = KeyLookup("indexed", complete=False, lake=LakeSearch(LakeState.FAILED, problem="The read was ended."))
    assert "The read was ended." in shown_text(root, link)


def test_a_topic_without_an_index_offers_it(root: Client, read_queries: list[Any]) -> None:
    assert "/topics/flights/alter/#c:weir.index.keys" in shown_text(root, "/messages/?topic=flights&key=UA")
    reader = user("reader")
    reader.user_permissions.add(Permission.objects.get(codename="read_records"))
    text = shown_text(client_of(reader), "/messages/?topic=flights&key=UA")
    assert "/topics/flights/alter/" not in text and "/topics/flights/?tab=configs" in text
    assert "no key index" not in shown_text(root, "/messages/?topic=flights")


def test_a_reader_of_masked_keys_scans_them(root: Client, read_queries: list[Any], lookups: list[Any]) -> None:
    masking.create_rule(topics="indexed", target="key", field="", actor="root")
    reader = user("reader")
    reader.user_permissions.add(Permission.objects.get(codename="read_records"))
    assert "A masking rule hides keys" in shown_text(client_of(reader), "/messages/?topic=indexed&key=UA")
    assert read_queries and not lookups


def test_the_download_of_a_search_uses_the_index(
    root: Client, read_queries: list[Any], lookups: list[dict[str, Any]]
) -> None:
    response = root.get("/messages/download/?topic=indexed&key=UA")
    assert [json.loads(line)["offset"] for line in response.content.decode().splitlines()] == [8, 7]
    assert response.headers["Content-Disposition"] == 'attachment; filename="indexed-limit.ndjson"'
    assert response.headers["Weir-Complete"] == "false" and lookups and not read_queries
    assert Change.objects.latest("id").verb == "records.download"


def test_a_user_without_the_permission_looks_nothing_up(read_queries: Any, lookups: list[Any]) -> None:
    viewer = client_of(user("viewer", is_staff=True))
    for address in ("/messages/", "/messages/download/"):
        assert viewer.get(f"{address}?topic=indexed&key=UA").status_code == 403
    assert not lookups


def test_until_is_a_time_of_the_form_and_of_rest(root: Client, read_queries: list[tuple[RecordQuery, str]]) -> None:
    root.get("/messages/?topic=flights&until=2026-11-22T02:04:05")
    root.get("/api/v1/topics/flights/messages?until_ms=1795313045999")
    assert read_queries[0][0].until_ms == read_queries[1][0].until_ms == 1_795_313_045_999
    assert 'role="alert"' in root.get("/messages/?topic=flights&until=x").content.decode()


# -- live tail ---------------------------------------------------------------------------------------------------------------


def test_the_page_of_a_tail_reads_nothing_and_has_its_query(root: Client, read_queries: list[Any]) -> None:
    text = shown_text(root, "/messages/?topic=flights&partitions=0,1&value_contains=%26x&tail=on")
    assert 'data-query="topic=flights&amp;partitions=0%2C1&amp;value_contains=%26x&amp;tail=on"' in text
    assert "New records of 2 partitions that match the filters" in text and not read_queries
    assert "data-tail" not in shown_text(root, "/messages/?topic=flights")
    invalid = root.get("/messages/?topic=flights&partitions=x&tail=on")
    assert invalid.status_code == 400 and "data-tail-state" not in invalid.content.decode()


def test_the_page_of_a_tail_needs_the_permission(read_queries: list[Any]) -> None:
    response = client_of(user("viewer", is_staff=True)).get("/messages/?topic=flights&tail=on")
    text = response.content.decode()
    assert response.status_code == 403 and "data-tail-state" not in text and "read_records" in text


def test_the_address_of_one_record_shows_it_whole_and_claims_no_longer_range(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(query: RecordQuery, resume: str = "", **_: Any) -> MessageRead:
        row = MessageRow(0, 7, 1_000, "UA", '{"a": 1}', 2, 8, [], [])
        return MessageRead(query.topic, [row], scanned=1, found=1, stopped="limit", note="There are more.", resume="T")

    monkeypatch.setattr(messages, "read_messages", read)
    one = "/messages/?topic=flights&partitions=0&start=offset&limit=1&offset="
    text = root.get(f"{one}7").content.decode()
    assert '<details class="more" open>' in text and "There are more." not in text and "Continue" not in text
    assert "/topics/flights/produce/?partition=0&amp;offset=7" in text
    assert "There is no record" not in text
    assert "There is no record at offset 5. This is the next one." in root.get(f"{one}5").content.decode()
    assert "There are more." in root.get(f"{one}7&value_contains=a").content.decode(), "a search is not one record"
