"""Text forms of an offset reset."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.errors import Rejected
from controlplane.domain.offset_input import duration_ms, offsets_of_text, scope_of_text

ENTRIES = [{"topic": "a", "partition": 0, "offset": 5}, {"topic": "b,c", "partition": 11, "offset": 0}]
OFFSETS = {("a", 0): 5, ("b,c", 11): 0}


@pytest.mark.parametrize(
    "text",
    [
        'a,0,5\n"b,c",11,0\n',
        ' topic,partition,offset\r\n\r\na , 0, 5\r\n"b,c",11,0',
        json.dumps(ENTRIES),
        json.dumps({"version": 1, "partitions": ENTRIES}),
        json.dumps({"offsets": ENTRIES}),
    ],
)
def test_offsets_of_csv_and_json(text: str) -> None:
    assert offsets_of_text(text) == OFFSETS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("[]", "empty"),
        ("a,0", "Line 1"),
        ("a,0,5\na,x,5", "Line 2: the partition 'x'"),
        ("a,0,-1", "the offset"),
        ("a,0,5\na,0,6", "two offsets"),
        (",0,5", "topic is missing"),
        ("[1]", "Entry 1"),
        ('[{"topic": "a", "partition": true, "offset": 1}]', "the partition"),
        ('[{"topic": 3, "partition": 1, "offset": 1}]', "topic is missing"),
        ("{nonsense", "JSON is invalid"),
        ('{"partitions": 7}', "Enter a list"),
    ],
)
def test_invalid_offsets_are_named(text: str, said: str) -> None:
    with pytest.raises(Rejected, match=said) as found:
        offsets_of_text(text)
    assert found.value.field == "offsets"


@given(st.text() | st.text('[]{},:0123456789"\n abct'))
def test_any_text_gives_offsets_or_is_rejected_with_its_field(text: str) -> None:
    field = "offsets"
    try:
        found = offsets_of_text(text)
    except Rejected as e:
        found, field = {("rejected", 0): 0}, e.field
    assert found and field == "offsets"


def test_topics_with_partitions() -> None:
    assert scope_of_text("orders  flights:0,3\nflights:0 orders") == (("orders",), (("flights", 0), ("flights", 3)))
    assert scope_of_text("a, b") == (("a", "b"), ())
    for text in ("a:", ":1", "a:x", "a:1,,2", "a:-1"):
        with pytest.raises(Rejected):
            scope_of_text(text)


def test_durations() -> None:
    for text, ms in (("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000), ("PT15M", 900_000)):
        assert duration_ms(text) == ms
    assert duration_ms("P1DT1H1S") == 86_400_000 + 3_600_000 + 1_000
    for text in ("", "P", "PT", "15", "m", "1w", "-1h", "1.5h"):
        with pytest.raises(Rejected):
            duration_ms(text)
