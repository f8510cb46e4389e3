"""Regular expressions over topic names, in RE2's syntax: whole names are matched, in time linear in their length. Pure.

Laws: no pattern takes longer than its limits allow (a member chooses it, the broker's only loop runs it): the positions of an automaton
are bounded, and so is the work of one search; what is not understood is refused with a sentence, never taken for something else. Python's
own `re` backtracks, which is why it is not asked (docs/decisions/025). Called by `consumer_group`. Must not come in: topics.

Understood: . [] [^] [[:alpha:]] | () (?:) (?P<name>) (?flags) * + ? {n,m} and their lazy kinds, \\d \\w \\s and their opposites, \\Q..\\E, \\x,
^ and \\A at the beginning, $ and \\z at the end. Not: \\p (names are ASCII), \\b, anchors elsewhere; and what RE2 has not either (back
references, looking around, possessive kinds).
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, NoReturn

LENGTH_MAX = 1_000
"""Characters of a pattern."""
POSITIONS_MAX = 500
"""Characters of a pattern after its repetitions are written out: a state of the automaton is a set of them."""
REPEAT_MAX = 1_000
"""RE2's own."""
DEPTH_MAX = 50
STATES_MAX = 10_000
"""Kept while one search runs."""
WORK_MAX = 2_000_000
"""Positions looked at in one search: some 0.4 s. States seen before cost nothing."""

ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits + "._-"
_BIT = {c: 1 << i for i, c in enumerate(ALPHABET)}
ANY = (1 << len(ALPHABET)) - 1


def _set(characters: str) -> int:
    return sum(_BIT.get(c, 0) for c in set(characters))


_WORD = _set(string.ascii_letters + string.digits + "_")
_CLASSES = {"d": _set(string.digits), "w": _WORD, "s": 0}
_CLASSES |= {c.upper(): ANY & ~mask for c, mask in _CLASSES.items()}
_POSIX = {
    "alnum": _set(string.ascii_letters + string.digits), "alpha": _set(string.ascii_letters), "ascii": ANY, "blank": 0, "cntrl": 0,
    "digit": _set(string.digits), "graph": ANY, "lower": _set(string.ascii_lowercase), "print": ANY, "punct": _set("._-"),
    "space": 0, "upper": _set(string.ascii_uppercase), "word": _WORD, "xdigit": _set(string.hexdigits),
}  # fmt: skip
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
EMPTY, BEGIN, END = ("empty",), ("begin",), ("end",)
Node = tuple[Any, ...]
"""("one", characters as bits) | ("cat" | "alt", nodes) | ("repeat", node, least, most or None) | EMPTY | BEGIN | END"""


class PatternError(ValueError):
    """The sentence is for whoever wrote the pattern."""


class Pattern:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"it has {len(text)} characters; at most {LENGTH_MAX} may be")
        tree = _Parser(text).whole()
        _anchored(tree, True, True)
        self._masks: list[int] = []
        self._follow: list[int] = []
        self._matches_nothing, self._first, self._last = self._build(tree)
        self._at = {
            c: sum(1 << p for p, mask in enumerate(self._masks) if mask & bit) for c, bit in _BIT.items()
        }  # {character: positions that it may stand at}

    # -- the automaton (Glushkov's): a state is the set of positions that the last character may have stood at ----------------
    def _build(self, node: Node) -> tuple[bool, int, int]:
        """(whether it matches the empty name, positions it may begin at, positions it may end at)."""
        match node:
            case ("one", int(mask)):
                if len(self._masks) >= POSITIONS_MAX:
                    raise PatternError(f"written out it has more than {POSITIONS_MAX} characters")
                bit = 1 << len(self._masks)
                self._masks.append(mask)
                self._follow.append(0)
                return False, bit, bit
            case ("cat", *nodes):
                empty, first, last = True, 0, 0
                for child in nodes:
                    empty, first, last = self._then((empty, first, last), self._build(child))
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
                        break  # of nothing: however often
                    if most is None and i == least:
                        self._link(last, first)
                    so_far = self._then(so_far, (empty or i >= least, first, last))
                return so_far
        return True, 0, 0

    def _then(self, one: tuple[bool, int, int], other: tuple[bool, int, int]) -> tuple[bool, int, int]:
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
        """Those that match. Raises PatternError where that takes too much work."""
        follow, at, last = self._follow, self._at, self._last
        after: dict[int, int] = {}
        work = 0
        found = []
        for name in names:
            may, state = self._first, 0
            for c in name:
                state = may & at.get(c, 0)
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
                        raise PatternError("it takes too much work; it has too many ways to match")
                may = after[state]
            if state & last or (not name and self._matches_nothing):
                found.append(name)
        return frozenset(found)


def _or(masks: Iterable[int]) -> int:
    out = 0
    for mask in masks:
        out |= mask
    return out


