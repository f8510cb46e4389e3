"""Regular expressions over names of topics and transactional ids in RE2's syntax. They match whole names, in time linear in the length of a name. Pure.

Invariants: the positions of an automaton and the work of one search are limited, because clients choose the expression and the event loop runs
it. Unsupported syntax raises PatternError and is never interpreted differently. Python's `re` backtracks and is not used (docs/decisions/025).

Supported: . [] [^] [[:alpha:]] | () (?:) (?P<name>) (?flags) * + ? {n,m} and their lazy forms, \\d \\w \\s and their complements, \\Q..\\E, \\x,
^ and \\A at the start, $ and \\z at the end. Not supported: \\p, characters outside of ASCII (a literal
one matches nothing; . and complements match all of them), \\b, anchors elsewhere, and syntax that RE2 does not support
(back references, look-around, possessive quantifiers).
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, NoReturn

LENGTH_MAX = 1_000
"""Maximum number of characters of a pattern."""
POSITIONS_MAX = 500
"""Maximum number of characters of a pattern after its repetitions are expanded. A state of the automaton is a set of these positions."""
REPEAT_MAX = 1_000
"""RE2's limit of a repetition count."""
DEPTH_MAX = 50
STATES_MAX = 10_000
"""Maximum number of states of the automaton that one search caches."""
WORK_MAX = 200_000
"""Limit of the positions that one search visits, about 40 ms of the event loop. Cached states cost nothing: an expression like `orders-.*` visits some hundreds
of positions, an expression with a thousand alternatives about ten thousand."""

ALPHABET = "".join(map(chr, range(128)))
_BIT = {c: 1 << i for i, c in enumerate(ALPHABET)}
OTHER = 1 << len(ALPHABET)
"""The bit of all characters outside of ALPHABET."""
ANY = OTHER | (OTHER - 1)


def _mask_of(characters: str) -> int:
    return sum(_BIT.get(c, 0) for c in set(characters))


