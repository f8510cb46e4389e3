"""Archaic and private words, and vague phrases, do not increase. The plain technical English of CONTRIBUTING.md replaces them; the bounds below only go down."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.cluster.local import ROOT
from tests.project import catalogs
from tests.project.test_structure import product_files

BOUNDS = {
    "anew": 3,
    "door": 2,
    "for want of": 1,
    "house": 3,
    "mend": 1,
    "mended": 0,
    "mends": 0,
    "seat": 3,
    "told": 6,
    "unheard": 0,
    "hearken": 0,
    "heretofore": 0,
    "thereof": 0,
    "whence": 0,
    "wherein": 0,
    "whoever": 2,
    "wishes": 1,
    "newcomer": 0,
    "survey": 0,
    "aforesaid": 0,
    "bury": 0,
    "deaf": 0,
    "doomed": 0,
    "forthwith": 0,
    "hence": 0,
    "henceforth": 0,
    "hitherto": 0,
    "in vain": 0,
    "lest": 0,
    "needless": 0,
    "shun": 0,
    "shunned": 0,
    "untaken": 0,
    "untold": 0,
    "withal": 0,
}
"""Occurrences per word in all tracked text. Lower a bound when occurrences go; never raise one. Better words:
anew -> again; door -> listener, view; house -> local cluster; seat -> incarnation, member; for want of -> without; mend -> fix, repair; told -> sent, reported, configured; unheard -> unacknowledged;
whoever -> the caller, any client; wishes -> proposals, requests; newcomer -> new member; survey -> inspection; deaf -> silent; doomed -> pending deletion; hence -> therefore; needless -> unnecessary; shun -> demote; untaken -> unapplied;
untold -> unreported.
"""

PHRASES = {
    r"what is more": 0,
    r"the rest of its cost": 0,
    r"the one of": 0,
    r"those of whom": 0,
    r"that which": 0,
    r"(?:is|are|was|were) come to": 1,
    r'"""(?:what|of) [a-z]': 0,
    r'"""(?:none|false|true): ': 1,
    r"\bgravest\b": 0,
    r"\bfor ever\b": 8,
    r"\bas good as\b": 2,
    r"\bcounts? for nothing\b": 3,
    r"\bproves? nothing\b": 4,
    r"\bpresent (?:state|offsets?|permissions|view|size|leader)\b": 15,
    r"\bwhose time has come\b": 3,
    r"\bon (?:its|their) way\b": 4,
    r"\btaken for\b": 9,
    r"\bthe ones before\b": 0,
    r"\bleads (?:the \w+ )?no (?:more|longer)\b": 0,
    r"\bdo what can be done\b": 0,
    r"\bnobody decided\b": 2,
    r"\bnothing is said\b": 1,
    r'"""(?:the |an? )?figures?\b': 0,
    r"\b(?:unknown|watched|recorded|history of) figures?\b": 0,
    r"\bsays nothing about\b": 4,
    r"\ba defect must not\b": 0,
}
"""Vague phrases per regular expression: a clause as subject, a pronoun without its noun. Name the thing: `The records that a deletion would delete`, not
`What a deletion would delete`. Lower a bound when occurrences go; never raise one."""

DOCUMENT_PHRASES = {
    r"\bfor ever\b": 0,
    r"\bon (?:its|their) way\b": 0,
    r"\b(?:not )?one time\b": 3,
    r"\bone more time\b": 1,
    r"\bagain and again\b": 1,
    r"\bbeside (?:much )?other work\b": 0,
    r"\bnothing else on\b": 0,
    r"\bgoes on with\b": 0,
    r"\b(?:comes? back|came back)\b": 0,
    r"\bcounts? for nothing\b": 1,
    r"\bcounted for nothing\b": 0,
    r"\btaken for\b": 0,
    r"\bas good as\b": 0,
    r"\bleft out\b": 0,
    r"\bleaves out\b": 0,
    r"\brow by row\b": 0,
    r"\bsigns? of life\b": 0,
    r"\bpresent (?:state|epoch|offsets?|permissions|view|size|leader|placement)\b": 0,
    r"\b(?:an?|no|with|has|have) (?:[a-z]+ ){1,2}of (?:its|their|our|your) own\b": 5,
    r"\bunder way\b": 0,
    r"\bfrom then on\b": 0,
    r"\bat present\b": 0,
    r"\bfor good\b": 1,
    r"\bsome \d": 0,
    r"\b(?:anybody|somebody)\b": 0,
    r"\bnobody\b": 2,
    r"\bby (?:itself|themselves)\b": 1,
    r"\bquiet machine\b": 0,
    r"\bdo(?:es)? no harm\b": 0,
    r"\ba moment (?:ago|before)\b": 0,
    r"\bas often as (?:it|they) likes?\b": 0,
    r"\bthe present (?:page|one|time|rates|config|leaders|use)\b": 0,
    r"\bmeanwhile\b": 2,
    r"\bat once\b": 0,
    r"\btwo times\b": 4,
    r"\b(?:by turns|in turn)\b": 0,
    r"\ball the time\b": 0,
    r"\bin a row\b": 2,
    r"\bbeside\b": 11,
    r"\bso that nothing\b": 0,
    r"\b(?:stands?|stood) still\b": 1,
    r"\bthe way back\b": 0,
    r"\b(?:is|are) back\b": 2,
    r"\bwhatever\b": 0,
    r"\bbut for\b": 0,
    r"\band the like\b": 0,
    r"\bat that moment\b": 0,
    r"\bby hand\b": 0,
    r"\bput back\b": 0,
    r"\bbegins? again\b": 0,
    r"\bturns? of the (?:event )?loop\b": 0,
    r"\b(?:an?|the|its|these|all|each|no|of|every) figures?\b": 0,
}
"""Phrases that the documents (`*.md`) do not use. Better: for ever -> forever; on their way -> in flight; one time -> once; again and again -> repeatedly;
beside other work -> while other processes used the machine; goes on with -> continues; comes back -> returns; counts for nothing -> does not count; taken for -> treated as; as good as -> equivalent to;
left out -> omitted; row by row -> for each row; sign of life -> response, heartbeat; present state -> current state; a thread of its own -> its own thread, a separate thread;
under way -> in progress; from then on -> after X; at present, the present -> current; for good -> permanently; some 500 -> about 500; nobody, anybody, somebody -> the noun (no controller,
every client, an operator); by itself, by hand -> automatically, manually; meanwhile -> during this time; at once -> immediately, at the same time; by turns, in turn -> alternating, one after the other;
all the time -> continuously; two in a row -> two consecutive; beside -> compared with, in addition to, next to; stands still -> is frozen, is suspended; the way back -> downgrade,
rollback; is back -> is available again; put back -> restored; begins again -> starts again; turn of the loop -> iteration of the event loop; quiet machine -> idle machine; does no harm -> has no effect; a moment ago -> shortly before; figure -> metric,
value."""

