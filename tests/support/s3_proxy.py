"""A proxy in front of an S3 server, which counts, delays, holds and fails requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import unquote, urlsplit

from cluster import HOST

# What happens to a request: it is forwarded (None), answered with this status instead, or forwarded without an answer.
Fate = int | str | None
LOST = "lost"
Rule = Callable[[str], Fate]

_CODES = {403: "AccessDenied", 503: "SlowDown"}


class S3Proxy(ThreadingHTTPServer):
    """A running proxy.

    Args:
        upstream: the port of the S3 server.
    """

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, upstream: int) -> None:
        super().__init__((HOST, 0), _Handler)
        self.upstream = upstream
        self.latency = 0.0
        """Seconds that each request takes longer."""
        self.seen: list[str] = []
        """The requests since the last `with_rule`, such as `COPY bucket/key`."""
        self._rule: Rule = _forwards
        self._lock = Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextmanager
    def with_rule(self, rule: Rule | None = None) -> Iterator[list[str]]:
        """Let a rule decide about each request inside the block, and collect the requests."""
        self.seen, self._rule = [], rule or _forwards
        try:
            yield self.seen
        finally:
            self._rule = _forwards

    def fate(self, request: str) -> Fate:
        with self._lock:
            self.seen.append(request)
            rule = self._rule
        time.sleep(self.latency)
        return rule(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore that a client has closed its connection."""


def _forwards(_: str) -> Fate:
    return None


def described(method: str, target: str, headers: object) -> str:
    """Return the kind of a request, and the key of its object."""
    url = urlsplit(target)
    kind = method
    if method == "PUT" and "x-amz-copy-source" in headers:  # type: ignore[operator]
        kind = "COPY"
    elif method == "GET" and "list-type" in url.query:
        kind = "LIST"
    elif method == "POST":
        kind = "BULK-DELETE" if re.match("delete(&|=|$)", url.query) else "MULTIPART"
    key = f"{url.path.strip('/')}?{url.query}" if kind == "LIST" else url.path.strip("/")
    return f"{kind} {unquote(key)}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Proxy
    _upstream: HTTPConnection | None = None

    def handle_one_request(self) -> None:
        """Forward the next request of a connection."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self._body()
        fate = self.server.fate(described(self.command, self.path, self.headers))
        if isinstance(fate, int):
            error = f"<Error><Code>{_CODES[fate]}</Code><Message>The proxy refuses this.</Message></Error>".encode()
            self._answer(fate, "Refused", [("Content-Type", "application/xml")], error)
            return
        if self._upstream is None:
            self._upstream = HTTPConnection(HOST, self.server.upstream)
        self._upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                self._upstream.putheader(name, value)
        self._upstream.endheaders(body)
        found = self._upstream.getresponse()
        content = found.read()
        if fate == LOST:
            self.close_connection = True
        else:
            self._answer(found.status, found.reason, found.getheaders(), content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        raise NotImplementedError("a request in chunks of HTTP")

    def _answer(self, status: int, reason: str, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status, reason)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        # The length in the answer to HEAD is that of the object.
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        if status not in (204, 304):
            self.send_header("Content-Length", lengths[0] if self.command == "HEAD" and lengths else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    def finish(self) -> None:
        """Close both connections."""
        super().finish()
        if self._upstream:
            self._upstream.close()


@contextmanager
def s3_proxy(upstream: int) -> Iterator[S3Proxy]:
    """Start a proxy for the server at a port of the loopback address, and stop it at the end."""
    with S3Proxy(upstream) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
