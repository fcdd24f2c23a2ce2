"""A running RabbitMQ server, reached by AMQP and by its management API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from simulator.capture import management_api
from simulator.capture.access import (
    AccessError,
    Secret,
    certificates_of,
    complete,
    credentials,
    hidden,
    logs_in_by_certificate,
    with_certificates,
)
from simulator.capture.management_api import ManagementError

__all__ = ["OWN_CONTAINER_ID", "ManagementError", "NoSuchServerError", "Server", "ask", "call", "hidden"]

__tracebackhide__ = True  # pytest shows the line of the test instead

MANAGEMENT_OFFSET = 10_000  # RabbitMQ's own habit: AMQP at 5672, management at 15672
OWN_CONTAINER_ID = "dlx-test"
"""Of the AMQP 1.0 client of a test itself: virtual time waits for no answer of it."""


class NoSuchServerError(Exception):
    """The server that was named does not answer."""


@dataclass(frozen=True)
class Server:
    """One running server. ``release`` is such as ``"4.3"``, ``version`` such as ``"4.3.6"``."""

    release: str
    version: str
    amqp_url: str = field(repr=False)  # with a password, which no report of a failed test shows
    management_url: str = field(repr=False)

    @property
    def user(self) -> str:
        """The user of the AMQP URL."""
        return credentials(self.amqp_url)[0]

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API (``path`` such as ``vhosts/x``); return its answer, ``None`` if it is empty.

        Raises ``ManagementError`` when it refuses, ``OSError`` when it does not answer.
        """
        return call(self.amqp_url, self.management_url, method, path, body)

    def vhost_url(self, vhost: str) -> str:
        """Return the AMQP URL of one of its virtual hosts, with user and password."""
        parts = urlsplit(self.amqp_url)
        user, password = (quote(each, safe="") for each in credentials(self.amqp_url))
        host = parts.netloc.rpartition("@")[2]
        query = f"?{parts.query}" if parts.query else ""
        return Secret(f"{parts.scheme}://{user}:{password}@{host}/{quote(vhost, safe='')}{query}")


def ask(urls: str, as_release: str | None = None) -> Server:
    """Return the server at ``AMQP_URL`` or ``AMQP_URL|MANAGEMENT_URL``, after asking for its version.

    One that is taken for ``as_release`` need not say a version, as it need not be RabbitMQ.

    Raises ``NoSuchServerError`` if no management API answers, or it refuses the user.
    """
    amqp_url, management_url = _completed(urls)
    try:
        overview = call(amqp_url, management_url, "GET", "overview")
        version = as_release or overview["rabbitmq_version"]
    except (OSError, ManagementError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, ManagementError) and error.status == 401:
            user = credentials(management_url if urlsplit(management_url).username else amqp_url)[0]
            raise NoSuchServerError(
                f"the management API at {hidden(management_url)} refuses the user {user!r}: {error.reason}; "
                "is the password right, and does the user have the tag 'management'?"
            ) from error
        scheme = urlsplit(management_url).scheme
        raise NoSuchServerError(
            f"no RabbitMQ management API answers at {hidden(management_url)} ({error}); "
            f"give it as '{hidden(amqp_url)}|{scheme}://...'"
        ) from error
    return Server(".".join(version.split(".")[:2]), version, amqp_url, management_url)


def _completed(urls: str) -> tuple[str, str]:
    """Return both URLs, the first with a login. Raises ``NoSuchServerError``."""
    amqp_url, _, management_url = urls.partition("|")
    try:
        amqp_url = complete(amqp_url)
        if logs_in_by_certificate(amqp_url):
            raise AccessError("tests give their user permissions: name it in the URL, beside the client certificate")
        management_url = management_url or _offset_api(amqp_url)
        if urlsplit(management_url).username:
            management_url = complete(management_url)
        return amqp_url, with_certificates(management_url, certificates_of(amqp_url))
    except AccessError as error:
        raise NoSuchServerError(f"{hidden(urls)}: {error}") from error


def _offset_api(amqp_url: str) -> str:
    parts = urlsplit(amqp_url)
    scheme, port = ("https", 5671) if parts.scheme == "amqps" else ("http", 5672)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{scheme}://{host}:{(parts.port or port) + MANAGEMENT_OFFSET}/"


def call(amqp_url: str, management_url: str, method: str, path: str, body: object = None) -> Any:
    """Call a management API as the user in its URL, or else in the AMQP URL.

    Raises ``ManagementError`` or ``OSError``.
    """
    login = credentials(management_url if urlsplit(management_url).username else amqp_url)
    try:
        return management_api.call(management_url, path, method=method, body=body, login=login)
    except ManagementError as error:  # it says what was called; where in the HTTP library is of no interest
        raise error.with_traceback(None) from None
