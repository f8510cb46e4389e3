"""Matching of records with the bindings of a route, and the record that results for each target. Pure.

The bindings are compiled once: exact keys into a dictionary, patterns into a trie, header conditions into an index by name and value. A record is compared only
with the bindings that can match. Invariant: for each target topic the first matching binding applies, in the order of the definition. So a record is in a
target at most once (as in a queue of RabbitMQ). Does not contain: the log, partitions.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from brokerd.cluster.routes import Binding, HeaderRule, MatchKind, SampleBy, Transformation
from brokerd.wire.records import Record

SAMPLE_STEPS = 10_000
"""Sampling has steps of 0.01 per cent."""
ONE_WORD, WORDS = b"*", b"#"


class _Node:
    """A position in the trie of patterns. `loops`: it was reached by `#`, so that it stays possible after each further word."""

    __slots__ = ("ends", "loops", "next", "one", "words")

    def __init__(self, *, loops: bool = False) -> None:
        self.next: dict[bytes, _Node] = {}
        self.one: _Node | None = None
        self.words: _Node | None = None
        self.loops = loops
        self.ends: list[int] = []


class _Patterns:
    def __init__(self) -> None:
        self._root = _Node()
        self.empty = True

    def add(self, pattern: str, number: int) -> None:
        self.empty = False
        node = self._root
        for word in pattern.encode().split(b"."):
            if word == WORDS:
                node.words = node.words or _Node(loops=True)
                node = node.words
            elif word == ONE_WORD:
                node.one = node.one or _Node()
                node = node.one
            else:
                node = node.next.setdefault(word, _Node())
        node.ends.append(number)

    def matching_bindings(self, key: bytes) -> list[int]:
        """Return the numbers of the bindings whose pattern matches the key. An empty key has no words, as in RabbitMQ."""
        states = _close_over_empty_words((self._root,))
        for word in key.split(b".") if key else ():
            following: list[_Node] = []
            for node in states:
                if node.loops:
                    following.append(node)
                if (after := node.next.get(word)) is not None:
                    following.append(after)
                if node.one is not None:
                    following.append(node.one)
            states = _close_over_empty_words(following)
            if not states:
                return []
        return [number for node in states for number in node.ends]


def _close_over_empty_words(nodes: Iterable[_Node]) -> list[_Node]:
    """`nodes` and the nodes that can be reached from them without a further word."""
    found: dict[_Node, None] = {}
    for node in nodes:
        at: _Node | None = node
        while at is not None and at not in found:
            found[at] = None
            at = at.words
    return list(found)


class _Headers:
    """Index of header conditions by name and value. If a binding needs all its conditions, only the first condition is in the index."""

    def __init__(self) -> None:
        self._by_value: defaultdict[tuple[str, bytes | None], list[tuple[int, tuple[HeaderRule, ...]]]]
        self._by_value = defaultdict(list)
        self._by_name: defaultdict[str, list[tuple[int, tuple[HeaderRule, ...]]]] = defaultdict(list)
        self.empty = True

    def add_any(self, rules: Sequence[HeaderRule], number: int) -> None:
        for rule in rules:
            self._add(rule, (), number)

    def add_all(self, rules: Sequence[HeaderRule], number: int) -> None:
        first = next((r for r in rules if r.value is not None), rules[0])
        self._add(first, tuple(r for r in rules if r is not first), number)

    def _add(self, rule: HeaderRule, others: tuple[HeaderRule, ...], number: int) -> None:
        self.empty = False
        if rule.value is None:
            self._by_name[rule.name].append((number, others))
        else:
            self._by_value[rule.name, rule.value].append((number, others))

    def matching_bindings(self, headers: Sequence[tuple[str, bytes | None]]) -> list[int]:
        found: list[int] = []
        for header in dict.fromkeys(headers):
            candidates = self._by_value.get(header, ())
            found += [n for n, others in candidates if all(_present(r, headers) for r in others)]
        for name in dict.fromkeys(name for name, _ in headers):
            found += [n for n, others in self._by_name.get(name, ()) if all(_present(r, headers) for r in others)]
        return found


def _present(rule: HeaderRule, headers: Sequence[tuple[str, bytes | None]]) -> bool:
    return any(name == rule.name and (rule.value is None or value == rule.value) for name, value in headers)


class Matched(NamedTuple):
    """`number`: the position of the binding in the definition."""

    number: int
    target: str
    record: Record


class RouteMatcher:
    def __init__(self, bindings: Sequence[Binding]) -> None:
        self._bindings = tuple(bindings)
        self._every: list[int] = []
        self._keys: defaultdict[bytes, list[int]] = defaultdict(list)
        self._patterns, self._headers = _Patterns(), _Headers()
        for number, binding in enumerate(bindings):
            match = binding.match
            if match.kind is MatchKind.ALL:
                self._every.append(number)
            elif match.kind is MatchKind.KEY:
                self._keys[match.value.encode()].append(number)
            elif match.kind is MatchKind.PATTERN:
                self._patterns.add(match.value, number)
            elif match.kind is MatchKind.HEADERS_ANY:
                self._headers.add_any(match.headers, number)
            else:
                self._headers.add_all(match.headers, number)

    def bindings_of(self, record: Record) -> list[int]:
        """The positions of the bindings that match, before sampling, in order. A record without a key matches no key and no pattern."""
        found = [*self._every]
        if record.key is not None:
            found += self._keys.get(record.key, ())
            if not self._patterns.empty:
                found += self._patterns.matching_bindings(record.key)
        if record.headers and not self._headers.empty:
            found += self._headers.matching_bindings(record.headers)
        return found if len(found) < 2 else sorted(set(found))

    def match(self, record: Record) -> list[Matched]:
        """The records to write for this record: at most one record for each target topic."""
        out: list[Matched] = []
        targets: set[str] = set()
        for number in self.bindings_of(record):
            binding = self._bindings[number]
            if binding.target not in targets and is_sampled(binding, record):
                targets.add(binding.target)
                out.append(Matched(number, binding.target, transform_record(binding.transformation, record)))
        return out


def is_sampled(binding: Binding, record: Record) -> bool:
    """Return whether this record is in the binding's sample. Depends only on the key or the offset, so that every leader decides the same. CRC-32, because
    a sample by the hash that chooses the partition would leave partitions empty."""
    if binding.sample_percent >= 100:
        return True
    by_key = binding.sample_by is SampleBy.KEY and record.key is not None
    data = record.key if by_key and record.key is not None else b"%d" % record.offset
    return zlib.crc32(data) % SAMPLE_STEPS < binding.sample_percent * SAMPLE_STEPS / 100


UNCHANGED = Transformation()


def transform_record(change: Transformation, record: Record) -> Record:
    """The record in the target. The key is taken before headers are removed."""
    if change == UNCHANGED:
        return record
    key = record.key
    if change.drop_key:
        key = None
    elif change.key_from_header:
        # If a header name occurs several times, the last header counts, as in Kafka's lastHeader.
        key = next((v for n, v in reversed(record.headers) if n == change.key_from_header), key)
    gone = {*change.remove_headers, *(name for name, _ in change.set_headers)}
    headers = (*(h for h in record.headers if h[0] not in gone), *change.set_headers)
    return record._replace(key=key, headers=headers)
