"""The compiled record walk returns the same results as its Python source, for valid records and for hostile bytes. An outdated build is not used."""

from __future__ import annotations

import importlib.util
import random
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest

from brokerd.wire import record_walk, record_walk_build, record_walks, records
from brokerd.wire.record_walk import LONG_MAX, LONG_MIN
from brokerd.wire.records import HEADER_BYTES, BatchHeader
from tests.unit.storage.test_batch_validation import GARBAGE, NOW, Raw, batch

RULES = ((False, LONG_MIN, LONG_MAX), (True, LONG_MIN, LONG_MAX), (True, NOW - 10, NOW + 400))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The compiled module that brokers of this directory use, else a build for this test."""
    found = record_walks.compiled()
    if found is None:
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        if shutil.which(compiler) is None:
            pytest.skip(f"no C compiler ({compiler}): there is no compiled record walk to compare")
        path = record_walk_build.build(tmp_path_factory.mktemp("compiled"))
        spec = importlib.util.spec_from_file_location(record_walks.COMPILED_NAME, path)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    assert found.__file__ is not None and found.__file__.endswith(".so")
    assert record_walks.source_digest() == found.SOURCE_DIGEST
    return found


def framed(data: bytes, count: int, newest: int, *, base: int = NOW, attributes: int = 0) -> bytes:
    """A batch with these records. Its CRC is not correct, because it is checked elsewhere."""
    header = BatchHeader(
        0, HEADER_BYTES - 12 + len(data), -1, 2, 0, attributes, count - 1, base, newest, -1, -1, -1, count
    )
    return records.HEADER.pack(*header) + data


def said(
    module: ModuleType, data: bytes, count: int, rules: tuple[bool, int, int], *, step: int, runs: bool
) -> tuple[object, ...]:
    """The result of a walk in steps: its end and findings, or why the records are invalid."""
    progress = module.Progress()
    try:
        while progress.i < count:
            module.walk(data, min(count, progress.i + step), NOW, *rules, progress, runs)
    except module.Invalid as e:
        return ("invalid", str(e))
    return (progress.i, progress.p, progress.newest, progress.headers, progress.unkeyed, progress.untimely)


def same(compiled: ModuleType, data: bytes, count: int) -> bool:
    """Both agree under all rules, in one step and in many, by runs and record by record. Returns True for valid records."""
    sound = True
    for rules in RULES:
        expected = said(record_walk, data, count, rules, step=count, runs=True)
        sound = sound and expected[0] != "invalid"
        accepted = expected[1:2] + expected[4:] == (len(data), None, None)
        newest = expected[2] if accepted else NOW
        assert isinstance(newest, int)
        for module, interpreted in ((record_walk, True), (record_walk, False), (compiled, False)):
            assert module.batch_is_valid(framed(data, count, newest), *rules, interpreted) == accepted
            assert not module.batch_is_valid(framed(data, count, newest ^ 1), *rules, interpreted)
        assert compiled.large_batch_is_valid(memoryview(framed(data, count, newest)), *rules) == accepted
        for step, runs in ((count, False), (count, True), (7, False), (7, True)):
            found = said(compiled, data, count, rules, step=step, runs=runs)
            if expected[0] != "invalid" or step == count:
                assert found == expected
            else:
                assert found[0] == "invalid"
    return sound


@pytest.mark.parametrize("case", GARBAGE)
def test_both_walks_reject_unreadable_records(case: str, compiled: ModuleType) -> None:
    data = GARBAGE[case]()
    _, header = next(records.batches(data))
    body = data[HEADER_BYTES:]
    if case == "bytes behind the last record":
        assert same(compiled, body, header.record_count)
        assert said(compiled, body, header.record_count, RULES[0], step=1, runs=False)[1] == len(body) - 1
    elif case == "a timestamp of more than 64 bits":
        assert not same(compiled, body, header.record_count)
    else:
        same(compiled, body, header.record_count)


def sound(rng: random.Random) -> tuple[bytes, int]:
    """Records of all shapes, some of them equal in runs."""
    raw: list[Raw] = []
    while len(raw) < 40 or rng.random() < 0.5:
        shape = Raw(
            timestamp_delta=rng.choice((0, 0, 1, -3, 63, 64, 300, 9_000, -(2**40), 2**62)),
            key=rng.choice((None, b"", b"key", b"k" * 70)),
            value=rng.choice((None, b"", b"v" * 12, b"v" * 100, b"v" * 9_000)),
            headers=rng.choice(((), (), ((b"h", b"x"),), ((b"", None), (b"n" * 70, b"")))),
        )
        raw += [shape] * rng.choice((1, 1, 2, 30, 90))
    return b"".join(r.encode(i) for i, r in enumerate(raw)), len(raw)


def test_both_walks_agree_on_valid_changed_and_truncated_records(
    compiled: ModuleType,
) -> None:
    rng = random.Random(44)
    refused = 0
    for _ in range(15):
        data, count = sound(rng)
        assert same(compiled, data, count)
        places = [i for i, byte in enumerate(data) if byte != ord("v")]
        for _ in range(25):
            wrong = bytearray(data)
            for _ in range(rng.choice((1, 1, 3))):
                at = rng.choice(places)
                wrong[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 1, wrong[at] ^ 0x80))
            refused += not same(compiled, bytes(wrong), count)
            refused += not same(compiled, data[: rng.randrange(len(data))], count)
    assert refused > 400


ALIKE = [
    Raw(key=key, value=value, headers=headers, timestamp_delta=delta)
    for key in (None, b"", b"k" * 5, b"k" * 63, b"k" * 64)
    for value in (None, b"", b"v" * 3, b"v" * 63, b"v" * 64, b"v" * 300, b"v" * 8_183, b"v" * 8_184, b"v" * 8_200)
    for headers, delta in (((), 0), ((), 5), ((), -3), ((), 64), (((b"h", b"x"),), 0))
]


@pytest.mark.parametrize("count", [1, 2, 15, 64, 65])
def test_records_of_one_shape_have_the_same_result(compiled: ModuleType, count: int) -> None:
    """Each byte except those of keys and values is changed. Counts of up to 64 have a separate path in the Python source."""
    rng = random.Random(46 + count)
    for shape in ALIKE if count <= 2 else rng.sample(ALIKE, 25):
        raw = [replace(shape, timestamp_delta=shape.timestamp_delta + rng.choice((0, 0, 1))) for _ in range(count)]
        data = b"".join(r.encode(i) for i, r in enumerate(raw))
        assert same(compiled, data, count)
        places = [i for i, byte in enumerate(data) if byte not in b"kv"]
        for at in places if len(places) < 30 else rng.sample(places, 10):
            wrong = bytearray(data)
            wrong[at] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 1, wrong[at] ^ 2, wrong[at] ^ 0x80))
            same(compiled, bytes(wrong), count)
        same(compiled, data[:-1], count)
        same(compiled, data + b"\0", count)
        same(compiled, data, count + 1)


@pytest.mark.parametrize("window", [1, 12, 200, 9_300, 20_000])
def test_large_batches_have_the_same_result_in_windows(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is larger than the window is no error: the batch is checked as a whole then."""
    monkeypatch.setattr(record_walk, "WINDOW_BYTES", window)
    rng = random.Random(window)
    found, refused = 0, 0
    for _ in range(10):
        data, count = sound(rng)
        places = [i for i, byte in enumerate(data) if byte != ord("v")]
        for change in range(20):
            wrong = bytearray(data)
            if change:
                at = rng.choice(places)
                wrong[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, wrong[at] ^ 1, wrong[at] ^ 0x80))
            body = bytes(wrong[: rng.choice((len(wrong), len(wrong), rng.randrange(len(wrong))))])
            for rules in RULES:
                whole = said(record_walk, body, count, rules, step=count, runs=False)
                newest = whole[2] if whole[0] != "invalid" else NOW
                assert isinstance(newest, int)
                batch = framed(body, count, newest)
                accepted = record_walk.batch_is_valid(batch, *rules, False)
                in_windows = record_walk.large_batch_is_valid(memoryview(batch), *rules)
                assert in_windows == accepted if window > 9_200 else in_windows <= accepted
                found += in_windows
                refused += not accepted
    assert refused > 100 and (found > 100 or window < 9_200)


