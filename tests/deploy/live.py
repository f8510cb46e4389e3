"""Live updates of a console behind nginx, as a browser gets them: log in, load a page, subscribe, wait for a new value."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Callable

import httpx
from websockets.sync.client import connect
from websockets.typing import Origin

POSITION = re.compile(r'data-run="([^"]*)" data-seq="(-?\d+)"')
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def live_update_arrives(
    address: str, server_name: str, login: tuple[str, str], change: Callable[[], object], seconds: float = 60
) -> bool:
    """Whether a page of the console at this address gets a new value of the cluster within the time. `login`: user name and password. `change` changes a
    value of the cluster, after the page has subscribed."""
    origin = f"https://{server_name}"
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    headers = {"Host": server_name, "Origin": origin, "Referer": f"{origin}/login/"}
    with httpx.Client(base_url=f"https://{address}", headers=headers, verify=unverified, trust_env=False) as client:
        form = TOKEN.search(client.get("/login/", timeout=20).text)
        assert form is not None, "no login form"
        fields = {"username": login[0], "password": login[1], "csrfmiddlewaretoken": form[1]}
        response = client.post("/login/", data=fields, timeout=20)
        assert response.status_code == 302, f"the login was answered with {response.status_code}"
        position = POSITION.search(client.get("/", timeout=20).text)
        assert position is not None, "the overview has no position in the live updates"
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    tcp = socket.create_connection((address, 443), timeout=20)
    with connect(
        f"wss://{server_name}/ws/live",
        sock=tcp,
        ssl=unverified,
        origin=Origin(origin),
        additional_headers={"Cookie": cookie},
        open_timeout=20,
        proxy=None,
    ) as live:
        live.send(json.dumps({"run": position[1], "seq": int(position[2]), "language": "en", "subjects": ["cluster"]}))
        change()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                message = json.loads(live.recv(timeout=left))
            except TimeoutError:
                return False
            if message.get("cells"):
                return True
    return False
