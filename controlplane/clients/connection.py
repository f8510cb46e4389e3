"""A blocking connection to one broker, with TLS and SASL from the client settings.

Kafka's admin clients hide replica details (DescribeLogDirs) and start threads, so this client uses `brokerd.wire`. Every call has a
deadline; without a response it raises NoResponse. Does not contain: requests (the other modules of this package).
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any

from brokerd.config.kafka_client import ClientSettingsError
from brokerd.security.certificates import CertificateError
from brokerd.security.sasl_client import SaslClientError
from brokerd.wire.apis import ApiKey
from brokerd.wire.framing import WireError, decode_response, encode_request
from brokerd.wire.schema import Struct
from controlplane.clients.settings import client_settings

CALL_SECONDS = 2.0
"""Deadline of one call. A broker that needs longer is reported as not responding."""

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
"""Limit of a response: 100,000 partitions take about 5 MB."""


class NoResponse(Exception):
    """The broker did not respond before the deadline. The outcome of the request is unknown."""


class Declined(Exception):
    """The response contains an error. The message contains the name of the error."""


class KafkaConnection:
    """One blocking connection to one broker, opened when needed and closed after an error. Not thread-safe."""

    def __init__(self, host: str, port: int, client_id: str = "weir-controlplane") -> None:
        self.host, self.port, self._client_id = host, port, client_id
        self._socket: socket.socket | ssl.SSLSocket | None = None
        self._ends: float | None = None
        """Time at which the broker requires re-authentication (monotonic seconds). A new connection is opened for it."""
        self._correlation = 0

    def call(self, api: ApiKey, version: int, body: Struct, timeout_s: float = CALL_SECONDS) -> Any:
        """The response body. Raises NoResponse."""
        deadline = time.monotonic() + timeout_s
        if self._ends is not None and deadline >= self._ends:
            self.close()
        try:
            if self._socket is None:
                self._open(deadline)
            self._correlation = (self._correlation + 1) & 0x7FFFFFFF
            request = encode_request(api, version, self._correlation, self._client_id, body)
            correlation, response = decode_response(api, version, memoryview(self._exchange(request, deadline)))
            if correlation != self._correlation:
                raise NoResponse(f"{self.host}:{self.port}: response with another correlation id")
            return response
        except NoResponse:
            self.close()
            raise
        except (SaslClientError, CertificateError, ClientSettingsError) as e:
            self.close()
            raise NoResponse(f"{self.host}:{self.port}: connection with WEIR_KAFKA_CONFIG failed: {e}") from e
        except (OSError, WireError) as e:
            self.close()
            reason = getattr(e, "strerror", None) or str(e) or type(e).__name__
            raise NoResponse(f"{self.host}:{self.port} does not respond: {reason}") from e

    def _open(self, deadline: float) -> None:
        """Connect, with TLS and SASL from the client settings."""
        client = client_settings()
        self._socket = socket.create_connection((self.host, self.port), timeout=max(0.01, deadline - time.monotonic()))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (context := client.context()) is not None:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            self._socket = context.wrap_socket(self._socket, server_hostname=self.host)
        if (sasl_exchange := client.sasl_exchange()) is not None:
            request: bytes | None = sasl_exchange.begin()
            while request is not None:
                request = sasl_exchange.on_frame(memoryview(self._exchange(request, deadline)))
            if sasl_exchange.lifetime_ms:
                self._ends = time.monotonic() + sasl_exchange.lifetime_ms / 1000

    def _exchange(self, request: bytes, deadline: float) -> bytearray:
        """Send one request frame and receive one response frame."""
        assert self._socket is not None
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        self._socket.sendall(request)
        (length,) = struct.unpack(">i", self._receive_exactly(4, deadline))
        if not 0 <= length <= RESPONSE_BYTES_MAX:
            raise NoResponse(f"{self.host}:{self.port}: invalid response length {length}; this is not a Kafka broker")
        return self._receive_exactly(length, deadline)

    def _receive_exactly(self, count: int, deadline: float) -> bytearray:
        assert self._socket is not None
        data = bytearray(count)
        view = memoryview(data)
        while view:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            got = self._socket.recv_into(view)
            if got == 0:
                raise ConnectionResetError("connection closed")
            view = view[got:]
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket, self._ends = None, None
