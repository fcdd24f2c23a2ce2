"""Where Zaqar's document and its storage drivers differ: a row per behaviour, a column per profile.

``spec`` is the specification of the feature (Pike, "Dead Letter Queue"). ``redis`` was
held against a running Zaqar 23.0.1. ``mongodb`` was held against its driver on a mock of
the database, ``swift`` is read from its driver's source; both of 23.0.1.

Rules ask for a behaviour and never for the name of a profile. The peculiarities of
the redis driver's data structures are in the simulator.
"""

from __future__ import annotations

import msgspec


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One column: how one driver, or the document, behaves; by default as the document says.

    Attributes:
        name: ``spec``, ``redis``, ``mongodb`` or ``swift``.
        release_keeps_count: whether a message whose claim is released still counts its claims.
        renewal_keeps_count: whether one whose claim is renewed does.
        renewal_stretches_ties: whether a renewal also stretches a message that would die just as the claim ends.
        uncounted_claim_keeps_count: whether a claim of a queue that does not count leaves the number alone.
        counts_the_move: whether the claim that moves a message is counted too.
        dead_letter_ttl_is_real: whether ``_dead_letter_queue_messages_ttl`` ends the message; else it is only shown.
        rewrites: whether a claim writes the message again, so that its age and its whole life begin again. Else a
            claim prolongs the life of a message only where that would end before the claim.
        hides_dead_letters: whether a dead letter is hidden until the claim that moved it ends; else it is free at once.
        keeps_place: whether a dead letter stands in its new queue where it stood in the old one, counted from the first
            message that was ever posted there; else messages stand in the order of posting.
        claim_is_its_messages: whether a claim is there as long as a message has it, and wherever that is: in the
            dead-letter queue too.
        claim_needs_queue: whether nothing is claimed from a queue that was never created, even by its name.
        pop_claims: whether a pop claims, and so counts and moves; else it just takes messages.
        unset_is_off: whether a null or empty attribute turns the feature off. The drivers ask only whether both
            attributes are there.
        checks_dead_letter_queue: whether a queue's dead-letter queue must exist when it is named.
        own_name_loses: whether a message dies for good where a queue is its own dead-letter queue.
        any_name: whether ``_dead_letter_queue`` may be any JSON value; else one that is not text fails the claim.
    """

    name: str
    release_keeps_count: bool = True
    renewal_keeps_count: bool = True
    renewal_stretches_ties: bool = False
    uncounted_claim_keeps_count: bool = True
    counts_the_move: bool = True
    dead_letter_ttl_is_real: bool = True
    rewrites: bool = False
    hides_dead_letters: bool = True
    keeps_place: bool = False
    claim_is_its_messages: bool = False
    claim_needs_queue: bool = False
    pop_claims: bool = True
    unset_is_off: bool = True
    checks_dead_letter_queue: bool = True
    own_name_loses: bool = False
    any_name: bool = False


SPEC = Profile(name="spec")
"""The document. Where it is silent, the least surprising: a release keeps the count, a missing target is refused."""

REDIS = Profile(
    name="redis",
    renewal_stretches_ties=True,
    counts_the_move=False,
    dead_letter_ttl_is_real=False,
    unset_is_off=False,
    checks_dead_letter_queue=False,
    own_name_loses=True,
)

MONGODB = Profile(
    name="mongodb",
    release_keeps_count=False,
    renewal_keeps_count=False,
    uncounted_claim_keeps_count=False,
    counts_the_move=False,
    dead_letter_ttl_is_real=False,
    keeps_place=True,
    claim_is_its_messages=True,
    pop_claims=False,
    unset_is_off=False,
    checks_dead_letter_queue=False,
)

SWIFT = Profile(
    name="swift",
    release_keeps_count=False,
    counts_the_move=False,
    rewrites=True,
    hides_dead_letters=False,
    claim_needs_queue=True,
    unset_is_off=False,
    checks_dead_letter_queue=False,
    own_name_loses=True,
    any_name=True,
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (SPEC, REDIS, MONGODB, SWIFT)}
"""The profiles by name."""
