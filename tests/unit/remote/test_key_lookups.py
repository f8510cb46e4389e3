"""Look-ups by key in remote segments: complete with and without an index, bounded, few bytes with an index, without records of aborted transactions."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerd.remote.key_lookups import WINDOW_BYTES, RangedObject
from brokerd.remote.stored_segment import KEY_INDEX
from brokerd.storage.key_index import header_seed
from brokerd.wire import records, versioned
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from tests.unit.remote.test_operations import NOW, Scene

KEYS = 7


class KeyScene(Scene):
    """Records with the keys k0 to k6 in turn, copied with a key index unless `header` is None."""

    def __init__(self, tmp_path: Path, header: str | None = "", segment_bytes: int = 2_000) -> None:
        super().__init__(tmp_path, segment_bytes)
        self.key_index_header = header

    def fill(self, count: int, size: int = 60) -> None:
        for _ in range(count):
            offset = self.log.end_offset
            value = b"%06d" % offset + bytes(size)
            one = Record(0, offset, b"k%d" % (offset % KEYS), value, (("customer", b"c%d" % (offset % 3)),))
            data = bytearray(records.build([one]))
            self.log.append(data, list(records.batches(data)), 4, NOW)

    def look_up(self, key: bytes = b"k3", start: int = 0, aborted: Any = (), **requested: Any) -> KeyLookupResponse:
        given = {
            "header_name": "",
            "before_offset": self.copied[-1].end_offset,
            "matches_max": 100,
            "bytes_max": 1 << 30,
            "duration_ms_max": 1_000,
            **requested,
        }
        query = versioned.encode(KeyLookupRequest(key=key, **given), 0)
        fields = {
            "segments": [[*self.segment_fields(s), s.key_index_bytes, s.key_index_seed] for s in self.copied],
            "start": start,
            "aborted": aborted if aborted is None else [list(a) for a in aborted],
            "query": base64.b64encode(query).decode(),
        }
        return versioned.decode(KeyLookupResponse, base64.b64decode(self.operations.run("keys", fields)), 0)

    def expected_offsets(self, key: int = 3, below: int | None = None, start: int = 0) -> list[int]:
        end = self.copied[-1].end_offset if below is None else below
        return [o for o in reversed(range(start, end)) if o % KEYS == key]


def offsets(response: KeyLookupResponse) -> list[int]:
    return [m.offset for m in response.matches]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.sampled_from([None, "", "customer"]),
    most=st.integers(1, 5),
    size=st.sampled_from([1, 3_000, 1 << 30]),
    start=st.integers(0, 50),
)
def test_a_look_up_in_parts_finds_every_record_once_newest_first(
    tmp_path_factory: pytest.TempPathFactory, header: str | None, most: int, size: int, start: int
) -> None:
    scene = KeyScene(tmp_path_factory.mktemp("tier"), header)
    scene.fill(100)
    scene.copy_all()
    found: list[int] = []
    before = scene.copied[-1].end_offset
    while True:
        response = scene.look_up(before_offset=before, matches_max=most, bytes_max=size, start=start)
        found += offsets(response)
        if response.stop == LookupStop.LOG_START:
            assert response.next_before_offset == start
            break
        assert response.next_before_offset < before
        before = response.next_before_offset
    assert found == scene.expected_offsets(start=start)


def test_an_index_reads_few_bytes_and_the_auxiliary_object_is_not_needed(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path, segment_bytes=400_000)
    scene.fill(60, size=20_000)
    scene.copy_all()
    scene.operations = scene.restarted_operations()
    scene.fetched.clear()
    response = scene.look_up(b"k3", from_ms=0)
    assert offsets(response) == scene.expected_offsets()
    assert (response.segments_indexed, response.segments_scanned) == (len(scene.copied), 0)
    scene.operations = scene.restarted_operations()
    scene.fetched.clear()
    assert offsets(scene.look_up(b"absent")) == []
    stored = sum(s.size_bytes for s in scene.copied)
    assert sum(scene.fetched) < stored / 4


def test_a_value_of_the_indexed_header_is_found(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path, "customer")
    scene.fill(100)
    scene.copy_all()
    response = scene.look_up(b"c1", header_name="customer")
    assert offsets(response) == [o for o in reversed(range(scene.copied[-1].end_offset)) if o % 3 == 1]
    assert response.segments_indexed == len(scene.copied)
    assert scene.copied[0].key_index_seed == header_seed("customer")
    other = scene.look_up(b"c1", header_name="other")
    assert (offsets(other), other.segments_indexed, other.segments_scanned) == ([], 0, len(scene.copied))


def test_a_damaged_index_is_scanned_around(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path)
    scene.fill(100)
    scene.copy_all()
    broken = scene.copied[1]
    scene.store.put_bytes(broken.name + KEY_INDEX, bytes(broken.key_index_bytes))
    response = scene.look_up()
    assert offsets(response) == scene.expected_offsets()
    assert (response.segments_indexed, response.segments_scanned) == (len(scene.copied) - 1, 1)


def test_old_segments_are_skipped_by_their_newest_timestamp(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path, None)
    scene.fill(100)
    scene.copy_all()
    first = scene.copied[-1].start_offset
    response = scene.look_up(from_ms=first)
    assert offsets(response) == scene.expected_offsets(start=first) and response.segments_scanned == 1
    assert response.stop == LookupStop.LOG_START


def test_the_time_limit_is_checked_between_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = KeyScene(tmp_path, None)
    scene.fill(100)
    scene.copy_all()
    times = iter(range(0, 100_000, 400))
    monkeypatch.setattr(scene.operations, "_mono_ms", lambda: next(times))
    response = scene.look_up()
    assert response.stop == LookupStop.TIME
    assert response.next_before_offset == scene.copied[-2].start_offset


def test_records_of_aborted_transactions_are_skipped(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path)
    scene.append(0, producer=7, sequence=0)
    scene.fill(30)
    scene.end(7, commit=False)
    scene.fill(60)
    scene.copy_all()
    assert offsets(scene.look_up(b"k")) == []
    assert offsets(scene.look_up(b"k", aborted=None)) == [2, 1, 0]


def test_an_abort_marker_that_is_only_in_the_local_log_counts(tmp_path: Path) -> None:
    scene = KeyScene(tmp_path)
    scene.append(0, producer=7, sequence=0)
    scene.fill(60)
    scene.copy_all()
    scene.end(7, commit=False)
    assert offsets(scene.look_up(b"k")) == [2, 1, 0]
    assert offsets(scene.look_up(b"k", aborted=scene.log.aborted.overlapping(0, scene.log.end_offset))) == []


def test_a_ranged_object_requests_a_window_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    data = bytes(i % 251 for i in range(3 * WINDOW_BYTES))
    scene.store.put_bytes("o", data)
    read: list[int] = []
    file = RangedObject(scene.store, "o", len(data), read.append)
    assert file.pread(61, 10) == data[10:71] and file.pread(1_000, 71) == data[71:1_071]
    assert read == [WINDOW_BYTES]
    assert file.pread(WINDOW_BYTES, len(data) - 5) == data[-5:] and read == [WINDOW_BYTES, 5]
    assert file.size() == len(data)
    for write in (lambda: file.pwrite(b"", 0), lambda: file.truncate(0), file.fileno):
        with pytest.raises(OSError, match="remote object"):
            write()