def test_the_compiled_module_checks_large_batches_in_windows(compiled: ModuleType) -> None:
    rng = random.Random(51)
    raw = [Raw(value=b"v" * rng.randrange(3_000), timestamp_delta=rng.randrange(90)) for _ in range(400)]
    data = b"".join(r.encode(i) for i, r in enumerate(raw))
    assert len(data) > 5 * record_walk.WINDOW_BYTES
    batch = framed(data, 400, NOW + max(r.timestamp_delta for r in raw))
    assert compiled.large_batch_is_valid(memoryview(batch), *RULES[0])
    places = [i for i, byte in enumerate(batch) if i >= HEADER_BYTES and byte != ord("v")]
    for at in rng.sample(places, 200):
        wrong = bytearray(batch)
        wrong[at] ^= rng.choice((1, 2, 0x40, 0x80))
        expected = compiled.batch_is_valid(bytes(wrong), *RULES[0], False)
        assert compiled.large_batch_is_valid(memoryview(wrong), *RULES[0]) == expected
    large = Raw(value=b"v" * 100_000).encode(0)
    assert not compiled.large_batch_is_valid(memoryview(framed(large, 1, NOW)), *RULES[0]), "checked as a whole"


def test_a_varint_of_three_bytes_is_not_read_as_one_of_two() -> None:
    """Without the third byte, the two lengths would fit the batch."""
    for size in (8_192, 8_200, 12_000):
        record = bytearray(b"\0\0\0\1" + bytes(3) + b"v" * (size - 8) + b"\0")
        value = size - 8
        record[4:7] = value << 1 & 0x7F | 0x80, value >> 6 & 0x7F | 0x80, value >> 13
        good = bytes((size << 1 & 0x7F | 0x80, size >> 6 & 0x7F | 0x80, size >> 13)) + record
        hidden = good[:2] + b"\0" + record
        for data, accepted in ((good, True), (hidden, False)):
            for interpreted in (True, False):
                found = record_walk.batch_is_valid(framed(data, 1, NOW), False, LONG_MIN, LONG_MAX, interpreted)
                assert found == accepted


