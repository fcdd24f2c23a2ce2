"""OpenStack Zaqar with state and virtual time: its queues, claims and dead letters.

Zaqar has no reject: a consumer *claims* messages for some seconds, and deletes those
it is done with. The others can be claimed again when the claim ends. A
queue with ``_max_claim_count`` and ``_dead_letter_queue`` counts the claims of each
message; a claim past the maximum moves the message instead of handing it out.
Zaqar's storage drivers disagree about nearly everything else; ``profiles`` is the table.

``simulate`` runs a scenario. ``Zaqar`` is the service itself, a request and the time in
and an answer out; ``simulator.systems.zaqar.http`` serves it. ``docs/reference/zaqar.md`` says how to use
it and where it is known to be right.
"""

from __future__ import annotations

from simulator.systems.zaqar.service import Zaqar as Zaqar
from simulator.systems.zaqar.zaqar_scenario import simulate as simulate
