"""Remote stores: the same behaviour of a folder and of S3 (a server of moto in this process)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from brokerd.remote.store_urls import store_at
from brokerd.remote.stores import FolderStore, ObjectMissing, ObjectStore, StoreUnavailable


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "folder":
        (tmp_path / "store").mkdir()
        return store_at(f"file://{tmp_path}/store")
    at: str = request.getfixturevalue("endpoint")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": at,
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="tier")
    return store_at(f"s3://tier/{tmp_path.name}")


def test_objects_are_written_read_listed_and_deleted(store: ObjectStore, tmp_path: Path) -> None:
    path, spent = tmp_path / "segment", list[int]()
    data = bytes(range(256)) * 12_000
    path.write_bytes(data + b"not a part of the object")
    store.put_file("c/t/0/a.log", path, len(data), spent.append)
    store.put_bytes("c/t/0/a.aux", b"aux")
    store.put_bytes("c/t/1/b.aux", b"other")
    assert sum(spent) >= len(data)
    assert store.get("c/t/0/a.log", 0, len(data)) == data
    assert store.get("c/t/0/a.log", 1_000_000, 700) == data[1_000_000:1_000_700]
    assert store.get("c/t/0/a.log", len(data) - 10, 700) == data[-10:]
    assert sorted(store.names("c/t/0/")) == ["c/t/0/a.aux", "c/t/0/a.log"]
    store.delete("c/t/0/a.log")
    store.delete("c/t/0/a.log")
    assert list(store.names("c/t/0/")) == ["c/t/0/a.aux"]
    with pytest.raises(ObjectMissing):
        store.get("c/t/0/a.log", 0, 10)


def test_a_local_file_that_is_too_short_leaves_no_object(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "segment").write_bytes(b"short")
    store = FolderStore(tmp_path / "store")
    with pytest.raises(StoreUnavailable):
        store.put_file("t/a.log", tmp_path / "segment", 100, lambda count: None)
    assert list(store.names("")) == []


def test_a_folder_that_is_not_mounted_is_unavailable_and_not_created(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "absent")
    with pytest.raises(StoreUnavailable, match="create it, or mount"):
        store.get("a", 0, 1)
    with pytest.raises(StoreUnavailable):
        store.put_bytes("a", b"")
    with pytest.raises(StoreUnavailable):
        store.delete("a")
    with pytest.raises(StoreUnavailable):
        list(store.names(""))
    assert not (tmp_path / "absent").exists()
