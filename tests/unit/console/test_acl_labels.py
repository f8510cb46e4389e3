"""Labels of the operations of ACLs: Kafka's word, with its meaning on pages in another language."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import translation

from console.acl_labels import MEANINGS, operation_text
from controlplane.domain.access import AclOperation


def test_each_operation_has_a_meaning_in_each_language() -> None:
    assert set(MEANINGS) == set(AclOperation)
    for operation in AclOperation:
        word = operation.replace("_", " ")
        assert operation_text(operation) == word
        with translation.override("zh-hans"):
            label = operation_text(operation)
            assert label.startswith(f"{word}（") and label.endswith("）") and len(label) > len(word) + 2


@pytest.mark.parametrize("address", ["/acls/new/", "/permissions/"])
def test_forms_have_labels_and_values_of_operations(operator: Client, address: str) -> None:
    chinese = operator.get(address, headers={"accept-language": "zh-hans"}).content.decode()
    assert "describe configs（" in chinese and 'value="describe_configs"' in chinese
    assert ">describe configs</option>" in operator.get(address).content.decode()