@pytest.mark.parametrize("count", [1, 2, 15, 64])
def test_usual_batches_are_checked_without_a_walk_in_python(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walk, "walk", lambda *_: pytest.fail("walked"))
    for value in (b"v" * 3, b"v" * 64, b"v" * 1_024):
        raw = [Raw(value=value, timestamp_delta=i // 3) for i in range(count)]
        data = framed(b"".join(r.encode(i) for i, r in enumerate(raw)), count, NOW + (count - 1) // 3)
        assert record_walk.batch_is_valid(data, False, LONG_MIN, LONG_MAX, True)
        assert record_walk.batch_is_valid(data, False, NOW - 64, NOW + 64, True)
    if count == 1:
        monkeypatch.setattr(record_walk, "_alike", lambda *_: pytest.fail("parsed"))
        assert record_walk.batch_is_valid(data, False, NOW, NOW, True)


def test_only_whole_uncompressed_batches_with_timestamps_of_their_producer_are_accepted(compiled: ModuleType) -> None:
    data = Raw().encode(0)
    for module in (record_walk, compiled):
        accepts = partial(
            module.batch_is_valid, keyed=False, earliest=LONG_MIN, latest=LONG_MAX, interpreted=module is record_walk
        )
        assert accepts(framed(data, 1, NOW))
        assert accepts(framed(data, 1, NOW, attributes=0x10)), "transactional"
        for bit in (1, 2, 4, 8):
            assert not accepts(framed(data, 1, NOW, attributes=bit))
        assert not accepts(framed(data, 1, NOW) * 2)
        assert not accepts(framed(Raw(value=b"v" * 100).encode(0), 1, NOW) + b"\0"), "longer than its header says"
        assert not accepts(framed(data, 1, NOW)[:-1])
        assert accepts(framed(data, 1, -1, base=-1)), "without a timestamp"
        assert accepts(framed(data, 1, -1, base=LONG_MIN))
        assert accepts(framed(data, 1, LONG_MAX, base=LONG_MAX))
        assert not accepts(framed(Raw(timestamp_delta=1).encode(0), 1, LONG_MAX, base=LONG_MAX))


def test_both_walks_agree_on_random_bytes(compiled: ModuleType) -> None:
    rng = random.Random(45)
    for size in (0, 1, 6, 7, 8, 20, 200):
        for _ in range(60):
            same(compiled, bytes(rng.choice((0, 2, 14, 0x80, 0xFF, rng.randrange(256))) for _ in range(size)), 3)


def test_the_compiled_walk_is_used_for_batches_where_it_was_built() -> None:
    assert (record_walks.walk is not record_walk.walk) == record_walks.COMPILED
    assert (record_walks.compiled() is not None) == record_walks.COMPILED
    assert record_walks.walk_view is record_walk.walk
    ((_, header),) = records.check(batch(Raw()))
    assert header.record_count == 1


def test_a_compiled_walk_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{record_walks.__package__}.{record_walks.COMPILED_NAME}"
    mine = SimpleNamespace(SOURCE_DIGEST=record_walks.source_digest())
    for found, used in ((mine, mine), (SimpleNamespace(SOURCE_DIGEST="0" * 64), None), (None, None)):
        monkeypatch.setitem(sys.modules, name, found)  # type: ignore[arg-type]
        assert record_walks.compiled() is used
