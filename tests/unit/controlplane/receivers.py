"""Receivers of notifications on loopback: an HTTP server and an SMTP server, each in a thread of the test."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Post:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpReceiver:
    """`responses`: (status, body) of the next requests, the last one again and again. `headers`: of every response. `gate`: requests wait for it."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    responses: list[tuple[int, str]] = field(default_factory=lambda: [(200, "ok")])
    headers: dict[str, str] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)


@contextmanager
def http_receiver() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    receiver.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.posts.append(Post(self.path, dict(self.headers), body))
            receiver.gate.wait(30)
            status, text = receiver.responses.pop(0) if len(receiver.responses) > 1 else receiver.responses[0]
            try:
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())
            except OSError:
                pass  # the client has given up

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SmtpReceiver:
    """`mails`: (sender, recipients, text). `rejection`: the response to RCPT, empty = accepted."""

    port: int = 0
    mails: list[tuple[str, list[str], str]] = field(default_factory=list)
    rejection: str = ""


@contextmanager
def smtp_receiver() -> Iterator[SmtpReceiver]:
    """The commands of RFC 5321 that smtplib sends."""
    receiver = SmtpReceiver()

    class Handler(socketserver.StreamRequestHandler):
        def send_line(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.send_line("220 test")
            sender, recipients = "", list[str]()
            while line := self.rfile.readline().decode().strip():
                verb, _, rest = line.partition(" ")
                match verb.upper():
                    case "MAIL":
                        sender, recipients = rest.partition("<")[2].partition(">")[0], []
                        self.send_line("250 ok")
                    case "RCPT":
                        if not receiver.rejection:
                            recipients.append(rest.partition("<")[2].partition(">")[0])
                        self.send_line(receiver.rejection or "250 ok")
                    case "DATA":
                        self.send_line("354 go on")
                        lines = []
                        while (text := self.rfile.readline().decode()) != ".\r\n":
                            lines.append(text)
                        receiver.mails.append((sender, recipients, "".join(lines)))
                        self.send_line("250 queued")
                    case "QUIT":
                        self.send_line("221 bye")
                        return
                    case _:
                        self.send_line("250 ok")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
