"""Check that an exchange takes a binding.

Source: validate_binding of rabbit_exchange_type_headers.erl, rabbit_exchange_type_topic.erl,
rabbit_exchange_type_consistent_hash.erl and rabbit_exchange_type_local_random.erl; live servers.
"""

from __future__ import annotations

import re
from typing import Any

from dlx.amqp_errors import Refusal, explained
from dlx.consistent_hash import weight
from dlx.delays import routing_type
from dlx.erlang_printing import Atom, field_term, printed
from dlx.field_values import type_name
from dlx.jms_selectors import SELECTOR, is_selector, unknown_atom
from dlx.releases import Release
from dlx.server_plugins import CONSISTENT_HASH, JMS_TOPIC, LOCAL_RANDOM
from dlx.topology import CLASSIC, Arguments, Exchange, Queue

_SEQUENCE = re.compile(r"~t?([psb])")


class BindingRefusal(Refusal):
    """A binding that an exchange does not take. ``words`` holds ``~`` sequences for ``terms``, as Erlang has them."""

    def __init__(self, release: Release, words: str, *terms: Any) -> None:
        self.words = words
        self.terms = terms
        text, *rest = _SEQUENCE.split(words)
        for kind, after, term in zip(rest[::2], rest[1::2], terms, strict=True):
            text += (_printed(term, len(text), release) if kind == "p" else _shown(term)) + after
        super().__init__(406, text)


def _printed(term: Any, column: int, release: Release) -> str:
    if release.error_text_encoding == "bytes":
        return explained(" " * column, term, release)[column:]
    return printed(term, column)


def _shown(term: Any) -> str:
    return term.decode(errors="surrogateescape") if isinstance(term, bytes) else str(term)


def check_binding(
    exchange: Exchange,
    routing_key: str,
    arguments: Arguments,
    *,
    release: Release,
    vhost: str = "/",
    destination: Queue | Exchange | None = None,
) -> None:
    """Raise ``Refusal`` for a binding that the type of ``exchange`` does not take.

    Only x-local-random looks at the ``destination``, when it is given.
    """
    kind = routing_type(exchange)
    if kind == "headers":
        _check_headers(arguments, release)
    elif kind == "topic":
        _check_topic(routing_key, release)
    elif kind == CONSISTENT_HASH:
        _check_weight(routing_key, release)
    elif kind == LOCAL_RANDOM:
        _check_local_random(routing_key, destination, release)
    elif kind == JMS_TOPIC:
        _check_selector(arguments, release)


def crashes(exchange: Exchange, arguments: Arguments) -> bool:
    """Return whether a binding that the exchange takes ends its connection with 541."""
    return routing_type(exchange) == JMS_TOPIC and not is_selector(arguments.get(SELECTOR))


def _check_headers(arguments: Arguments, release: Release) -> None:
    if "x-match" not in arguments:
        return
    value = arguments["x-match"]
    term, kind = field_term(value), type_name(value)
    if kind != "longstr":
        raise BindingRefusal(release, "Invalid x-match field type ~tp (value ~tp); expected longstr", Atom(kind), term)
    known, expected = {"all", "any"}, "all or any"
    if release.headers_match_with_x:
        known, expected = known | {"all-with-x", "any-with-x"}, "all, any, all-with-x, or any-with-x"
    if value not in known:
        raise BindingRefusal(release, f"Invalid x-match field value ~tp; expected {expected}", term)


def _check_topic(routing_key: str, release: Release) -> None:
    most, found = release.topic_hash_wildcards_max, routing_key.split(".").count("#")
    if most is not None and found > most:
        words = "Topic binding key '~ts' uses ~b '#' wildcards, at most ~b are allowed"
        raise BindingRefusal(release, words, routing_key.encode(errors="surrogateescape"), found, most)


def _check_selector(arguments: Arguments, release: Release) -> None:
    selector = arguments.get(SELECTOR)
    if release.jms_selector_atoms_checked and isinstance(selector, str) and (atom := unknown_atom(selector)):
        reason = (Atom("unknown_atom"), list(atom.encode(errors="surrogateescape")))
        raise BindingRefusal(release, "invalid JMS selector: ~p", reason)


def _check_weight(routing_key: str, release: Release) -> None:
    asked = weight(routing_key)
    if asked is None:
        words = "The binding key must be an integer: ~tp"
        raise BindingRefusal(release, words, routing_key.encode(errors="surrogateescape"))
    if asked < 1:
        raise BindingRefusal(release, "The binding key must be greater than 0")


def _check_local_random(routing_key: str, destination: Queue | Exchange | None, release: Release) -> None:
    if routing_key:
        shown = routing_key.encode().decode("latin-1")  # a server does not decode it
        raise BindingRefusal(release, "Non empty binding '~s' key not permitted", shown)
    if isinstance(destination, Exchange):
        raise BindingRefusal(release, "Destination not found")
    if destination is not None and destination.type != CLASSIC:
        kind = Atom(f"rabbit_{destination.type}_queue")
        raise BindingRefusal(release, "Queue type ~ts not valid for this exchange type", kind)
