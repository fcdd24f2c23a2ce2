"""Records what Zaqar's MongoDB driver does in drawn histories, on a mock of the database.

    python -m venv v && v/bin/pip install zaqar==23.0.1 pymongo mongomock==4.3.0
    v/bin/python tests/systems/zaqar/record_mongodb.py > tests/systems/zaqar/mongodb_histories.json

The driver is Zaqar's own; the database and the clock are not. The mock is mended in two
places: it knows no index hints, and an update of many documents would make them share
what is set.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
import time
import types
import uuid
from typing import Any

import mongomock
import osprofiler.opts
import pymongo
from oslo_config import cfg
from oslo_log import log
from oslo_utils import timeutils
from zaqar.common import cache
from zaqar.conf import default
from zaqar.storage import errors
from zaqar.storage.mongodb import driver

QUEUES = "abc"
HISTORIES, STEPS = 40, 45
CONFIGURATION = """
[DEFAULT]
unreliable = True
[drivers:message_store:mongodb]
uri = mongodb://localhost:27017
database = zaqar
partitions = 1
[drivers:management_store:mongodb]
uri = mongodb://localhost:27017
database = zaqar_management
"""


class Mock(mongomock.MongoClient):
    """One that passes for a replica set."""

    is_mongos = False
    nodes = frozenset({("a", 1)})
    write_concern = types.SimpleNamespace(document={"w": 2})

    def server_info(self) -> dict[str, Any]:
        return {"version": "4.4.0", "versionArray": [4, 4, 0, 0]}


def update_many(collection: Any, wanted: Any, change: Any, upsert: bool = False, **rest: Any) -> Any:
    """As ``update_many``, with a change of its own for each document."""
    ids = [found["_id"] for found in collection.find(wanted)]
    for id in ids:
        collection.update_one({"_id": id}, copy.deepcopy(change))
    return types.SimpleNamespace(modified_count=len(ids))


def shown(message: dict[str, Any]) -> list[Any]:
    """What is compared of a message."""
    return [message["body"], message["ttl"], message["claim_count"]]


class Driver:
    """Zaqar's MongoDB driver on the mock, at a time of ours."""

    def __init__(self) -> None:
        self.now_s = int(time.time())
        self._database = Mock("localhost", tz_aware=False)
        pymongo.MongoClient = driver.pymongo.MongoClient = lambda *_, **__: self._database
        mongomock.collection.Cursor.hint = lambda cursor, *_, **__: cursor
        mongomock.Collection.update_many = update_many
        timeutils.utcnow_ts = lambda microsecond=False: self.now_s
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(CONFIGURATION)
            file.flush()
            conf = cfg.ConfigOpts()
            conf.register_opts(default.ALL_OPTS)
            osprofiler.opts.set_defaults(conf)
            log.register_options(conf)
            cache.register_config(conf)
            conf(["--config-file", file.name])
        control = driver.ControlDriver(conf, cache.get_cache(conf))
        data = driver.DataDriver(conf, cache.get_cache(conf), control)
        self._queues, self._messages, self._claims = (
            control.queue_controller,
            data.message_controller,
            data.claim_controller,
        )

    def play(self, steps: list[list[Any]]) -> list[Any]:
        """The outcome of each step."""
        for name in self._database.list_database_names():
            self._database.drop_database(name)
        self._ids: dict[str, str] = {}
        return [self._outcome(*step) for step in steps]

    def _outcome(self, kind: str, *given: Any) -> Any:
        try:
            return getattr(self, kind)(*given)
        except errors.DoesNotExist:
            return "missing"
        except errors.MessageNotClaimed:
            return "not claimed"
        except errors.NotPermitted:
            return "claimed"

    def create(self, queue: str, metadata: dict[str, Any]) -> None:
        self._queues.create(queue, metadata=metadata, project="p")

    def configure(self, queue: str, metadata: dict[str, Any]) -> None:
        self._queues.set_metadata(queue, metadata, project="p")

    def wait(self, span_s: int) -> None:
        self.now_s += span_s

    def post(self, queue: str, bodies: list[str], ttl_s: int) -> None:
        drafts = [{"ttl": ttl_s, "body": body} for body in bodies]
        ids = self._messages.post(queue, drafts, project="p", client_uuid=uuid.uuid4())
        self._ids |= dict(zip(bodies, ids, strict=True))

    def claim(self, queue: str, name: str, ttl_s: int, grace_s: int, limit: int) -> list[Any]:
        terms = {"ttl": ttl_s, "grace": grace_s}
        claim_id, found = self._claims.create(queue, terms, project="p", limit=limit)
        if claim_id is not None:
            self._ids[name] = claim_id
        return [shown(message) for message in found]

    def release(self, queue: str, name: str) -> None:
        if name in self._ids:
            self._claims.delete(queue, self._ids[name], project="p")

    def renew(self, queue: str, name: str, ttl_s: int, grace_s: int) -> None:
        if name in self._ids:
            self._claims.update(queue, self._ids[name], {"ttl": ttl_s, "grace": grace_s}, project="p")

    def get_claim(self, queue: str, name: str) -> Any:
        if name not in self._ids:
            return None
        about, found = self._claims.get(queue, self._ids[name], project="p")
        return [about["age"], about["ttl"], [shown(message) for message in found]]

    def delete(self, queue: str, body: str, name: str | None) -> None:
        if name is None or name in self._ids:
            claim = None if name is None else self._ids[name]
            self._messages.delete(queue, self._ids[body], project="p", claim=claim)

    def pop(self, queue: str, limit: int) -> list[Any]:
        return [shown(message) for message in self._messages.pop(queue, limit, project="p")]

    def list(self, queue: str, with_claimed: bool) -> Any:
        found = self._messages.list(
            queue, project="p", echo=True, include_claimed=with_claimed, include_delayed=True, limit=20
        )
        return [shown(message) for message in next(found)]


