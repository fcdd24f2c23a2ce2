"""Calls a RabbitMQ's management API. No error names a password."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from simulator.capture.access import credentials, tls_context, why_no_tls

_TIMEOUT_S = 30
_HINTS = {
    "http": "if the port has TLS, write https://{}",
    "https": "the server may want a client certificate: --tls-cert, DLX_TLS_CERT",
}
_AMQP_PORT = "it is a port of AMQP; the management API is usually at 15672, or at 15671 with TLS"
_PORTS = {"http": ":15672", "https": ""}  # with TLS it is often behind a proxy, at the usual port
REFUSED = (401, 403)
"""The HTTP statuses by which the API says that a user may not do this."""
_NEEDS = (
    "it needs the right password, one of the tags management, policymaker, monitoring and administrator,"
    " and permissions in the virtual host"
)


class ManagementError(Exception):
    """The management API refused a call. ``status`` is the HTTP status, ``reason`` the server's text."""

    def __init__(self, call: str, status: int, reason: str) -> None:
        super().__init__(f"{call}: {status} {reason}")
        self.status = status
        self.reason = reason


def is_refusal(error: ManagementError) -> bool:
    """Return whether the API refused the user, and not the call."""
    return error.status in REFUSED


def describe_refusal(error: ManagementError, url: str) -> str:
    """Say whom the API at the URL refused, why, and what a user needs who only looks."""
    return f"the server refuses the user {credentials(url)[0]!r}: {error.reason}; {_NEEDS}"


def server_of(url: str) -> str:
    """Return where the API is, such as ``http://localhost:15672``: without user, password and the path ``/api``.

    Raises ``ValueError`` for a port that is not a number.
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    port = _PORTS.get(parts.scheme, "") if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/').removesuffix('/api')}"


def fetched(
    url: str, path: str, *, method: str = "GET", body: object = None, login: tuple[str, str] | None = None
) -> bytes:
    """Call the API (``path`` such as ``vhosts/x``) and return the bytes of its answer.

    Args:
        url: where the API is, such as ``http://USER:PASSWORD@localhost:15672/``.
        path: what is asked for, below ``/api/``.
        method, body: as in HTTP; the body is sent as JSON.
        login: user and password; those of the URL where it is left out.

    Raises ``ManagementError`` when the API refuses, ``OSError`` when it does not answer.
    """
    request = urllib.request.Request(
        f"{server_of(url)}/api/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={**authorization(*(login or credentials(url))), "Content-Type": "application/json"},
    )
    try:
        return opened(request, url)
    except urllib.error.HTTPError as error:
        with error:
            raise ManagementError(f"{method} /api/{path}", error.code, _reason(error.read())) from error


def opened(request: urllib.request.Request, url: str) -> bytes:
    """Return the answer to a request; ``url`` has the certificates.

    Raises ``HTTPError`` when the server refuses, and another ``OSError`` when it does not answer by HTTP or TLS.
    """
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=tls_context(url)) as response:
            return bytes(response.read())
    except (http.client.HTTPException, ConnectionResetError) as error:
        said = _printable(error)
        hint = _AMQP_PORT if said.startswith("AMQP") else f"{said}; {_HINTS[request.type].format(request.host)}"
        raise ConnectionError(f"no HTTP: {hint}") from error
    except (urllib.error.URLError, ssl.SSLError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLError):
            raise ConnectionError(f"no TLS: {why_no_tls(cause)}") from error
        if isinstance(cause, ConnectionRefusedError):
            raise ConnectionRefusedError("nothing listens there") from error
        raise


def _printable(error: Exception) -> str:
    return "".join(each for each in str(error) if each.isprintable())


def call(url: str, path: str, *, method: str = "GET", body: object = None, login: tuple[str, str] | None = None) -> Any:
    """Do as ``fetched`` and return the JSON value of the answer, ``None`` if it is empty."""
    answer = fetched(url, path, method=method, body=body, login=login)
    return json.loads(answer) if answer else None


def _reason(text: bytes) -> str:
    try:
        answer = json.loads(text)
        return str(answer.get("reason", answer))
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()


# Says to an HTTP server who asks.


def authorization(user: str, password: str) -> dict[str, str]:
    """Return the header of a request by that user (Basic)."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
