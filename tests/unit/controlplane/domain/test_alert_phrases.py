"""Texts that are parts of alerts."""

from __future__ import annotations

import re

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert_phrases import REJECTED, AlertPhrase, texts


def test_both_forms_of_a_text_have_the_same_placeholders() -> None:
    pairs = [(text, plural) for text, plural in texts() if plural]
    assert AlertPhrase.PARTITIONS in pairs and AlertPhrase.TASKS in pairs
    for text, plural in pairs:
        assert text != plural and re.findall(r"{\w+}", text) == re.findall(r"{\w+}", plural)


def test_every_text_is_listed_for_the_catalogues() -> None:
    listed = {text for text, _ in texts()}
    assert {AlertPhrase.OF, AlertPhrase.LAG[0], AlertPhrase.ACCURACY[0], *REJECTED.values()} <= listed
    assert RejectionReason.UNAUTHORIZED in REJECTED
