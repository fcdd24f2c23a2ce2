"""Runs calls against a management API and reduces the answers to what all servers are to have in common."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from tests.management.calls import Call
from tests.management.client import Answer, Caller

_STATISTICS_SECONDS = 20.0
# Values that differ from server to server, or from run to run.
_VOLATILE = frozenset({"password_hash", "user_who_performed_action", "garbage_collection", "message_stats"})

# An Erlang error with the stack that led to it.
_CRASH = re.compile(r"\{(\w+),\s*\[\{rabbit_\w+,[\w'/-]+,")


class Session:
    """A virtual host of its own on a server, in which scenarios run one after the other; each finds it empty."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller
        self._vhost, self._user = f"dlx-api-{uuid.uuid4().hex[:12]}", f"dlx-user-{uuid.uuid4().hex[:12]}"
        node = caller("GET", "/api/overview").json["node"]
        self._shorten = _shortener({self._vhost: "{v}", self._user: "{u}", node: "{node}"})

    def __enter__(self) -> Session:
        self._call("PUT", f"/api/vhosts/{self._vhost}", {})
        self._clear_metadata()
        # A server that has just started knows nothing of its node yet.
        _until(lambda nodes: "mem_alarm" in nodes.json[0], lambda: self._call("GET", "/api/nodes"))
        return self

    def __exit__(self, *exception: object) -> None:
        for path in (f"/api/vhosts/{self._vhost}", f"/api/users/{self._user}"):
            self._call("DELETE", path)

    def run(self, calls: list[Call], *, settle: bool) -> list[Any]:
        """The reduced answers to the calls. ``settle``: wait for statistics."""
        named = (_named(call, self._vhost, self._user) for call in calls)
        try:
            return [_answered(call, self._call, self._shorten, settle=settle) for call in named]
        finally:
            self._empty()

    def _empty(self) -> None:
        """Delete what a scenario left behind, but for the virtual host."""
        call, vhost = self._call, self._vhost
        for kind in ("queues", "exchanges", "policies", "operator-policies"):
            for item in call("GET", f"/api/{kind}/{vhost}?columns=name").json:
                if kind != "exchanges" or (item["name"] and not item["name"].startswith("amq.")):
                    call("DELETE", f"/api/{kind}/{vhost}/{quote(item['name'], safe='')}")
        call("DELETE", f"/api/users/{self._user}")
        call("DELETE", f"/api/parameters/vhost-limits/{vhost}/limits")
        self._clear_metadata()
        # Traces and publishes have connections of their own; a busy server still lists them when they are closed.
        for kind in ("connections", "channels"):
            _until(lambda listed: listed.json == [], lambda kind=kind: call("GET", f"/api/vhosts/{vhost}/{kind}"))

    def _clear_metadata(self) -> None:
        """Put the virtual host once more, also before the first scenario: 3.11 to 3.13 show that it was."""
        self._call("PUT", f"/api/vhosts/{self._vhost}", {"description": "", "tags": "", "tracing": False})


def _until(right: Callable[[Answer], bool], ask: Callable[[], Answer]) -> Answer:
    """The answer once it is right, or the last one when statistics should long have come."""
    deadline = time.monotonic() + _STATISTICS_SECONDS
    while not right(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def run(calls: list[Call], caller: Caller, *, settle: bool = False) -> list[Any]:
    """The reduced answers to the calls, in a virtual host for them alone. ``settle``: wait for statistics."""
    with Session(caller) as session:
        return session.run(calls, settle=settle)


def _named(call: Call, vhost: str, user: str) -> Call:
    """The call with real names for the placeholders."""

    def named(text: str) -> str:
        return text.replace("{v}", vhost).replace("{u}", user)

    path = named(call.path).replace("ü", "%C3%BC").replace("ï", "%C3%AF")
    body = json.loads(named(json.dumps(call.body)))
    auth = None if call.auth is None else named(call.auth)
    return replace(call, path=path, body=body, auth=auth)


def _shortener(names: dict[str, str]) -> Callable[[str], str]:
    def shorten(text: str) -> str:
        for name, placeholder in names.items():
            text = text.replace(name, placeholder)
        return text

    return shorten


def _answered(call: Call, caller: Caller, shorten: Callable[[str], str], *, settle: bool) -> Any:
    def ask() -> Answer:
        headers = {} if call.body is None else {"content-type": call.content_type}
        return caller(call.method, call.path, call.body, auth=call.auth, headers=headers)

    return _reduced(call, _until(_has_policy, ask) if call.settled and settle else ask(), shorten)


def _has_policy(answer: Answer) -> bool:
    return isinstance(answer.value, dict) and answer.value.get("policy") is not None


def _reduced(call: Call, answer: Answer, shorten: Callable[[str], str]) -> Any:
    """Status, Location or Allow where they matter, and the body."""
    reduced: list[Any] = [answer.status]
    if answer.status in (201, 301) and "location" in answer.headers:
        reduced.append({"location": shorten(answer.headers["location"])})
    if answer.status == 405 or call.method == "OPTIONS":
        reduced.append({"allow": answer.headers["allow"]})
    value = answer.value if call.method != "HEAD" else None
    if value is not None:
        value = json.loads(shorten(json.dumps(_readable(value), ensure_ascii=False)))
        value = _stable(
            _kept(_without_stack(value), call.keys), _VOLATILE - {"password_hash"} if call.hashes else _VOLATILE
        )
        reduced.append(_sorted(value) if call.unordered else value)
    return reduced


def _readable(value: Any) -> Any:
    """The value with Erlang's strings, which are lists of characters, as strings."""
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > 3 and all(type(item) is int and (item >= 32 or item == 10) for item in value):
        return "".join(map(chr, value))
    return [_readable(item) for item in value]


def _without_stack(value: Any) -> Any:
    """The value without the stack that RabbitMQ shows of a crash."""
    reason = str(value.get("reason")) if isinstance(value, dict) else ""
    if reason.startswith("Request to node "):
        return value | {"reason": reason.partition(" failed with ")[0]}
    return value | {"reason": crash[1]} if (crash := _CRASH.match(reason)) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    return sorted(value, key=json.dumps) if isinstance(value, list) else value


def _kept(value: Any, keys: tuple[str, ...] | None) -> Any:
    if keys is None:
        return value
    if isinstance(value, list):
        return [_kept(item, keys) for item in value]
    if not isinstance(value, dict) or "error" in value:
        return value
    return {key: item for key, item in value.items() if key in keys}


def _stable(value: Any, volatile: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_stable(item, volatile) for item in value]
    if isinstance(value, dict):
        return {key: _stable(item, volatile) for key, item in value.items() if key not in volatile}
    return value