_WORD = _mask_of(string.ascii_letters + string.digits + "_")
_CLASSES = {"d": _mask_of(string.digits), "w": _WORD, "s": _mask_of("\t\n\f\r ")}
_CLASSES |= {c.upper(): ANY & ~mask for c, mask in _CLASSES.items()}
_POSIX = {
    "alnum": _mask_of(string.ascii_letters + string.digits),
    "alpha": _mask_of(string.ascii_letters),
    "ascii": ANY & ~OTHER,
    "blank": _mask_of("\t "),
    "cntrl": _mask_of(ALPHABET[:32] + ALPHABET[127]),
    "digit": _mask_of(string.digits),
    "graph": _mask_of(ALPHABET[33:127]),
    "lower": _mask_of(string.ascii_lowercase),
    "print": _mask_of(ALPHABET[32:127]),
    "punct": _mask_of(string.punctuation),
    "space": _mask_of(string.whitespace),
    "upper": _mask_of(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": _mask_of(string.hexdigits),
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
EMPTY, BEGIN, END = ("empty",), ("begin",), ("end",)
Node = tuple[Any, ...]
"""("one", characters as bits) | ("cat" | "alt", nodes) | ("repeat", node, least, most or None) | EMPTY | BEGIN | END"""


class PatternError(ValueError):
    """The pattern is invalid, unsupported or too expensive. The message is sent to the client."""


class Pattern:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"{len(text)} characters exceed the limit of {LENGTH_MAX}")
        tree = _Parser(text).parse_all()
        _check_anchors(tree, True, True)
        self._masks: list[int] = []
        self._follow: list[int] = []
        self._matches_nothing, self._first, self._last = self._build(tree)
        self._at = {c: self._positions_of(bit) for c, bit in _BIT.items()}
        self._at_other = self._positions_of(OTHER)

    def _positions_of(self, bit: int) -> int:
        """The positions that match a character."""
        return sum(1 << p for p, mask in enumerate(self._masks) if mask & bit)

    # -- Glushkov automaton: a state is the set of positions that match the last character ------------------------------------
    def _build(self, node: Node) -> tuple[bool, int, int]:
        """(whether it matches the empty name, possible first positions, possible last positions)."""
        match node:
            case ("one", int(mask)):
                if len(self._masks) >= POSITIONS_MAX:
                    raise PatternError(f"expanded repetitions exceed {POSITIONS_MAX} characters")
                bit = 1 << len(self._masks)
                self._masks.append(mask)
                self._follow.append(0)
                return False, bit, bit
            case ("cat", *nodes):
                empty, first, last = True, 0, 0
                for child in nodes:
                    empty, first, last = self._concatenate((empty, first, last), self._build(child))
                return empty, first, last
            case ("alt", *nodes):
                built = [self._build(child) for child in nodes]
                return any(e for e, _, _ in built), _or(f for _, f, _ in built), _or(x for _, _, x in built)
            case ("repeat", child, int(least), most):
                so_far = (True, 0, 0)
                for i in range(least + 1 if most is None else most):
                    before = len(self._masks)
                    empty, first, last = self._build(child)
                    if len(self._masks) == before:
                        break  # an empty expression stays empty when it is repeated
                    if most is None and i == least:
                        self._link(last, first)
                    so_far = self._concatenate(so_far, (empty or i >= least, first, last))
                return so_far
        return True, 0, 0

    def _concatenate(self, one: tuple[bool, int, int], other: tuple[bool, int, int]) -> tuple[bool, int, int]:
        self._link(one[2], other[1])
        first = one[1] | other[1] if one[0] else one[1]
        last = one[2] | other[2] if other[0] else other[2]
        return one[0] and other[0], first, last

    def _link(self, last: int, first: int) -> None:
        while last:
            low = last & -last
            self._follow[low.bit_length() - 1] |= first
            last ^= low

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """The matching names. Raises PatternError if the search exceeds `WORK_MAX`."""
        follow, at, other, last = self._follow, self._at, self._at_other, self._last
        after: dict[int, int] = {}
        work = 0
        found = []
        for name in names:
            may, state = self._first, 0
            for c in name:
                state = may & at.get(c, other)
                if not state:
                    break
                if state not in after:
                    if len(after) >= STATES_MAX:
                        after.clear()
                    reach, left = 0, state
                    while left:
                        low = left & -left
                        reach |= follow[low.bit_length() - 1]
                        left ^= low
                        work += 1
                    after[state] = reach
                    if work > WORK_MAX:
                        raise PatternError("the search exceeds the work limit: simplify the expression")
                may = after[state]
            if state & last or (not name and self._matches_nothing):
                found.append(name)
        return frozenset(found)


def _or(masks: Iterable[int]) -> int:
    out = 0
    for mask in masks:
        out |= mask
    return out


def _check_anchors(node: Node, leading: bool, trailing: bool) -> None:
    """Raise PatternError for an anchor that is not at the start or end, where whole-name matching implies it."""
    match node:
        case ("begin",) if not leading:
            raise PatternError("^ is supported at the start only")
        case ("end",) if not trailing:
            raise PatternError("$ is supported at the end only")
        case ("alt", *nodes):
            for child in nodes:
                _check_anchors(child, leading, trailing)
        case ("cat", *nodes):
            for i, child in enumerate(nodes):
                before, behind = nodes[:i], nodes[i + 1 :]
                _check_anchors(
                    child, leading and all(x == BEGIN for x in before), trailing and all(x == END for x in behind)
                )
        case ("repeat", child, _, most):
            once = most == 1
            _check_anchors(child, leading and once, trailing and once)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.any_case = self.dot_all = False

    def fail(self, reason: str) -> NoReturn:
        raise PatternError(f"{reason} (at character {self.at + 1})")

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def eats(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def read_until(self, end: str, what: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            self.fail(f"{what} is not closed")
        literal = self.text[self.at : stop]
        self.at = stop + len(end)
        return literal

    def parse_all(self) -> Node:
        tree = self.alternatives()
        if self.peek():
            self.fail("unmatched )")
        return tree

    def alternatives(self) -> Node:
        branches: list[Node] = [self.sequence()]
        while self.eats("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else ("alt", *branches)

    def sequence(self) -> Node:
        items: list[Node] = []
        while self.peek() and self.peek() not in "|)":
            if self.eats("\\Q"):
                quoted = self.text[self.at :] if "\\E" not in self.text[self.at :] else None
                literal = self.read_until("\\E", "\\Q") if quoted is None else quoted
                if quoted is not None:
                    self.at = len(self.text)
                items += [self.one(_mask_of(c)) for c in literal]
                continue
            item = self.item()
            if item is not None:
                items.append(self.parse_repetition(item))
        return items[0] if len(items) == 1 else ("cat", *items)

    def parse_repetition(self, item: Node) -> Node:
        start = self.at
        if self.eats("*"):
            least, most = 0, None
        elif self.eats("+"):
            least, most = 1, None
        elif self.eats("?"):
            least, most = 0, 1
        else:
            bounds = self.bounds()
            if bounds is None:
                return item
            least, most = bounds
        self.eats("?")  # a lazy repetition matches the same names
        if self.peek() and self.peek() in "*+?":
            self.at = start
            self.fail("nested quantifier")
        if item in (EMPTY, BEGIN, END):
            return item
        return ("repeat", item, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """{n}, {n,} or {n,m}. Anything else in braces is literal text, as in RE2."""
        if self.peek() != "{":
            return None
        stop = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(stop, self.at + 1)].partition(",")
        if stop < 0 or not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            return None
        least = int(low[:5])
        most = least if not comma else int(high[:5]) if high else None
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            self.fail("invalid repetition count")
        self.at = stop + 1
        return least, most

    def item(self) -> Node | None:
        char = self.peek()
        if char in "*+?":
            self.fail("quantifier without an expression")
        self.at += 1
        match char:
            case "(":
                return self.group()
            case "[":
                return self.one(self.bracket())
            case ".":
                return ("one", ANY if self.dot_all else ANY & ~_BIT["\n"])
            case "^":
                return BEGIN
            case "$":
                return END
            case "\\":
                return self.escape()
        return self.one(_mask_of(char))

    def one(self, mask: int) -> Node:
        return ("one", _any_case(mask) if self.any_case else mask)

    def group(self) -> Node | None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.fail(f"groups are nested deeper than {DEPTH_MAX}")
        outside = self.any_case, self.dot_all
        if self.eats("?"):
            if self.eats("P<") or (self.peek() == "<" and self.peek(1) not in ("=", "!") and self.eats("<")):
                if not self.read_until(">", "the name of a group").isidentifier():
                    self.fail("a group name consists of letters, digits and _")
            elif not self.flags():
                self.depth -= 1
                return None
        inside = self.alternatives()
        if not self.eats(")"):
            self.fail("missing )")
        self.any_case, self.dot_all = outside
        self.depth -= 1
        return inside

    def flags(self) -> bool:
        """Flags after `(?`. Returns whether a group starts here, as in (?i:...). Flags as in (?i) apply to the end of the enclosing group."""
        on = True
        while self.peek() and self.peek() not in ":)":
            c = self.peek()
            if c == "-" and on:
                on = False
            elif c == "i":
                self.any_case = on
            elif c == "s":
                self.dot_all = on
            elif c not in "mU":  # multi-line and lazy flags do not change the match of a whole name
                self.fail("unsupported group syntax")
            self.at += 1
        if self.eats(")"):
            return False
        if not self.eats(":"):
            self.fail("missing )")
        return True

    def escape(self) -> Node:
        c = self.peek()
        if c in ("A", "z"):
            self.at += 1
            return BEGIN if c == "A" else END
        return self.one(self.parse_escape())

    def parse_escape(self) -> int:
        """The characters of an escape sequence, inside or outside brackets."""
        char = self.peek()
        self.at += 1
        if not char:
            self.fail("trailing backslash")
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROL:
            return _mask_of(_CONTROL[char])
        if char == "x":
            braced = self.eats("{")
            digits = self.read_until("}", "\\x{") if braced else self.text[self.at : self.at + 2]
            self.at += 0 if braced else 2
            if not digits or len(digits) > 6 or set(digits) - set(string.hexdigits) or (not braced and len(digits) < 2):
                self.fail("\\x requires two hexadecimal digits, or up to six in braces")
            return _mask_of(chr(min(int(digits, 16), 0x10FFFF)))
        if char.isalnum():
            self.fail(f"unsupported escape sequence \\{char}")
        return _mask_of(char)

    def bracket(self) -> int:
        none_of = self.eats("^")
        mask, first = 0, True
        while first or self.peek() != "]":
            c = self.peek()
            if not c:
                self.fail("missing ]")
            first = False
            if self.eats("[:"):
                name = self.read_until(":]", "[:")
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    self.fail(f"unknown character class [:{name}:]")
                mask |= ANY & ~known if name.startswith("^") else known
                continue
            low, single = self.parse_brackets()
            if self.peek() == "-" and self.peek(1) not in ("]", ""):
                self.at += 1
                _, also = self.parse_brackets()
                if single is None or also is None or single > also:
                    self.fail("invalid character range")
                low = sum(bit for ch, bit in _BIT.items() if single <= ch <= also)
            mask |= low
        self.at += 1
        mask = _any_case(mask) if self.any_case else mask
        return ANY & ~mask if none_of else mask

    def parse_brackets(self) -> tuple[int, str | None]:
        """(characters, the character if it is a single one, otherwise None)."""
        c = self.peek()
        self.at += 1
        if c != "\\":
            return _mask_of(c), c
        following = self.peek()
        mask = self.parse_escape()
        return mask, None if following in _CLASSES else following if not following.isalnum() else _single(mask)


def _single(mask: int) -> str | None:
    return next((c for c, bit in _BIT.items() if bit == mask), None)


def _any_case(mask: int) -> int:
    return mask | _mask_of("".join(c.swapcase() for c, bit in _BIT.items() if mask & bit))
