"""Names and values that the pipeline and the control plane share."""

from __future__ import annotations

from weir_common.lake import DeadLetterFiles, dead_letters_of, is_dead_letters, parse_positions, positions_text


def test_positions_are_read_as_they_were_written() -> None:
    assert parse_positions(positions_text({2: 5, 0: 17})) == {0: 17, 2: 5}
    assert parse_positions(None) == {}


def test_files_of_dead_letters_are_read_as_they_were_written() -> None:
    files = DeadLetterFiles("a", ("file:///x", "file:///y"))
    assert DeadLetterFiles.parse(files.text()) == files
    assert DeadLetterFiles.parse("") is None


def test_a_table_of_dead_letters_is_known_by_its_name() -> None:
    assert is_dead_letters(dead_letters_of("orders"))
    assert not is_dead_letters("orders")
