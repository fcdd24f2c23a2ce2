"""The redis driver: sorted sets of ids, and hashes that redis lets expire on their own.

Everything odd about it follows from its data structures:

* A queue is a set of ids under ``PROJECT.QUEUE.messages``. The move to a dead-letter
  queue takes that key apart at its dots again, so ``my.dlq`` becomes ``my``.
* A message is a hash of its own, the same for all queues and projects, whose *key* has a
  life that starts again when a claim is renewed or released. The field ``e`` says when the
  message expires, and is another time.
* A set may hold ids of messages that are gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simulator.events import Event
from simulator.systems.zaqar import claims
from simulator.systems.zaqar.claims import Message, Terms
from simulator.systems.zaqar.metadata import DeadLettering, dead_lettering
from simulator.systems.zaqar.profiles import REDIS
from simulator.systems.zaqar.store import (
    SECOND_US,
    Claimed,
    Ending,
    Ends,
    Failed,
    Ids,
    NotClaimed,
    PageQuery,
    Shown,
    Store,
    StoredMessage,
    created,
    describe,
    no_claim,
    no_message,
    no_queue,
    shown,
)


class _Hash(StoredMessage, kw_only=True):
    """A message, when redis drops its key, and the queue it was put into last."""

    key_until_us: int


class _Claim(msgspec.Struct):
    """A claim: how long it lasts, when it ends, how many messages it counts, and their ids."""

    ttl_s: int
    expires_s: int
    counted: int
    messages: list[str]
    key_until_us: int


class RedisStore(Store):
    """Zaqar on redis, as it behaves; the profile is always ``redis``."""

    def __init__(self, ids: Ids) -> None:
        super().__init__(REDIS, ids)
        self._hashes: dict[str, _Hash] = {}
        # Dictionaries as ordered sets: an id that is added again goes to the end, as its rank makes it do.
        self._sets: dict[str, dict[str, None]] = {}
        self._claims: dict[str, _Claim] = {}
        self._claim_sets: dict[str, dict[str, None]] = {}

    def queues(self, project: str, marker: str | None, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """List queues as the driver does: a marker that is the very first queue is overlooked; names end at a dot."""
        found = sorted(name for owner, name in self._queues if owner == project)
        start = found.index(marker) if marker in found else 0
        page = found[start + 1 if start else 0 :][:limit]
        return [(_after_project(project, name), self._queues[project, name]) for name in page]

    # Messages

    def page(self, project: str, queue: str, page: PageQuery, now_us: int) -> tuple[list[Shown], str]:
        if page.marker is None and page.include_claimed:
            raise Failed("the driver looks up a marker of None, which redis-py refuses")
        now_s, ids = now_us // SECOND_US, list(self._sets.get(_set_key(project, queue), ()))
        if page.marker is None:
            free = (number for number, id in enumerate(ids) if self._is_free(id, now_s))
            start = next(free, 0)
        else:
            rank = ids.index(page.marker) if page.marker in ids else 0
            start = rank + 1 if rank else 0  # a marker that is the very first message is overlooked
        found = []
        for id in ids[start : start + page.limit]:
            stored = self._hashes.get(id)
            if stored is not None and _listed(stored.message, page, now_s):
                found.append(shown(stored.message, now_s))
        return found, found[-1]["id"] if found else ""

    def get_many(self, project: str, queue: str, message_ids: Sequence[str], now_us: int) -> list[Shown]:
        """Return the messages as the driver does: without checking whether they have expired."""
        if not self.queue_exists(project, queue):
            return []
        known = [self._hashes[id].message for id in message_ids if id in self._hashes]
        return [shown(message, now_us // SECOND_US) for message in known]

    def get(self, project: str, queue: str, message_id: str, now_us: int) -> Shown:
        if not self.queue_exists(project, queue):
            raise no_queue(project, queue)
        now_s, stored = now_us // SECOND_US, self._hashes.get(message_id)
        if stored is None or stored.message.expired(now_s):
            raise no_message(project, queue, message_id)
        return shown(stored.message, now_s)

    def delete(self, project: str, queue: str, message_id: str, claim_id: str | None, now_us: int) -> None:
        stored = self._hashes.get(message_id)
        if not self.queue_exists(project, queue) or stored is None:
            return
        message, held = stored.message, stored.message.held(now_us // SECOND_US)
        if claim_id is None:
            if held:
                raise Claimed(message_id)
        elif claim_id != message.claim_id and not _is_uuid(claim_id):
            raise no_claim(project, queue, claim_id)
        elif not held:
            raise NotClaimed(message_id)
        elif message.claim_id != claim_id:
            self._existing(project, queue, claim_id, now_us)
            raise Claimed(message_id)
        self._remove(project, queue, message_id, now_us)

    def delete_many(self, project: str, queue: str, message_ids: Sequence[str], now_us: int) -> None:
        if self.queue_exists(project, queue):
            for id in message_ids:
                if id in self._hashes:
                    self._remove(project, queue, id, now_us)

    def pop(self, project: str, queue: str, limit: int, now_us: int) -> list[Shown]:
        claim_id, popped = self.claim(project, queue, Terms(1, 0), limit, now_us)
        self.delete_many(project, queue, [message["id"] for message in popped], now_us)
        if claim_id is None and self.queue_exists(project, queue):
            raise Failed("all messages were moved away, and the driver releases a claim that it was not given")
        if claim_id is not None:
            self.release(project, queue, claim_id, now_us)
        return popped

    def stats(self, project: str, queue: str, now_us: int) -> dict[str, Any]:
        if not self.queue_exists(project, queue):
            raise no_queue(project, queue)
        ids = list(self._sets.get(_set_key(project, queue), ()))
        if not ids:
            return {"claimed": 0, "free": 0, "total": 0}
        claimed = 0
        for claim_id in self._claim_sets.get(_claims_key(project, queue), ()):
            if claim_id not in self._claims:
                raise Failed(f"claim {claim_id} ran out, and is still in the set of claims")
            claimed += self._claims[claim_id].counted
        answer: dict[str, Any] = {"claimed": claimed, "free": len(ids) - claimed, "total": len(ids)}
        for name, id in (("newest", ids[-1]), ("oldest", ids[0])):
            stored = self._hashes.get(id)
            if stored is None:
                raise Failed(f"the {name} message is gone, and its id still in the queue")
            answer[name] = {**shown(stored.message, now_us // SECOND_US), "created": created(stored.message.created_s)}
        return answer

    # Claims

    def claim(self, project: str, queue: str, terms: Terms, limit: int, now_us: int) -> tuple[str | None, list[Shown]]:
        claim_id, now_s = self._ids.claim(), now_us // SECOND_US
        taken = list(self._take(_set_key(project, queue), claim_id, terms, limit, now_us))
        if not taken:
            return claim_id, []
        handed = [shown(stored.message, now_s) for stored in taken]
        self._claims[claim_id] = _Claim(terms.ttl_s, now_s + terms.ttl_s, len(taken), [s.message.id for s in taken], 0)
        self._claim_lives(claim_id, now_us)
        self._claim_sets.setdefault(_claims_key(project, queue), {})[claim_id] = None
        rule = dead_lettering(self._queues.get((project, queue), {}), self.profile)
        kept = []
        for stored, message in zip(taken, handed, strict=True):
            if rule is not None and claims.exhausted(stored.message, rule):
                self._move(project, queue, stored, rule, now_us)
                continue
            if rule is not None:
                stored.message = claims.counted(stored.message, stored.message)
            self._tell(Event.DELIVERED, now_us, project, stored.message.id, queue, claim_id)
            kept.append(message)
        return (claim_id, kept) if kept else (None, [])

    def claim_info(self, project: str, queue: str, claim_id: str, now_us: int) -> dict[str, Any]:
        claim, now_s = self._existing(project, queue, claim_id, now_us), now_us // SECOND_US
        found = [self._hashes[id].message for id in claim.messages if id in self._hashes]
        return {
            "age": now_s - (claim.expires_s - claim.ttl_s),
            "ttl": claim.ttl_s,
            "messages": [shown(message, now_s) for message in found],
        }

    def renew(self, project: str, queue: str, claim_id: str, terms: Terms, now_us: int) -> None:
        claim, now_s = self._existing(project, queue, claim_id, now_us), now_us // SECOND_US
        for stored in self._of_claim(claim):
            stored.message = claims.renewed(stored.message, claim_id, terms, now_s, self.profile)
            self._extended(stored, now_us)
            self._live(stored, now_us)
            self._hold(stored)
        claim.ttl_s, claim.expires_s = terms.ttl_s, now_s + terms.ttl_s
        self._claim_lives(claim_id, now_us)

    def release(self, project: str, queue: str, claim_id: str, now_us: int) -> None:
        try:
            claim = self._existing(project, queue, claim_id, now_us)
        except LookupError:
            return
        freed = self._of_claim(claim)
        del self._claims[claim_id], self._claim_sets[_claims_key(project, queue)][claim_id]
        for stored in freed:
            self._freed(stored, now_us, "the claim was released", claim_id)
            stored.message = claims.released(stored.message, now_us // SECOND_US, self.profile)
            self._live(stored, now_us)

    # For scenarios and tests

    def contents(self, now_us: int) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for key, ids in sorted(self._sets.items()):
            project, _, queue = key.removesuffix(".messages").partition(".")
            known = [id for id in ids if id in self._hashes]
            if known:
                found[f"{project}/{queue}"] = [
                    {"message": id, "body": self._hashes[id].message.body, **self.look(project, id, now_us)}
                    for id in known
                ]
        return found

    def look(self, project: str, message_id: str, now_us: int) -> dict[str, Any]:
        lists = sorted(
            key.removesuffix(".messages").partition(".")[2]
            for key, ids in self._sets.items()
            if key.startswith(f"{project}.") and message_id in ids
        )
        stored = self._hashes.get(message_id)
        if stored is None:
            return {"exists": False, "queues": lists}
        return {
            **describe(stored.message, now_us // SECOND_US),
            # As redis answers TTL: rounded.
            "key_life_s": (stored.key_until_us - now_us + SECOND_US // 2) // SECOND_US,
            "queues": lists,
        }

    # How it is done

    def _kept(self) -> Mapping[str, _Hash]:
        return self._hashes

    def _message_ends(self, ending: Ending) -> None:
        stored = self._hashes.get(ending.id)
        if stored is None or stored.key_until_us != ending.at_us:
            return
        del self._hashes[ending.id]
        if stored.queue is not None:
            self._tell(Event.EXPIRED, ending.at_us, stored.project, ending.id, stored.queue)

    def _claim_ends(self, ending: Ending) -> None:
        claim = self._claims.get(ending.id)
        if claim is not None and claim.key_until_us == ending.at_us:
            del self._claims[ending.id]

    def _take_in(self, project: str, queue: str, message: Message, now_us: int) -> None:
        stored = self._hashes[message.id] = _Hash(message=message, key_until_us=0, project=project, queue=queue)
        self._live(stored, now_us)
        self._index(_set_key(project, queue), message.id)

    def _index(self, key: str, message_id: str) -> None:
        ids = self._sets.setdefault(key, {})
        ids.pop(message_id, None)
        ids[message_id] = None

    def _live(self, stored: _Hash, now_us: int) -> None:
        """Let redis keep the key for the message's time to live from now."""
        stored.key_until_us = now_us + stored.message.ttl_s * SECOND_US
        self._endings.add(Ending(stored.key_until_us, Ends.MESSAGE, stored.message.id))

    def _hold(self, stored: _Hash) -> None:
        message = stored.message
        self._endings.add(Ending(message.claim_expires_s * SECOND_US, Ends.HOLD, message.id, message.claim_id))

    def _is_free(self, id: str, now_s: int) -> bool:
        return id in self._hashes and not self._hashes[id].message.held(now_s)

    def _take(self, key: str, claim_id: str, terms: Terms, limit: int, now_us: int) -> Iterator[_Hash]:
        """Yield the messages that a claim takes: what follows the first free one, whether free or not."""
        now_s, gone, found, taken = now_us // SECOND_US, [], False, 0
        for id in list(self._sets.get(key, ())):
            if taken == limit:
                break
            stored = self._hashes.get(id)
            if stored is None:
                if not found:
                    gone.append(id)
                continue
            found = found or (self._is_free(id, now_s) and stored.message.delay_until_s <= now_s)
            if found:
                stored.message = claims.held(stored.message, claim_id, terms, now_s, self.profile)
                self._hold(stored)
                taken += 1
                yield stored
        for id in gone:
            del self._sets[key][id]

    def _move(self, project: str, queue: str, stored: _Hash, rule: DeadLettering, now_us: int) -> None:
        message, source = stored.message, _set_key(project, queue)
        name = claims.target(rule, self.profile)
        owner, where = f"{project}.{name}".split(".")[:2]
        stored.message = claims.moved(message, message, rule, now_us // SECOND_US, self.profile)
        self._index(_set_key(owner, where), message.id)
        self._sets[source].pop(message.id, None)
        tell = (message.id, queue, message.claim_id)
        if _set_key(owner, where) == source:
            stored.queue = None
            self._tell(Event.DROPPED, now_us, project, *tell, f"queue {queue} is its own dead-letter queue")
            return
        stored.queue = where
        self._tell(Event.DEAD_LETTERED, now_us, project, *tell, f"claimed {message.count} times; to {name}")
        missing = "" if self.queue_exists(owner, where) else "no such queue was created"
        if where != name:
            missing = f"the name {name} is cut at its dot"
        self._tell(Event.ROUTED, now_us, owner, message.id, where, message.claim_id, missing)

    def _remove(self, project: str, queue: str, message_id: str, now_us: int) -> None:
        stored = self._hashes.pop(message_id)
        self._sets.get(_set_key(project, queue), {}).pop(message_id, None)
        claim_id = stored.message.claim_id if stored.message.held(now_us // SECOND_US) else None
        claim = self._claims.get(claim_id or "")
        if claim is not None:
            claim.counted -= 1
            if message_id in claim.messages:
                claim.messages.remove(message_id)
        self._tell(Event.ACKED, now_us, project, message_id, stored.queue, claim_id)

    def _existing(self, project: str, queue: str, claim_id: str, now_us: int) -> _Claim:
        """Return the claim. Raises ``NotFoundError``; ``Failed`` if redis dropped it but its queue still names it."""
        named = self._claim_sets.get(_claims_key(project, queue), {})
        if not self.queue_exists(project, queue) or claim_id not in named:
            raise no_claim(project, queue, claim_id)
        claim = self._claims.get(claim_id)
        if claim is None:
            raise Failed(f"claim {claim_id} ran out, and is still in the set of claims")
        if claim.expires_s <= now_us // SECOND_US:
            del named[claim_id]
            raise no_claim(project, queue, claim_id)
        return claim

    def _claim_lives(self, claim_id: str, now_us: int) -> None:
        claim = self._claims[claim_id]
        claim.key_until_us = now_us + claim.ttl_s * SECOND_US
        self._endings.add(Ending(claim.key_until_us, Ends.CLAIM, claim_id))

    def _of_claim(self, claim: _Claim) -> list[_Hash]:
        if any(id not in self._hashes for id in claim.messages):
            raise Failed("a message of the claim is gone, and the driver reads it anyway")
        return [self._hashes[id] for id in claim.messages]

    def _delete_messages(self, project: str, queue: str, now_us: int) -> None:
        for id in self._sets.pop(_set_key(project, queue), {}):
            stored = self._hashes.pop(id, None)
            if stored is not None:
                self._tell(Event.PURGED, now_us, project, id, queue)


def _set_key(project: str, queue: str) -> str:
    return f"{project}.{queue}.messages"


def _claims_key(project: str, queue: str) -> str:
    return f"{project}.{queue}.claims"


def _after_project(project: str, queue: str) -> str:
    return f"{project}.{queue}".split(".")[1]


def _listed(message: Message, page: PageQuery, now_s: int) -> bool:
    return not (
        message.expired(now_s)
        or (message.held(now_s) and not page.include_claimed)
        or (now_s < message.delay_until_s and not page.include_delayed)
        or (message.client == page.client and not page.echo)
    )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
