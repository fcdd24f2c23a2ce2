"""Scenarios that nobody thought of, drawn by a seed."""

from __future__ import annotations

import random
from typing import Any

from tests.systems.zaqar.scenarios import claim, do, look, post

_QUEUES = ("a", "b", "c.d")


def drawn(seed: int, steps: int = 40) -> dict[str, Any]:
    """A scenario; equal seeds give equal ones."""
    draw = random.Random(seed)
    queues = {name: _metadata(draw) for name in _QUEUES if draw.random() < 0.9}
    done: list[dict[str, Any]] = []
    messages: list[str] = []
    claims: list[tuple[str, str]] = []
    for number in range(steps):
        queue = draw.choice(_QUEUES)
        kind = draw.choices(list(_KINDS), list(_KINDS.values()))[0]
        if kind == "post":
            new = [f"m{number}.{nth}" for nth in range(draw.randint(1, 3))]
            messages += new
            done.append(post(queue, *new, ttl=draw.choice([60, 100, 600])))
        elif kind == "claim":
            claims.append((queue, f"c{number}"))
            terms = {"ttl": draw.choice([60, 90, 300]), "grace": draw.choice([60, 200]), "limit": draw.randint(1, 4)}
            done.append(claim(*claims[-1], **terms))
        elif kind in ("release", "get_claim", "renew") and claims:
            terms = {"ttl": draw.choice([60, 150]), "grace": 60} if kind == "renew" else {}
            where, id = _one_of(draw, claims)
            done.append(do(kind, _mostly(draw, where), claim=id, **terms))
        elif kind == "delete" and messages:
            by = {"claim": _one_of(draw, claims)[1]} if claims and draw.random() < 0.7 else {}
            done.append(do("delete", queue, message=draw.choice(messages[-6:]), **by))
        elif kind == "get" and messages:
            done.append(do("get", queue, message=draw.choice(messages)))
        elif kind == "pop":
            done.append(do("pop", queue, limit=draw.randint(1, 3)))
        elif kind == "configure":
            done.append(do("configure", queue, metadata=_metadata(draw)))
        elif kind in ("list", "stats", "remove"):
            done.append(do(kind, queue))
        elif kind == "end_claims":
            done.append(do("end_claims"))
    return {"queues": queues, "steps": [*done, *look(*messages)]}


def _one_of(draw: random.Random, claims: list[tuple[str, str]]) -> tuple[str, str]:
    """A claim, mostly one that may still be there."""
    return draw.choice(claims if draw.random() < 0.2 else claims[-3:])


def _mostly(draw: random.Random, queue: str) -> str:
    return queue if draw.random() < 0.9 else draw.choice(_QUEUES)


_KINDS = {
    "post": 10,
    "claim": 12,
    "release": 7,
    "get_claim": 3,
    "renew": 4,
    "delete": 4,
    "get": 1,
    "pop": 2,
    "configure": 2,
    "list": 2,
    "stats": 2,
    "remove": 0.3,
    "end_claims": 2,
}


def _metadata(draw: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.random() < 0.8:
        found["_max_claim_count"] = draw.choice([0, 1, 1, 2, 2, 3, True])
    if draw.random() < 0.9:
        found["_dead_letter_queue"] = draw.choice([*_QUEUES, "ghost"])
    if draw.random() < 0.3:
        found["_dead_letter_queue_messages_ttl"] = draw.choice([60, 70, 500])
    return found
