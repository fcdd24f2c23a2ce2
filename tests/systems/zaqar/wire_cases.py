"""Requests that show what Zaqar makes of the HTTP around its calls; each case begins with a project of its own."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from simulator.systems.zaqar import metadata
from tests.systems.zaqar.vectors import Names

Ask = Callable[[str, str, dict[str, str], bytes | None], tuple[int, dict[str, str], bytes]]
"""Sends a request: method, path, headers and body; gives status, headers by small names, and body."""

_CLIENT, _OTHER = str(uuid.uuid4()), str(uuid.uuid4())
_SET = re.compile(r"\{('[a-z]+'(?:, '[a-z]+')+)\}")
_AGE = re.compile(r'(?<="age": )[0-9]+')
_TOLD = ("allow", "content-type", "location", "vary")
_PATCH = {"Content-Type": metadata.PATCH_CONTENT_TYPE}


class Asked(msgspec.Struct, frozen=True):
    """A request; ``None`` takes a header away that it would have."""

    method: str
    path: str
    body: str | bytes | None = None
    headers: dict[str, str | None] = {}


def record(ask: Ask, case: list[Asked]) -> list[dict[str, Any]]:
    """Send the requests; the answers, with ids by the order in which they turn up."""
    project, names = f"p{uuid.uuid4().hex}", Names()
    return [names.replaced(_answer(ask, one, project)) for one in case]


def _answer(ask: Ask, asked: Asked, project: str) -> dict[str, Any]:
    standing = {"X-PROJECT-ID": project, "Client-ID": _CLIENT, "Content-Type": "application/json"}
    headers = {name: value for name, value in {**standing, **asked.headers}.items() if value is not None}
    body = asked.body.encode() if isinstance(asked.body, str) else asked.body
    status, found, content = ask(asked.method, asked.path, headers, body)
    text = _SET.sub(_in_order, _AGE.sub("0", content.decode().replace(project, "PROJECT")))
    return {
        "request": f"{asked.method} {asked.path}",
        "status": status,
        "headers": {name: found[name] for name in _TOLD if name in found},
        "document": _document(text),
    }


def _in_order(printed: re.Match[str]) -> str:
    """Return a printed set in the order of its texts: that in which Python prints it changes from start to start."""
    return f"{{{', '.join(sorted(printed[1].split(', ')))}}}"


def _document(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _posted(body: str, queue: str = "jobs") -> Asked:
    return Asked("POST", f"/v2/queues/{queue}/messages", f'{{"messages": [{{"ttl": 60, "body": {body}}}]}}')


def _patched(body: str, queue: str = "jobs") -> Asked:
    return Asked("PATCH", f"/v2/queues/{queue}", body, _PATCH)


def _added(value: str) -> str:
    return f'[{{"op": "add", "path": "/metadata/note", "value": {value}}}]'


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _listing(query: str) -> Asked:
    return Asked("GET", f"/v2/queues/jobs/messages?{query}", headers={"Client-ID": _OTHER})


_MADE = Asked("PUT", "/v2/queues/jobs")
_LONE = '"\\ud800"'
_NOBODY: dict[str, str | None] = {"X-PROJECT-ID": None, "Client-ID": None}
_LISTED = Asked("GET", "/v2/queues/jobs/messages?echo=true")
_THREE = Asked("POST", "/v2/queues/jobs/messages", '{"messages": [{"body": 1}, {"body": 2}, {"body": 3}]}')
_PATHS = (
    "/",
    "/v2/ping",
    "/v2/queues",
    "/v2/queues/jobs",
    "/v2/queues/jobs/stats",
    "/v2/queues/jobs/purge",
    "/v2/queues/jobs/messages",
    "/v2/queues/jobs/messages/x",
    "/v2/queues/jobs/claims",
    "/v2/queues/jobs/claims/x",
    "/v2/queues/jobs/share",
    "/v2/queues/jobs/subscriptions",
    "/v2/queues/jobs/subscriptions/x",
    "/v2/queues/jobs/subscriptions/x/confirm",
    "/v2/topics",
    "/v2/topics/news",
    "/v2/topics/news/stats",
    "/v2/topics/news/purge",
    "/v2/topics/news/messages",
    "/v2/topics/news/messages/x",
    "/v2/topics/news/subscriptions",
    "/v2/",
    "/v2/health",
    "/nowhere",
)

CASES: dict[str, list[Asked]] = {
    "a lone surrogate in a message": [
        _MADE,
        _posted(_LONE),
        _posted(f'{{{_LONE}: 1}}, "more": {_LONE}'),
        Asked("POST", "/v2/queues/jobs/messages", f'{{"messages": [{{"body": 1}}, {{"body": [{_LONE}]}}]}}'),
        _posted(_LONE, "new"),
        _LISTED,
        Asked("GET", "/v2/queues/jobs/stats"),
        Asked("GET", "/v2/queues"),
        _posted('"\\ud83d\\ude00"'),
        _posted(f'1, "unknown field": {_LONE}'),
        _LISTED,
        Asked("POST", "/v2/queues/jobs/messages", b'{"messages": [{"body": "\xed\xa0\x80"}]}'),
    ],
    "a lone surrogate in metadata": [
        Asked("PUT", "/v2/queues/other", f'{{"note": {_LONE}}}'),
        Asked("PUT", "/v2/queues/other", f"{{{_LONE}: 1}}"),
        Asked("PUT", "/v2/queues/other", f'{{"_dead_letter_queue": {_LONE}}}'),
        Asked("PUT", "/v2/queues/other", f'{{"_max_claim_count": {_LONE}}}'),
        Asked("GET", "/v2/queues"),
        _MADE,
        Asked("PUT", "/v2/queues/jobs", f'{{"note": {_LONE}}}'),
        _patched(_added(_LONE)),
        _patched('[{"op": "replace", "path": "/metadata/\\ud800", "value": 1}]'),
        _patched('[{"op": "\\ud800", "path": "/metadata/note", "value": 1}]'),
        Asked("GET", "/v2/queues?detailed=true"),
    ],
    "JSON of many levels": [
        _MADE,
        _posted(_nested(1500)),
        _posted(_nested(100_000)),
        Asked("PUT", "/v2/queues/other", f'{{"note": {_nested(1500)}}}'),
        Asked("GET", "/v2/queues"),
        _patched(_added(_nested(1500))),
        Asked("POST", "/v2/queues/jobs/claims", f'{{"ttl": 60, "note": {_nested(1500)}}}'),
        Asked("POST", "/v2/queues/jobs/purge", f'{{"note": {_nested(1500)}}}'),
        _posted(json.dumps("[" * 1500)),
        Asked("GET", "/v2/queues/jobs/stats"),
        _posted(_nested(800)),
    ],
    "a patch that is no list": [
        _MADE,
        *map(
            _patched, ["{}", '{"op": "add", "path": "/metadata/note", "value": 1}', '"x"', "1", "null", "[", "", "[]"]
        ),
        _patched("{}", "missing"),
        _patched("[]", "missing"),
        *[Asked("PATCH", "/v2/queues/jobs", "{}", {"Content-Type": kind}) for kind in ("application/json", None)],
        Asked("PATCH", "/v2/queues/jobs", "[]", {"Content-Type": metadata.PATCH_CONTENT_TYPE.upper()}),
        _patched("[]" + " " * 65_536),
        _patched('[{"op": "add", "path": "/metadata/ ", "value": 1}, {"op": "remove", "path": "/metadata/nothing"}]'),
    ],
    "a patch whose words have braces": [
        _MADE,
        *[_patched(f'[{{"op": {op}, "path": "/metadata/note", "value": 1}}]') for op in ('{"a": 1}', "[1]", '"{{}}"')],
        *[
            _patched(f'[{{"op": "add", "path": "{path}", "value": 1}}]')
            for path in ("note{", "{0}", "{}", "note{{", "/metadata/{x}", "/metadata/{x}/y", "/metadata/{{x}}/y")
        ],
        _patched('[{"op": "remove", "path": "/metadata/{y}"}]'),
    ],
    "retry policies": [
        *[
            Asked("PUT", "/v2/queues/jobs", f'{{"_retry_policy": {policy}}}')
            for policy in (
                *("1", '"x"', "[1]", "null", "[]", "{}", '{"unknown": 1}', '{"minimum_delay": "x"}'),
                *(
                    '{"minimum_delay": 1.5}',
                    '{"minimum_delay": null}',
                    '{"maximum_delay": ""}',
                    '{"minimum_delay": 20}',
                ),
                *('{"minimum_delay": 21}', '{"maximum_delay": 4}', '{"maximum_delay": 14}', '{"maximum_delay": 15}'),
                *('{"retries_with_no_delay": -1}', '{"maximum_delay_retries": []}', '{"minimum_delay_retries": [1]}'),
                *('{"retry_backoff_function": 1}', '{"retry_backoff_function": "x"}', '{"retry_backoff_function": 0}'),
                *('{"retry_backoff_function": "geometric"}', '{"ignore_subscription_override": 1}'),
                *('{"ignore_subscription_override": true}', '{"minimum_delay": true, "maximum_delay": 11}'),
                '{"minimum_delay": 30, "retry_backoff_function": 1}',
            )
        ],
        _patched('[{"op": "add", "path": "/metadata/_retry_policy", "value": 1}]'),
        _patched('[{"op": "add", "path": "/metadata/_retry_policy", "value": {"minimum_delay": null}}]'),
        _patched('[{"op": "add", "path": "/metadata/_retry_policy", "value": {"minimum_delay": 1}}]'),
    ],
    "what a purge is to take": [
        _MADE,
        *[
            Asked("POST", "/v2/queues/jobs/purge", body)
            for body in (
                *(
                    f'{{"resource_types": {kinds}}}'
                    for kinds in (
                        "null",
                        "1",
                        '"messages"',
                        '""',
                        "[]",
                        "[1]",
                        "[[1]]",
                        "[null]",
                        '{"messages": 1}',
                        '["x"]',
                    )
                ),
                *('["messages"]', '["resource_types"]', "{}"),
            )
        ],
    ],
    "the patch of python-zaqarclient": [
        _MADE,
        _patched(
            '[{"op": "add", "path": "/metadata/_max_claim_count", "value": 3},'
            ' {"op": "add", "path": "/metadata/note", "value": 1},'
            ' {"op": "remove", "path": "/metadata/_dead_letter_queue"},'
            ' {"op": "remove", "path": "/metadata/_max_claim_count"}]'
        ),
        Asked("GET", "/v2/queues/jobs"),
    ],
    "parameters that are repeated or empty": [
        _MADE,
        _THREE,
        *map(
            _listing, ("ids=,", "ids=,,&limit=1", "ids=a,,b", "ids=a&ids=b", "ids=a&ids=b,c", "ids=%2C", "ids=", "ids")
        ),
        *map(_listing, ("limit=,", "limit=1,2", "limit=1&limit=2", "limit=2&limit=x", "limit=x&limit=2", "limit=")),
        *map(_listing, ("limit=0&limit=1", "limit=1&limit=0", "limit=1;limit=2", "limit=%31", "limit=+1", "LIMIT=x")),
        *map(_listing, ("echo=,", "echo=true,false", "echo=no&echo=yes", "echo=TRUE", "marker=,", "marker=a,b")),
        *[
            Asked("GET", f"/v2/queues?{query}")
            for query in (
                "note=a&note=b",
                "note=a",
                "note=,",
                "note=a,",
                "note=1&limit=x",
                "note=a,b&limit=x",
                "a=1&b=2",
            )
        ],
        *[Asked("GET", f"/v2/queues?{query}") for query in ("limit=,", "detailed=no,yes", "name=a&name=b", "marker=,")],
        *[
            Asked("POST", f"/v2/queues/jobs/claims?{query}", '{"ttl": 60, "grace": 60}')
            for query in ("limit=,", "limit=1&limit=x", "limit=x&limit=1")
        ],
        *[
            Asked("DELETE", f"/v2/queues/jobs/messages?{query}")
            for query in (
                "ids=,",
                "ids=",
                "ids=,&pop=1",
                "pop=,",
                "pop=1&pop=x",
                "pop=x&pop=1",
                "pop=1&ids=",
                "ids=a&ids=b",
            )
        ],
        *[Asked("DELETE", f"/v2/queues/jobs/messages/x?claim_id={claim}") for claim in (",", "a,b", "a&claim_id=b")],
    ],
    "OPTIONS": [
        *[Asked("OPTIONS", path) for path in _PATHS],
        Asked("OPTIONS", "/v2/queues/jobs", headers=_NOBODY),
        Asked("OPTIONS", "/", headers=_NOBODY),
        Asked("OPTIONS", "/v2/queues/a%20b"),
        Asked("OPTIONS", "/v2/queues/jobs", headers={"Accept": "text/plain"}),
    ],
    "methods that a path does not have": [
        *[Asked(method, path) for path in _PATHS for method in ("TRACE", "HEAD")],
        *[
            Asked(method, "/v2/queues/jobs")
            for method in (
                "get",
                "put",
                "Put",
                "options",
                "BREW",
                "POST",
                "PROPFIND",
                "LOCK",
                "QUERY",
                "VERSION-CONTROL",
            )
        ],
        Asked("POST", "/v2/queues/jobs", headers=_NOBODY),
        Asked("BREW", "/v2/queues/jobs", headers=_NOBODY),
        Asked("POST", "/v2/queues/a%20b"),
        Asked("get", "/"),
        Asked("get", "/nowhere"),
    ],
    "versions": [
        Asked("GET", "/"),
        Asked("GET", "/", headers=_NOBODY),
        Asked("GET", "/?anything=1", headers={**_NOBODY, "X-PROJECT-ID": ""}),
        Asked("GET", "/", headers={"Accept": "text/plain"}),
        Asked("GET", "/v2"),
        Asked("GET", "/v2/", headers=_NOBODY),
        Asked("GET", "/v1/"),
        Asked("GET", "/v1.1/queues"),
    ],
    "names that are empty": [
        *[Asked(method, "/v2/queues/") for method in ("PUT", "GET", "DELETE", "POST")],
        _patched("[]", ""),
        Asked("PUT", "/v2/queues/", headers=_NOBODY),
        Asked("GET", "/v2/queues//messages"),
        Asked("PUT", "/v2/queues/jobs/"),
        _MADE,
        Asked("GET", "/v2/queues/jobs/messages/"),
        Asked("GET", "/v2/queues/missing/messages/"),
        Asked("POST", "/v2/queues/jobs/messages/", '{"messages": [{"body": 1}]}'),
        Asked("DELETE", "/v2/queues/jobs/messages/"),
        Asked("GET", "/v2/queues/jobs/claims/"),
        Asked("GET", "/v2/queues/jobs//messages"),
        Asked("GET", "/v2/queues/jobs/stats/"),
        Asked("GET", "/v2/ping/"),
        Asked("GET", "/v2/queues/%2F"),
        Asked("GET", "/v2/queues/jobs/messages/a%2Fb"),
        Asked("GET", "/v2/topics/a%20b"),
    ],
    "a target without a slash": [Asked(method, "nowhere") for method in ("GET", "DELETE", "HEAD")],
    "what a client accepts": [
        _MADE,
        *[
            Asked("GET", "/v2/queues", headers={"Accept": accept})
            for accept in (
                *("text/plain", "*/*", "application/*", "*", "*/json", "", "application/json; charset=utf-8"),
                *("application/json;q=0", "application/json;q=0.1, text/html", "text/html", "text/html, */*;q=0"),
                *("text/html, */*;q=0.5", "APPLICATION/JSON", "json", "application/json;q=x", "application/json;q=2"),
                *(", ,", "text/plain;application/json", "image/png, application/json;version=1"),
                "application/vnd.api+json",
            )
        ],
        Asked("GET", "/v2/queues/jobs/nowhere", headers={"Accept": "text/plain"}),
        Asked("POST", "/v2/queues/jobs", headers={"Accept": "text/plain"}),
        Asked("PUT", "/v2/queues/new", headers={"Accept": "text/plain"}),
        Asked("GET", "/v2/queues/new"),
        Asked("GET", "/v2/queues/jobs/messages?limit=x", headers={"Accept": "application/json, text/plain"}),
        Asked("GET", "/v2/queues", headers={"Accept": "text/plain", "X-PROJECT-ID": None}),
    ],
    "errors in XML": [
        _MADE,
        *[
            Asked("GET", path, headers={"Accept": accept})
            for accept in (
                *("application/xml", "text/xml", "application/vnd.x+xml", "application/xml, text/plain", "*/xml"),
                *(
                    "application/xml;q=0",
                    "text/xml, */*;q=0.1",
                    "APPLICATION/XML",
                    "a/b+XML",
                    "text/xml, application/xml",
                ),
                *("application/xml, text/xml", "application/xml, */*", "application/xml, application/json", "text/*"),
                *("text/*, application/*", "application/xml;version=1", "application/xml;q=2", "a/a+json, b/b+xml"),
                *("application/xml;q=0.5, application/json;q=0.1", "*/*;q=0.3, application/json;q=0.2"),
            )
            for path in ("/v2/queues", "/v2/queues/jobs/nowhere")
        ],
        *[
            Asked(method, "/v2/queues", headers={"Accept": "application/xml"})
            for method in ("HEAD", "DELETE", "OPTIONS")
        ],
        *[
            Asked("GET", f"/v2/queues/jobs/messages?{query}", headers={"Accept": "text/xml, */*;q=0.1"})
            for query in ("limit=x", "marker=%3C%26%22%3E", "limit=1%3C%26%3E")
        ],
        Asked("PUT", "/v2/queues/a%3Cb", headers={"Accept": "text/xml, */*;q=0.1"}),
        Asked("PUT", "/v2/queues/jobs", f'{{"note": {_LONE}}}', headers={"Accept": "text/xml, */*;q=0.1"}),
        Asked("POST", "/v2/queues/jobs/claims", "[", headers={"Accept": "text/xml, */*;q=0.1"}),
        Asked("GET", "/v2/queues/jobs/messages/x", headers={"Accept": "text/xml, */*;q=0.1"}),
        Asked("GET", "/v2/queues/missing", headers={"Accept": "text/xml, */*;q=0.1"}),
        Asked("GET", "/v2/queues", headers={"Accept": "text/xml, */*;q=0.1", "X-PROJECT-ID": ""}),
    ],
    "a target with several slashes": [
        _MADE,
        *[
            Asked("GET", target)
            for target in (
                *("//v2/queues", "//v2//queues", "//", "///v2/queues", "//v2", "//x:1/v2/queues", "/v2//queues"),
                *("//user@h/v2/queues", "//v2/queues/jobs", "//[/v2/queues", "http://h/v2/queues", "/v2/queues//"),
                *("//v2/queues?detailed=true", "//?x", "//v2/queues/jobs//messages"),
            )
        ],
        Asked("PUT", "//v2/queues/other"),
        Asked("GET", "//v2/queues"),
        Asked("OPTIONS", "//v2/queues"),
    ],
    "names of dots": [
        *[
            one
            for name in (".", "..", "...", "%2E", "%2e%2E", "a..", "x.y")
            for one in (
                Asked("PUT", f"/v2/queues/{name}"),
                _posted("1", name),
                Asked("POST", f"/v2/queues/{name}/claims", '{"ttl": 60, "grace": 60}'),
                Asked("GET", f"/v2/queues/{name}/messages?echo=true&include_claimed=true"),
            )
        ],
        *[
            Asked("GET", f"/v2/queues{query}")
            for query in (
                *("", "?limit=1", "?limit=1&marker=.", "?marker=-", "?marker=a%20b%2F%26", "?limit=2&with_count=true"),
                *("?marker=..&detailed=true", "?limit=1&name=%2E", "?limit=6", "?marker=%C3%A9"),
            )
        ],
        Asked("PUT", "/v2/queues/../queues/jobs"),
        Asked("GET", "/v2/queues/./jobs"),
    ],
}
