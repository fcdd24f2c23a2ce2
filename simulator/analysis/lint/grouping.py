"""Tells which findings are equal up to the names of a topology, and how to call their objects together."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from simulator.analysis.findings import BASES, Finding, ObjectName, few
from simulator.analysis.names import words
from simulator.analysis.snapshot import Snapshot

_NAME = re.compile(r"'([^']*)'|(?<=on the way: )(\S+)|(?<=<- )(\S+)")
"""A name in a sentence: in quotes, or on the way of a cycle."""
_VALUE = re.compile(r"""(?x) "[^"]*" | (?<!') -?\b[0-9]+\b (?!')""")
"""A value in a refusal: a number, or what a server puts into double quotes."""
_REFUSED = "DLX025"
"""The rule about refusals, which are equal whatever value is refused."""
NAMED_MAX = 3


class Names:
    """The names in a topology: of virtual hosts, queues and exchanges, and the routing keys."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._known: set[str] = set()
        exchanges = {name for topology in snapshot.topologies.values() for name in topology.exchanges}
        for vhost, topology in snapshot.topologies.items():
            self._known |= {vhost, *topology.queues, *topology.exchanges}
            self._known.update(each.routing_key for bound in topology.bindings.values() for each in bound)
        for _, settings in snapshot.queues():
            for key in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY):
                if key in settings.values:
                    self._known.add(str(settings.values[key].value))
        named = (settings.dead_letter_exchange for _, settings in snapshot.queues())
        self._missing = {name for name in named if name is not None and name not in exchanges}

    def shape(self, finding: Finding) -> str:
        """Return a text that is the same for findings that differ only in names, and refusals in names and values.

        It has the rule, the texts and what the history takes, with a number for each name in the order in which they
        appear. A missing exchange keeps its name, unless that has a word of the object's. How a message is published is
        left out: equal queues may be reached by different exchanges.
        """
        numbers = {finding.about.name: 0}
        own = set(words(finding.about.name))

        def numbered(found: re.Match[str]) -> str:
            name = next(each for each in found.groups() if each is not None)
            is_key = found.string.endswith("key ", 0, found.start())  # lint makes up some
            known = is_key or name in numbers or name in self._known
            if name in ("", "#", "*") or (name in self._missing and own.isdisjoint(words(name))):
                return found[0]
            return f"'{numbers.setdefault(name, len(numbers))}'" if known else found[0]

        texts = (finding.message, finding.because, str(finding.fix), finding.needs)
        told = [_NAME.sub(numbered, each) for each in texts]
        if finding.code == _REFUSED:
            told = [_VALUE.sub("…", each) for each in told]
        whole = [finding.code, finding.severity, finding.about.kind, *told]
        return hashlib.sha256("\n".join(whole).encode(errors="surrogatepass")).hexdigest()[:16]


def groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings with those of one shape together, in the order of the first of each, the plainest first.

    Before the plainest comes the one that a recording shows best.
    """
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        found[each.shape].append(each)
    return [sorted(alike, key=lambda each: (BASES.index(each.basis), len(each.message))) for alike in found.values()]


def together(objects: Sequence[ObjectName]) -> str:
    """Return what several objects of one kind are called together: ``3 queues 'a-*.work'``."""
    if objects[0].kind == "vhost":
        return f"{len(objects):,} virtual hosts {pattern(each.name for each in objects)}"
    kinds = f"{objects[0].kind[:-1]}ies" if objects[0].kind.endswith("y") else f"{objects[0].kind}s"
    return f"{len(objects):,} {kinds} {pattern(each.name for each in objects)}{_where(objects)}"


def _where(objects: Sequence[ObjectName]) -> str:
    """Return in which virtual hosts objects are, where that is not the default one alone."""
    vhosts = {each.vhost for each in objects}
    if vhosts <= {"", "/"}:
        return ""
    return (
        f" in {len(vhosts):,} virtual hosts {pattern(vhosts)}"
        if len(vhosts) > 1
        else f" in virtual host {pattern(vhosts)}"
    )


def pattern(names: Iterable[str]) -> str:
    """Return one text for names: few of them as they are, many with ``*`` for what differs, or the first of them."""
    known = sorted(set(names))
    if len(known) == 1:
        return f"'{known[0]}'"
    first = _beginning(known)
    last = _beginning([each[len(first) :][::-1] for each in known])[::-1]
    if len(known) > NAMED_MAX and 2 * len(first + last) >= min(6, *map(len, known)):
        return f"'{first}*{last}'"
    return few([f"'{each}'" for each in known], NAMED_MAX)


def _beginning(texts: Sequence[str]) -> str:
    """Return what all the texts begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in columns)
