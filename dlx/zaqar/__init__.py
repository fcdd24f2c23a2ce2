"""OpenStack Zaqar's rules for claims and dead-letter queues, as pure functions over immutable values.

Zaqar has no reject: a consumer *claims* messages for some seconds, and deletes those
it is done with. The others can be claimed again when the claim ends. A
queue with ``_max_claim_count`` and ``_dead_letter_queue`` counts the claims of each
message; a claim past the maximum moves the message instead of handing it out.

Zaqar's storage drivers disagree about nearly everything else; ``profiles`` is the table.
"""

from __future__ import annotations

from dlx.zaqar.claims import Terms
from dlx.zaqar.limits import Invalid
from dlx.zaqar.messages import Message
from dlx.zaqar.metadata import DeadLettering
from dlx.zaqar.profiles import PROFILES, Profile

__all__ = ["PROFILES", "DeadLettering", "Invalid", "Message", "Profile", "Terms"]