def _anchored(node: Node, leading: bool, trailing: bool) -> None:
    """Anchors stand where they say nothing that matching whole names does not say anyhow."""
    match node:
        case ("begin",) if not leading:
            raise PatternError("^ is understood at the beginning only")
        case ("end",) if not trailing:
            raise PatternError("$ is understood at the end only")
        case ("alt", *nodes):
            for child in nodes:
                _anchored(child, leading, trailing)
        case ("cat", *nodes):
            for i, child in enumerate(nodes):
                before, behind = nodes[:i], nodes[i + 1 :]
                _anchored(
                    child, leading and all(x == BEGIN for x in before), trailing and all(x == END for x in behind)
                )
        case ("repeat", child, _, most):
            once = most == 1
            _anchored(child, leading and once, trailing and once)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.any_case = False

    def fail(self, why: str) -> NoReturn:
        raise PatternError(f"{why} (at character {self.at + 1})")

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def eats(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def until(self, end: str, what: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            self.fail(f"{what} is not closed")
        said = self.text[self.at : stop]
        self.at = stop + len(end)
        return said

    def whole(self) -> Node:
        tree = self.alternatives()
        if self.peek():
            self.fail("a ) without its (")
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
                said = self.until("\\E", "\\Q") if quoted is None else quoted
                if quoted is not None:
                    self.at = len(self.text)
                items += [self.one(_set(c)) for c in said]
                continue
            item = self.item()
            if item is not None:
                items.append(self.repeated(item))
        return items[0] if len(items) == 1 else ("cat", *items)

    def repeated(self, item: Node) -> Node:
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
        self.eats("?")  # lazy: the same names match
        if self.peek() and self.peek() in "*+?":
            self.at = start
            self.fail("a repetition of a repetition")
        if item in (EMPTY, BEGIN, END):
            return item
        return ("repeat", item, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """{n}, {n,} or {n,m}; anything else in braces stands for itself, as in RE2."""
        if self.peek() != "{":
            return None
        stop = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(stop, self.at + 1)].partition(",")
        if stop < 0 or not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            return None
        least = int(low[:5])
        most = least if not comma else int(high[:5]) if high else None
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < least):
            self.fail("a bad count of repetitions")
        self.at = stop + 1
        return least, most

    def item(self) -> Node | None:
        c = self.peek()
        if c in "*+?":
            self.fail("a repetition of nothing")
        self.at += 1
        match c:
            case "(":
                return self.group()
            case "[":
                return self.one(self.bracket())
            case ".":
                return ("one", ANY)
            case "^":
                return BEGIN
            case "$":
                return END
            case "\\":
                return self.escape()
        return self.one(_set(c))

    def one(self, mask: int) -> Node:
        return ("one", _any_case(mask) if self.any_case else mask)

    def group(self) -> Node | None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.fail(f"groups stand deeper than {DEPTH_MAX}")
        outside = self.any_case
        if self.eats("?"):
            if self.eats("P<") or (self.peek() == "<" and self.peek(1) not in ("=", "!") and self.eats("<")):
                if not self.until(">", "the name of a group").isidentifier():
                    self.fail("a group's name is made of letters, digits and _")
            elif not self.flags():
                self.depth -= 1
                return None
        inside = self.alternatives()
        if not self.eats(")"):
            self.fail("a ( without its )")
        self.any_case = outside
        self.depth -= 1
        return inside

    def flags(self) -> bool:
        """(?i: or (?i) behind the question mark: whether a group begins here. The second counts to the end of the group around it."""
        on = True
        while self.peek() and self.peek() not in ":)":
            c = self.peek()
            if c == "-" and on:
                on = False
            elif c == "i":
                self.any_case = on
            elif c not in "msU":  # lines and laziness: no name has several lines
                self.fail("this kind of group is not understood")
            self.at += 1
        if self.eats(")"):
            return False
        if not self.eats(":"):
            self.fail("a ( without its )")
        return True

    def escape(self) -> Node:
        c = self.peek()
        if c in ("A", "z"):
            self.at += 1
            return BEGIN if c == "A" else END
        return self.one(self.escaped())

    def escaped(self) -> int:
        """Behind a backslash, in brackets or outside."""
        c = self.peek()
        self.at += 1
        if not c:
            self.fail("a backslash at the end")
        if c in _CLASSES:
            return _CLASSES[c]
        if c in _CONTROL:
            return 0
        if c == "x":
            braced = self.eats("{")
            digits = self.until("}", "\\x{") if braced else self.text[self.at : self.at + 2]
            self.at += 0 if braced else 2
            if not digits or len(digits) > 6 or set(digits) - set(string.hexdigits) or (not braced and len(digits) < 2):
                self.fail("\\x wants two digits, or any in braces")
            return _set(chr(min(int(digits, 16), 0x10FFFF)))
        if c.isalnum():
            self.fail(f"\\{c} is not understood")
        return _set(c)

    def bracket(self) -> int:
        none_of = self.eats("^")
        mask, first = 0, True
        while first or self.peek() != "]":
            c = self.peek()
            if not c:
                self.fail("a [ without its ]")
            first = False
            if self.eats("[:"):
                name = self.until(":]", "[:")
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    self.fail(f"[:{name}:] is not known")
                mask |= ANY & ~known if name.startswith("^") else known
                continue
            low, single = self.bracketed()
            if self.peek() == "-" and self.peek(1) not in ("]", ""):
                self.at += 1
                _, also = self.bracketed()
                if single is None or also is None or single > also:
                    self.fail("a bad range")
                low = sum(bit for ch, bit in _BIT.items() if single <= ch <= also)
            mask |= low
        self.at += 1
        mask = _any_case(mask) if self.any_case else mask
        return ANY & ~mask if none_of else mask

    def bracketed(self) -> tuple[int, str | None]:
        """(characters, the character where it is a single one)."""
        c = self.peek()
        self.at += 1
        if c != "\\":
            return _set(c), c
        following = self.peek()
        mask = self.escaped()
        return mask, None if following in _CLASSES else following if not following.isalnum() else _single(mask)


def _single(mask: int) -> str | None:
    return next((c for c, bit in _BIT.items() if bit == mask), None)


def _any_case(mask: int) -> int:
    return mask | _set("".join(c.swapcase() for c, bit in _BIT.items() if mask & bit))
