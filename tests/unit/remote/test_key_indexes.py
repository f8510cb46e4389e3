"""Key indexes of remote segments: the broker's index is copied, a missing or foreign one is built by the helper."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.remote.key_indexes import put_key_index
from brokerd.remote.stored_segment import KEY_INDEX
from brokerd.remote.stores import StoreUnavailable
from brokerd.storage import key_index
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import KeyIndex, LogFile, key_hash
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.segment import Segment
from tests.unit.remote.test_operations import Scene

NAME = f"cluster/topic/0/0-id{KEY_INDEX}"


@pytest.fixture
def log_with_segments(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    for first in range(0, 60, 3):
        scene.append(first)
    return scene


def build_key_index(scene: Scene, header: str = "") -> tuple[int, int]:
    segment, temporary = scene.log.segments[0], scene.cache.folder / "new"
    place = (segment.path, segment.base_offset, segment.size)
    result = put_key_index(scene.disk, scene.store, NAME, place, header, temporary, lambda count: None)
    assert not temporary.exists()
    return result


def finds_each_batch(scene: Scene, size: int, seed: int) -> bool:
    segment = scene.log.segments[0]
    log = LogFile(segment.file.pread, segment.base_offset, segment.size)
    index = KeyIndex.of_file(lambda length, at: scene.store.get(NAME, at, length), size, log, seed)
    expected = [at for at, _ in segment.headers(0)]
    return list(index.positions(key_hash(b"k"), segment.size)) == expected[::-1]


def build(scene: Scene, segment: Segment, header: str = "") -> None:
    built = KeyIndexBuild(scene.disk, segment.path, segment.base_offset, segment.size, HashedKeys(header))
    while not built.finished:
        built.run(1 << 20)
    scene.disk.rename(built.temporary, built.target)


def test_an_index_that_the_broker_has_not_built_yet_is_built(log_with_segments: Scene) -> None:
    size, seed = build_key_index(log_with_segments)
    assert finds_each_batch(log_with_segments, size, seed)
    assert not log_with_segments.log.segments[0].path.with_suffix(key_index.SUFFIX).exists()


def test_the_index_of_the_broker_is_copied(log_with_segments: Scene) -> None:
    segment = log_with_segments.log.segments[0]
    build(log_with_segments, segment)
    size, _ = build_key_index(log_with_segments)
    assert log_with_segments.store.get(NAME, 0, size + 1) == segment.path.with_suffix(key_index.SUFFIX).read_bytes()


def test_an_index_of_another_header_is_not_copied(log_with_segments: Scene) -> None:
    build(log_with_segments, log_with_segments.log.segments[0], "customer")
    size, seed = build_key_index(log_with_segments)
    assert seed == HashedKeys("").seed and finds_each_batch(log_with_segments, size, seed)


def test_a_failed_copy_leaves_no_temporary_file(log_with_segments: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_store_unavailable(*arguments: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(log_with_segments.store, "put_file", raise_store_unavailable)
    with pytest.raises(StoreUnavailable):
        build_key_index(log_with_segments)
    assert not (log_with_segments.cache.folder / "new").exists()
