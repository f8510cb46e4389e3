from __future__ import annotations
from typing import Any
import re
def test_probe(db: None, operator: Any) -> None:
    from tests.unit.console.seed import seed
    from tests.browser.served import moves_in_every_state
    seed(extra_topics=60); moves_in_every_state()
    for t, p, r in (("flights",0,"1,2,4"),("payments.audit",0,"1,2,4"),("payments.audit",1,"2,3,1"),("orders",0,"1,2,4"),("flights",3,"1,2,3")):
        page = operator.get(f"/moves/new/?kind=partitions&topic={t}&step=review&p={p}&r{p}={r}").content.decode()
        notes = re.findall(r'class="note red"[^>]*>(.*?)</div>', page, re.S)
        b = re.search(r'<button type="submit" class="primary" name="act" value="start"[^>]*>', page)
        print(t, p, r, b and b[0][-40:], [re.sub(r"\s+"," ",re.sub("<[^>]+>","",n))[:150] for n in notes])
