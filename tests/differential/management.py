"""The management API, as far as scripts need it."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

TIMEOUT_S = 120  # a busy server takes its time to delete a virtual host


class RefusedError(Exception):
    """The management API answered with an error: HTTP status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.reason = status, reason


class Management:
    """The management API at ``url``, with the user of ``amqp_url``."""

    def __init__(self, url: str, amqp_url: str) -> None:
        parts = urlsplit(amqp_url)
        self.user = unquote(parts.username or "guest")
        login = f"{self.user}:{unquote(parts.password or 'guest')}"
        self._url = url.rstrip("/")
        self._headers = {
            "authorization": "Basic " + base64.b64encode(login.encode()).decode(),
            "content-type": "application/json",
        }

    def call(self, method: str, *path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """The content of the answer to ``method`` at ``/api/`` and ``path``; raises ``RefusedError``."""
        return self.answer(method, *path, body=body, query=query)[1]

    def answer(
        self, method: str, *path: str, body: Any = None, query: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and content of an answer; raises ``RefusedError``."""
        url = "/".join([self._url, "api", *(quote(part, safe="") for part in path)])
        url += f"?{urlencode(query)}" if query else ""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, _reason(error.read())) from None
        return status, json.loads(content) if content else None

    def delete(self, *path: str) -> None:
        """Delete something if it is there."""
        with contextlib.suppress(RefusedError):
            self.call("DELETE", *path)

    def make_vhost(self, vhost: str) -> None:
        """Create a virtual host that the user may do everything in."""
        self.call("PUT", "vhosts", vhost, body={})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.call("PUT", "permissions", vhost, self.user, body=everything)


def _reason(content: bytes) -> str:
    """The reason in an error's body, which releases until 4.0 escape for HTML."""
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")
    return html.unescape(reason if isinstance(reason, str) else json.dumps(reason))
