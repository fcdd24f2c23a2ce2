"""IBM MQ's dead-letter queue handler in virtual time, by the rules in ``dlx.ibm_mq``."""

from __future__ import annotations

from simulator.ibm_mq.simulation import simulate

__all__ = ["simulate"]
