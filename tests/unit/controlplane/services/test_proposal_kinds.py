"""The stored form of a proposal: its texts keep their values, and a proposal of an earlier version is shown in English."""

from __future__ import annotations

from controlplane.services.proposal_kinds import ProposalText, with_phrases
from weir_common.phrases import TranslatableText, counted, sentence


def test_the_texts_of_a_stored_proposal_have_their_phrases() -> None:
    shown = ProposalText(
        sentence("Drain broker {broker}", broker=3),
        (counted(2, "{count} partition", "{count} partitions"), "a line of a user"),
        current_values=(sentence("{count} leaders", count=7),),
    )
    stored = {"title": str(shown.title), "lines": [], "facts": {"broker": 3}, "phrases": shown.phrases()}
    found = with_phrases(stored)
    assert found["title"] == "Drain broker 3" and found["title"].phrase.values == {"broker": "3"}
    assert found["lines"] == ["2 partitions", "a line of a user"]
    assert [isinstance(line, TranslatableText) for line in found["lines"]] == [True, False]
    assert found["current_values"] == ["7 leaders"] and found["facts"] == {"broker": 3} and "phrases" not in found


def test_a_proposal_of_an_earlier_version_has_english_texts() -> None:
    stored = {"title": "Drain broker 3", "lines": ["2 partitions"], "facts": {}}
    assert with_phrases(stored) == stored
