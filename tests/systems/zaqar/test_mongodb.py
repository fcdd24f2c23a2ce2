"""The profile ``mongodb`` does what Zaqar's MongoDB driver was recorded to do (``record_mongodb``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.systems.zaqar import Zaqar
from simulator.systems.zaqar.claims import Terms
from simulator.systems.zaqar.store import SECOND_US, Claimed, Draft, NotClaimed, NotFoundError, PageQuery
from simulator.systems.zaqar.zaqar_scenario import START_US

HISTORIES = json.loads((Path(__file__).parent / "mongodb_histories.json").read_text(encoding="utf-8"))


class Player:
    """The same steps on the simulator's store; what is shown of a message is what the recorder showed."""

    def __init__(self) -> None:
        self._store, self._now_us = Zaqar("mongodb").store, START_US
        self._ids: dict[str, str] = {}

    def outcome(self, kind: str, *given: Any) -> Any:
        """What a step gives."""
        self._store.pass_time(self._now_us)
        try:
            return getattr(self, kind)(*given)
        except NotFoundError:
            return "missing"
        except NotClaimed:
            return "not claimed"
        except Claimed:
            return "claimed"

    def create(self, queue: str, metadata: dict[str, Any]) -> None:
        self._store.create_queue("p", queue, metadata)

    def configure(self, queue: str, metadata: dict[str, Any]) -> None:
        self._store.set_metadata("p", queue, metadata)

    def wait(self, span_s: int) -> None:
        self._now_us += span_s * SECOND_US

    def post(self, queue: str, bodies: list[str], ttl_s: int) -> None:
        ids = self._store.post("p", queue, [Draft(body, ttl_s) for body in bodies], "producer", self._now_us)
        self._ids |= dict(zip(bodies, ids, strict=True))

    def claim(self, queue: str, name: str, ttl_s: int, grace_s: int, limit: int) -> Any:
        claim_id, found = self._store.claim("p", queue, Terms(ttl_s, grace_s), limit, self._now_us)
        if claim_id is not None:
            self._ids[name] = claim_id
        return _shown(found)

    def release(self, queue: str, name: str) -> None:
        if name in self._ids:
            self._store.release("p", queue, self._ids[name], self._now_us)

    def renew(self, queue: str, name: str, ttl_s: int, grace_s: int) -> None:
        if name in self._ids:
            self._store.renew("p", queue, self._ids[name], Terms(ttl_s, grace_s), self._now_us)

    def get_claim(self, queue: str, name: str) -> Any:
        if name not in self._ids:
            return None
        found = self._store.claim_info("p", queue, self._ids[name], self._now_us)
        return [found["age"], found["ttl"], _shown(found["messages"])]

    def delete(self, queue: str, body: str, name: str | None) -> None:
        if name is None or name in self._ids:
            claim = None if name is None else self._ids[name]
            self._store.delete("p", queue, self._ids[body], claim, self._now_us)

    def pop(self, queue: str, limit: int) -> Any:
        return _shown(self._store.pop("p", queue, limit, self._now_us))

    def list(self, queue: str, with_claimed: bool) -> Any:
        page = PageQuery(client="consumer", limit=20, include_claimed=with_claimed, include_delayed=True)
        return _shown(self._store.page("p", queue, page, self._now_us)[0])


def _shown(messages: Any) -> Any:
    return [[message["body"], message["ttl"], message["claim_count"]] for message in messages]


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_the_simulator_does_what_the_driver_did(number: int) -> None:
    player = Player()
    for place, recorded in enumerate(HISTORIES[number]):
        seen = player.outcome(*recorded["step"])
        assert seen == recorded["outcome"], f"step {place}: {recorded['step']}"


def test_there_is_enough_of_each() -> None:
    outcomes = [one["outcome"] for history in HISTORIES for one in history]
    assert len(outcomes) > 1500
    for refusal in ("missing", "claimed", "not claimed"):
        assert outcomes.count(refusal) >= 3
