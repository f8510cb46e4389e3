"""Keys of group records are decoded as they were encoded. An incomplete key is an error."""

from __future__ import annotations

import pytest

from brokerd.coordinator.record_keys import decode_key, encode_key


@pytest.mark.parametrize("names", [["g"], ["group", "member-1"], ["grüppe", ""]])
def test_a_key_is_decoded_as_it_was_encoded(names: list[str]) -> None:
    assert decode_key(encode_key(17, names)) == (17, names)


def test_the_layout_of_a_key_is_kafkas() -> None:
    assert encode_key(19, ["g", "mm"]) == b"\0\x13\0\x01g\0\x02mm"


@pytest.mark.parametrize("length", [0, 1, 3, 4, 6])
def test_an_incomplete_key_is_an_error(length: int) -> None:
    with pytest.raises(ValueError, match="the record is incomplete"):
        decode_key(encode_key(19, ["g", "mm"])[:length])


def test_a_negative_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="the record is incomplete"):
        decode_key(b"\0\x13\xff\xff")