ANSWER_NOUN = (
    r"\b(?:the|an?|no|its|their|each|every|this|one|first|last|previous|next|oldest|of|for|with|without|in) answers?\b"
)
"""The noun `answer`. The word is `response` for what a server sends, and `result` for that of a query. The verb is not meant: `the broker answers a request`."""
ANSWERS_MAX = 3

PRODUCT_PHRASES = {
    r"\bmeanwhile\b": 2,
    r"\bagain and again\b": 1,
    r"\bin a row\b": 1,
    r"\bdo(?:es)? no harm\b": 0,
    r"\bfrom then on\b": 0,
    r"\bleft out\b": 0,
    r"\bfor good\b": 0,
    r"\bby hand\b": 0,
    r"\bat once\b": 1,
    r"\b(?:anybody|somebody)\b": 1,
    r"\bnobody\b": 4,
    r"\bwhatever\b": 1,
    r"\bbesides?\b": 1,
    r"\bis back\b": 0,
    r"\bso many\b": 2,
    r"\bsome \d": 1,
    ANSWER_NOUN: ANSWERS_MAX,
}
"""Phrases of the product's Python files, in addition to PHRASES. DOCUMENT_PHRASES has better ones; also: so many -> this number of; beside -> next to; meanwhile -> since then,
during this time; at once -> immediately, together. Lower a bound when occurrences go; never raise one."""

LISTS_OLD_WORDS = {"tests/project/test_words.py", "docs/decisions/050-redesign-row-by-row.md"}
"""Files that name the old words to say what replaces them."""


def tracked_text(*patterns: str) -> str:
    tracked = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    paths = [ROOT / name for name in tracked if "/vendor/" not in name and name not in LISTS_OLD_WORDS]
    return "\n".join(path.read_text() for path in paths if path.exists()).lower()


@pytest.fixture(scope="module")
def text() -> str:
    return tracked_text("*.py", "*.html", "*.md", "*.js")


@pytest.fixture(scope="module")
def documents() -> str:
    return tracked_text("*.md")


@pytest.fixture(scope="module")
def product() -> str:
    return "\n".join((ROOT / path).read_text() for path in product_files()).lower()


@pytest.mark.parametrize("phrase", PRODUCT_PHRASES)
def test_a_vague_phrase_is_not_added_to_the_product(phrase: str, product: str) -> None:
    found = re.findall(phrase, product)
    assert len(found) <= PRODUCT_PHRASES[phrase], (
        f"{phrase!r} occurs {len(found)} times, more than {PRODUCT_PHRASES[phrase]}: use the standard phrase"
    )


@pytest.mark.parametrize("word", BOUNDS)
def test_a_word_outside_plain_technical_english_is_not_added(word: str, text: str) -> None:
    count = len(re.findall(rf"\b{word}\b", text))
    assert count <= BOUNDS[word], f"'{word}' occurs {count} times, more than {BOUNDS[word]}: use a standard word"


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_vague_phrase_is_not_added(phrase: str, text: str) -> None:
    found = re.findall(phrase, text)
    assert len(found) <= PHRASES[phrase], (
        f"{phrase!r} occurs {len(found)} times, more than {PHRASES[phrase]}: name the thing"
    )


@pytest.mark.parametrize("phrase", DOCUMENT_PHRASES)
def test_a_vague_phrase_is_not_added_to_the_documents(phrase: str, documents: str) -> None:
    found = re.findall(phrase, documents)
    assert len(found) <= DOCUMENT_PHRASES[phrase], (
        f"{phrase!r} occurs {len(found)} times, more than {DOCUMENT_PHRASES[phrase]}: use the standard phrase"
    )


REFUSED = re.compile(r"(?<!connection )(?<!%\()\brefus(?:e|es|ed|al|als|ing)\b", re.I)


def test_a_text_of_the_console_says_rejected() -> None:
    """The server rejects a request, a login, a record, a document or a config. Only the operating system refuses: `Connection refused`."""
    assert REFUSED.search("The broker refused the record.") and not REFUSED.search("Connection refused")
    texts = [text.singular + text.plural for text in catalogs.translations(catalogs.read("zh_Hans", "django"))]
    assert texts and not [text for text in texts if REFUSED.search(text)]
