"""Types of the API reference as links."""

from __future__ import annotations

from console.templatetags.api_reference import anchor, described, linked_type
from controlplane.api.reference import ReferenceOperation, ReferenceResponse


def test_named_types_are_links_and_other_text_is_escaped() -> None:
    assert linked_type(ReferenceResponse("200", "", "list of A<B", ())) == "list of A&lt;B"
    row = ReferenceResponse("200", "", "list of Broker or Move", ("Broker", "Move"))
    assert linked_type(row) == ('list of <a href="#type-Broker">Broker</a> or <a href="#type-Move">Move</a>')
    part = ReferenceResponse("200", "", "list of BrokerConfigs", ("Broker", "BrokerConfigs"))
    assert linked_type(part) == 'list of <a href="#type-BrokerConfigs">BrokerConfigs</a>', "whole names only"


def test_code_in_a_description_is_marked_up() -> None:
    assert described("Compare `a<b`; `c`.") == "Compare <code>a&lt;b</code>; <code>c</code>."
    assert described("") == ""


def test_an_operation_has_an_anchor() -> None:
    assert anchor(ReferenceOperation("x_list", "x", "GET", "/x", "", (), "", (), ())) == "operation-x_list"
