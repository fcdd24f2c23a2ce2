"""What a move from RabbitMQ to another system does to a topology: builds the nearest one there, and plays both.

``docs/how-to/compare.md`` describes the answer.
"""

from __future__ import annotations

from simulator.systems.move.moving import Move as Move
from simulator.systems.move.moving import MoveFinding as MoveFinding
from simulator.systems.move.moving import move as move
