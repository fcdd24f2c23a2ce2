"""Drivers that keep each message in one queue: the document's Zaqar, and those on MongoDB and Swift.

Their profiles say how the three differ. Not simulated: MongoDB sweeps out expired
messages only once a minute, Swift lists objects late, and messages may be spread over
several pools or partitions.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simulator.events import Event
from simulator.systems.zaqar import claims
from simulator.systems.zaqar.claims import Message, Terms
from simulator.systems.zaqar.metadata import DeadLettering, dead_lettering
from simulator.systems.zaqar.profiles import Profile
from simulator.systems.zaqar.store import (
    SECOND_US,
    Claimed,
    Ending,
    Ends,
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


class _Stored(StoredMessage, kw_only=True):
    """A message, its place (``keeps_place``: in its first queue), its number among all, and where it is."""

    number: int
    posted: int
    queue: str


class _Claim(msgspec.Struct):
    """A claim of one queue: since when, for how long, and until when (seconds)."""

    project: str
    queue: str
    since_s: int
    ttl_s: int
    expires_s: int


class DocumentStore(Store):
    """Zaqar with a driver of that kind.

    Args:
        profile: which one.
        ids: where ids come from.
    """

    def __init__(self, profile: Profile, ids: Ids) -> None:
        super().__init__(profile, ids)
        self._all_numbers = itertools.count()
        self._numbers: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(itertools.count)
        self._places: dict[tuple[str, str], dict[str, _Stored]] = {}
        self._all: dict[str, _Stored] = {}
        self._claims: dict[str, _Claim] = {}

    # Messages

    def page(self, project: str, queue: str, page: PageQuery, now_us: int) -> tuple[list[Shown], str]:
        now_s, marker = now_us // SECOND_US, page.marker or ""
        after = int(marker) if marker.isdecimal() else -1
        found = [
            stored
            for stored in self._in(project, queue)
            if stored.number > after
            and (page.include_claimed or not stored.message.held(now_s))
            and (page.include_delayed or stored.message.delay_until_s <= now_s)
            and (page.echo or stored.message.client != page.client)
        ][: page.limit]
        return [shown(stored.message, now_s) for stored in found], str(found[-1].number) if found else ""

    def get(self, project: str, queue: str, message_id: str, now_us: int) -> Shown:
        if not self.queue_exists(project, queue):
            raise no_queue(project, queue)
        stored = self._places.get((project, queue), {}).get(message_id)
        if stored is None:
            raise no_message(project, queue, message_id)
        return shown(stored.message, now_us // SECOND_US)

    def delete(self, project: str, queue: str, message_id: str, claim_id: str | None, now_us: int) -> None:
        stored = self._places.get((project, queue), {}).get(message_id)
        if stored is None or not self.queue_exists(project, queue):
            return
        held = stored.message.held(now_us // SECOND_US)
        if claim_id is None:
            if held:
                raise Claimed(message_id)
        elif stored.message.claim_id != claim_id or not (held or self.profile.claim_is_its_messages):
            self._refuse_deletion(stored, claim_id, held)
        self._take_out(stored)
        self._tell(Event.ACKED, now_us, project, message_id, queue, claim_id)

    def delete_many(self, project: str, queue: str, message_ids: Sequence[str], now_us: int) -> None:
        place = self._places.get((project, queue), {})
        for id in message_ids:
            if id in place:
                stored = place[id]
                self._take_out(stored)
                self._tell(Event.ACKED, now_us, project, id, queue, stored.message.claim_id)

    def pop(self, project: str, queue: str, limit: int, now_us: int) -> list[Shown]:
        if self.profile.pop_claims:
            _, popped = self.claim(project, queue, Terms(1, 0), limit, now_us)
        else:
            now_s = now_us // SECOND_US
            # The driver asks for no order here: that of posting is what it mostly gets.
            there = sorted(self._in(project, queue), key=lambda stored: stored.posted)
            free = [stored for stored in there if not stored.message.held(now_s)][:limit]
            # The driver does not ask for the number of claims here.
            popped = [{**shown(stored.message, now_s), "claim_count": 0} for stored in free]
        self.delete_many(project, queue, [message["id"] for message in popped], now_us)
        return popped

    def stats(self, project: str, queue: str, now_us: int) -> dict[str, Any]:
        if not self.queue_exists(project, queue):
            raise no_queue(project, queue)
        now_s, there = now_us // SECOND_US, self._in(project, queue)
        # Swift counts every message that names a claim, whether that has ended or not.
        claimed = sum(
            stored.message.claim_id is not None if self.profile.rewrites else stored.message.held(now_s)
            for stored in there
        )
        answer: dict[str, Any] = {"claimed": claimed, "free": len(there) - claimed, "total": len(there)}
        for name, stored in zip(("oldest", "newest"), there[:1] + there[-1:], strict=False):
            made_s = stored.message.created_s
            answer[name] = {"id": stored.message.id, "age": now_s - made_s, "created": created(made_s)}
        return answer

    # Claims

    def claim(self, project: str, queue: str, terms: Terms, limit: int, now_us: int) -> tuple[str | None, list[Shown]]:
        if self.profile.claim_needs_queue and not self.queue_exists(project, queue):
            return None, []
        claim_id, now_s = self._ids.claim(), now_us // SECOND_US
        metadata = self._queues.get((project, queue), {})
        rule = dead_lettering(metadata, self.profile)
        found = self._claimable(project, queue, bool(metadata.get("_default_message_delay")), now_s)[:limit]
        if self.profile.rewrites and rule is not None and found:
            claims.exhausted(found[0].message, rule)  # this driver fails before it has written anything
        before = [stored.message for stored in found]
        for stored in found:
            self._keep(stored, claims.held(stored.message, claim_id, terms, now_s, self.profile))
        if found:
            self._claims[claim_id] = _Claim(project, queue, now_s, terms.ttl_s, now_s + terms.ttl_s)
            self._endings.add(Ending((now_s + terms.ttl_s) * SECOND_US, Ends.CLAIM, claim_id))
        handed = [
            stored for stored, was in zip(found, before, strict=True) if self._hands_out(stored, was, rule, now_us)
        ]
        if not handed:
            return None, []
        if self.profile.claim_is_its_messages:
            handed = self._of_claim(project, queue, claim_id)
        return claim_id, [shown(stored.message, now_s) for stored in handed]

    def claim_info(self, project: str, queue: str, claim_id: str, now_us: int) -> dict[str, Any]:
        claim, now_s = self._existing(project, queue, claim_id), now_us // SECOND_US
        return {
            "age": now_s - claim.since_s,
            "ttl": claim.expires_s - now_s if self.profile.rewrites else claim.ttl_s,
            "messages": [shown(stored.message, now_s) for stored in self._of_claim(project, queue, claim_id)],
        }

    def renew(self, project: str, queue: str, claim_id: str, terms: Terms, now_us: int) -> None:
        claim, now_s = self._existing(project, queue, claim_id), now_us // SECOND_US
        for stored in self._of_claim(project, queue, claim_id):
            self._keep(stored, claims.renewed(stored.message, claim_id, terms, now_s, self.profile))
            self._extended(stored, now_us)
        claim.since_s, claim.ttl_s, claim.expires_s = now_s, terms.ttl_s, now_s + terms.ttl_s
        self._endings.add(Ending(claim.expires_s * SECOND_US, Ends.CLAIM, claim_id))

    def release(self, project: str, queue: str, claim_id: str, now_us: int) -> None:
        now_s = now_us // SECOND_US
        if not self.profile.claim_is_its_messages:
            if self._there(project, queue, claim_id) is None:
                return
            del self._claims[claim_id]
        for stored in self._of_claim(project, queue, claim_id):
            self._freed(stored, now_us, "the claim was released")
            self._keep(stored, claims.released(stored.message, now_s, self.profile))

    # For scenarios and tests

    def contents(self, now_us: int) -> dict[str, list[dict[str, Any]]]:
        return {
            f"{project}/{queue}": [
                {"message": id, "body": stored.message.body, **self.look(project, id, now_us)}
                for id, stored in place.items()
            ]
            for (project, queue), place in sorted(self._places.items())
            if place
        }

    def look(self, project: str, message_id: str, now_us: int) -> dict[str, Any]:
        stored = self._all.get(message_id)
        if stored is None:
            return {"exists": False, "queues": []}
        return {**describe(stored.message, now_us // SECOND_US), "queues": [stored.queue]}

    # How it is done

    def _kept(self) -> Mapping[str, _Stored]:
        return self._all

    def _message_ends(self, ending: Ending) -> None:
        stored = self._all.get(ending.id)
        if stored is not None and stored.message.expires_s * SECOND_US == ending.at_us:
            self._take_out(stored)
            self._tell(Event.EXPIRED, ending.at_us, stored.project, ending.id, stored.queue)

    def _claim_ends(self, ending: Ending) -> None:
        claim = self._claims.get(ending.id)
        if claim is not None and claim.expires_s * SECOND_US == ending.at_us:
            del self._claims[ending.id]

    def _take_in(self, project: str, queue: str, message: Message, now_us: int) -> None:
        posted = next(self._all_numbers)
        number = next(self._numbers[project, queue]) if self.profile.keeps_place else posted
        self._put(_Stored(message=message, number=number, posted=posted, project=project, queue=queue))

    def _in(self, project: str, queue: str) -> list[_Stored]:
        there = self._places.get((project, queue), {}).values()
        return sorted(there, key=lambda stored: (stored.number, stored.posted))

    def _claimable(self, project: str, queue: str, delays: bool, now_s: int) -> list[_Stored]:
        return [
            stored
            for stored in self._in(project, queue)
            if not stored.message.held(now_s) and not (delays and now_s < stored.message.delay_until_s)
        ]

    def _of_claim(self, project: str, queue: str, claim_id: str) -> list[_Stored]:
        return [stored for stored in self._in(project, queue) if stored.message.claim_id == claim_id]

    def _put(self, stored: _Stored) -> None:
        self._places.setdefault((stored.project, stored.queue), {})[stored.message.id] = stored
        self._all[stored.message.id] = stored
        self._keep(stored, stored.message)

    def _keep(self, stored: _Stored, message: Message) -> None:
        """Store a message as it is now, and remember when it ends and when it is free."""
        stored.message = message
        self._endings.add(Ending(message.expires_s * SECOND_US, Ends.MESSAGE, message.id))
        free_us = message.claim_expires_s * SECOND_US
        if message.claim_id is not None and free_us > self._endings.passed_us:  # a dead letter may be free at once
            self._endings.add(Ending(free_us, Ends.HOLD, message.id, message.claim_id))

    def _take_out(self, stored: _Stored) -> None:
        del self._places[stored.project, stored.queue][stored.message.id], self._all[stored.message.id]

    def _hands_out(self, stored: _Stored, was: Message, rule: DeadLettering | None, now_us: int) -> bool:
        """Return whether the claim hands the message out; if not, it has moved it away."""
        if rule is not None and claims.exhausted(was, rule):
            self._move(stored, was, rule, now_us)
            return False
        if rule is not None:
            stored.message = claims.counted(stored.message, was)
        self._tell(Event.DELIVERED, now_us, stored.project, was.id, stored.queue, stored.message.claim_id)
        return True

    def _move(self, stored: _Stored, was: Message, rule: DeadLettering, now_us: int) -> None:
        name, source = claims.target(rule, self.profile), stored.queue
        letter = claims.moved(stored.message, was, rule, now_us // SECOND_US, self.profile)
        tell = (now_us, stored.project, letter.id)
        self._take_out(stored)
        if name == source and self.profile.own_name_loses:
            self._tell(Event.DROPPED, *tell, source, letter.claim_id, f"queue {source} is its own dead-letter queue")
            return
        self._tell(Event.DEAD_LETTERED, *tell, source, letter.claim_id, f"claimed {was.count} times; to {name}")
        missing = "" if self.queue_exists(stored.project, name) else "no such queue was created"
        self._tell(Event.ROUTED, *tell, name, letter.claim_id, missing)
        stored.message, stored.queue = letter, name
        self._put(stored)

    def _there(self, project: str, queue: str, claim_id: str) -> _Claim | None:
        """Return the claim, if it has not ended and this queue knows it."""
        claim = self._claims.get(claim_id)
        if claim is None or claim.project != project:
            return None
        if self.profile.claim_is_its_messages:
            return claim if self._of_claim(project, queue, claim_id) else None
        return claim if queue == claim.queue else None

    def _existing(self, project: str, queue: str, claim_id: str) -> _Claim:
        """Return the same claim. Raises ``NotFoundError`` if it does not exist."""
        claim = self._there(project, queue, claim_id)
        if claim is None:
            raise no_claim(project, queue, claim_id)
        return claim

    def _refuse_deletion(self, stored: _Stored, claim_id: str, held: bool) -> None:
        """Raise the error that a wrong claim id deserves."""
        if not self.profile.claim_is_its_messages:
            self._existing(stored.project, stored.queue, claim_id)
        free = stored.message.claim_id is None if self.profile.rewrites else not held
        raise NotClaimed(stored.message.id) if free else Claimed(stored.message.id)

    def _delete_messages(self, project: str, queue: str, now_us: int) -> None:
        for id in self._places.pop((project, queue), {}):
            del self._all[id]
            self._tell(Event.PURGED, now_us, project, id, queue)
