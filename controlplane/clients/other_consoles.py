"""The overview of another Weir console, by its REST API.

Invariants: one request, within a time limit and a size limit, to the address of the settings only: a redirect is not followed, because it would get the
token. Does not contain: how often requests are sent (`controlplane.monitoring.other_clusters`).
"""

from __future__ import annotations

import json
import time
from http import HTTPStatus

import requests

from controlplane.domain.other_cluster import ClusterMetrics, ClusterProblem, OtherConsole, metrics_of

TIMEOUT_SECONDS = 3.0
"""Time limit for one console: connection and response together. A console answers its overview within 0.1 s."""
RESPONSE_BYTES_MAX = 256 * 1024
"""Maximum size of a response. An overview has about 2 kB."""
PATH = "/api/v1/overview"


class ConsoleUnreadable(Exception):
    """`problem`: why there are no values. The text is a detail in English."""

    def __init__(self, problem: ClusterProblem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


def read_metrics(console: OtherConsole) -> ClusterMetrics:
    """Read the overview of another console over REST. Raises ConsoleUnreadable."""
    began = time.monotonic()
    headers = {"Authorization": f"Token {console.token}", "Accept": "application/json"}
    try:
        with requests.Session() as session:
            session.trust_env = False  # a .netrc of the machine would replace the token
            response = session.get(
                f"{console.url}{PATH}",
                headers=headers,
                timeout=TIMEOUT_SECONDS,
                verify=console.ca_file or True,
                allow_redirects=False,
                stream=True,
            )
            with response:
                if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise ConsoleUnreadable(ClusterProblem.NOT_PERMITTED, f"HTTP status {response.status_code}")
                if response.status_code != HTTPStatus.OK:
                    raise ConsoleUnreadable(ClusterProblem.HTTP_STATUS, f"HTTP status {response.status_code}")
                return metrics_of(json.loads(_body(response, began)))
    except requests.exceptions.SSLError as error:
        raise ConsoleUnreadable(ClusterProblem.CERTIFICATE, str(error)[:200]) from error
    except requests.Timeout as error:
        raise ConsoleUnreadable(ClusterProblem.TIMEOUT, f"no response within {TIMEOUT_SECONDS:.0f} s") from error
    except (requests.RequestException, OSError) as error:
        raise ConsoleUnreadable(ClusterProblem.NO_CONNECTION, str(error)[:200]) from error
    except ValueError as error:
        raise ConsoleUnreadable(ClusterProblem.BAD_RESPONSE, str(error)[:200]) from error


def _body(response: requests.Response, began: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_content(16 * 1024):
        body += chunk
        if len(body) > RESPONSE_BYTES_MAX:
            raise ConsoleUnreadable(
                ClusterProblem.BAD_RESPONSE, f"the response has more than {RESPONSE_BYTES_MAX:,} bytes"
            )
        if time.monotonic() - began > TIMEOUT_SECONDS:
            raise ConsoleUnreadable(ClusterProblem.TIMEOUT, f"no complete response within {TIMEOUT_SECONDS:.0f} s")
    return bytes(body)