def drawn(seed: int) -> list[list[Any]]:
    """The steps of a history."""
    draw = random.Random(seed)
    steps: list[list[Any]] = [["create", queue, _metadata(draw)] for queue in QUEUES]
    claims: list[tuple[str, str]] = []
    bodies: list[str] = []
    kinds = {"post": 6, "claim": 10, "release": 5, "renew": 3, "get_claim": 3, "delete": 4}
    kinds |= {"pop": 1, "list": 3, "wait": 6, "configure": 1}
    for number in range(STEPS):
        queue, kind = draw.choice(QUEUES), draw.choices(list(kinds), list(kinds.values()))[0]
        if kind == "post":
            new = [f"{number}.{nth}" for nth in range(draw.randint(1, 3))]
            bodies += new
            steps.append(["post", queue, new, draw.choice([1000, 2000])])
        elif kind == "claim":
            claims.append((queue, f"claim {number}"))
            steps.append(["claim", *claims[-1], draw.choice([5, 10, 3000]), draw.choice([2, 9]), draw.randint(1, 4)])
        elif kind in ("release", "renew", "get_claim") and claims:
            where, name = draw.choice(claims[-3:])
            terms = [draw.choice([5, 20, 4000]), 7] if kind == "renew" else []
            steps.append([kind, where if draw.random() < 0.9 else queue, name, *terms])
        elif kind == "delete" and bodies:
            by = draw.choice(claims[-3:])[1] if claims and draw.random() < 0.7 else None
            steps.append(["delete", queue, draw.choice(bodies[-6:]), by])
        elif kind == "pop":
            steps.append(["pop", queue, draw.randint(1, 3)])
        elif kind == "list":
            steps.append(["list", queue, draw.random() < 0.5])
        elif kind == "wait":
            steps.append(["wait", draw.choice([1, 4, 6, 11])])
        elif kind == "configure":
            steps.append(["configure", queue, _metadata(draw)])
    return steps + [["list", queue, True] for queue in QUEUES]


def _metadata(draw: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.random() < 0.85:
        found["_max_claim_count"] = draw.choice([0, 1, 2, 3])
    if draw.random() < 0.9:
        found["_dead_letter_queue"] = draw.choice(QUEUES)
    if draw.random() < 0.3:
        found["_dead_letter_queue_messages_ttl"] = 700
    return found


def main() -> None:
    """Print the histories."""
    zaqar, histories = Driver(), []
    for seed in range(HISTORIES):
        steps = drawn(seed)
        outcomes = [{"step": step, "outcome": outcome} for step, outcome in zip(steps, zaqar.play(steps), strict=True)]
        histories.append("[\n" + ",\n".join(json.dumps(one) for one in outcomes) + "\n]")
    sys.stdout.write("[\n" + ",\n".join(histories) + "\n]\n")


if __name__ == "__main__":
    main()
