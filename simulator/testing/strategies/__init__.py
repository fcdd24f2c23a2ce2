"""Hypothesis strategies for everything that dead letters are about, from one field value to the log of a day.

>>> from hypothesis import given
>>> from simulator.testing.strategies import topologies
>>> @given(topologies(cyclic=True))
... def test_nothing_circles(topology): ...

All arguments of strategies are keywords with defaults, and a wrong one raises
``hypothesis.errors.InvalidArgument``. ``release`` is a release or its name, such as
``"4.3"``. ``definitions_document`` is no strategy, but a function of a topology that
was drawn. What is drawn shrinks towards the plainest there is, and what Hypothesis
prints of it can be pasted into a test below

>>> import datetime
>>> from decimal import Decimal
>>> import dlx
>>> from dlx import Binding, Death, DeathHistory, Exchange, Message, Policy, Queue, RetryPlan, Settings, Topology
>>> from dlx.deaths import DeathPoint
>>> from dlx.policies import PolicyChoice, SkippedPolicy
>>> from dlx.releases import Release
>>> from dlx.settings import Origin, Setting
>>> from dlx.field_values import *
>>> from simulator.capture.schema import Observation
>>> from simulator.scenario.steps import *

``from simulator.testing import strategies`` where Hypothesis's own ``settings`` is used beside this one.
Through the entry point ``hypothesis``, ``st.from_type(dlx.Topology)`` and its like work
without an import of this package. Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.testing.strategies.amqp import field_tables, field_values
    from simulator.testing.strategies.argument import queue_arguments
    from simulator.testing.strategies.death import death_histories, deaths, x_deaths
    from simulator.testing.strategies.documents import definitions_document
    from simulator.testing.strategies.history import histories
    from simulator.testing.strategies.log import log_rows
    from simulator.testing.strategies.message import messages, properties
    from simulator.testing.strategies.parts import bindings, exchanges, queues
    from simulator.testing.strategies.policy import policies
    from simulator.testing.strategies.retry import retry_plans
    from simulator.testing.strategies.setting import settings
    from simulator.testing.strategies.topology import definitions, topologies

# Modules are in the singular: a module of a strategy's own name would hide it.
_HOME = {
    "bindings": "parts",
    "death_histories": "death",
    "deaths": "death",
    "definitions": "topology",
    "definitions_document": "documents",
    "exchanges": "parts",
    "field_tables": "amqp",
    "field_values": "amqp",
    "histories": "history",
    "log_rows": "log",
    "messages": "message",
    "policies": "policy",
    "properties": "message",
    "queue_arguments": "argument",
    "queues": "parts",
    "retry_plans": "retry",
    "settings": "setting",
    "topologies": "topology",
    "x_deaths": "death",
}

__all__ = [
    "bindings",
    "death_histories",
    "deaths",
    "definitions",
    "definitions_document",
    "exchanges",
    "field_tables",
    "field_values",
    "histories",
    "log_rows",
    "messages",
    "policies",
    "properties",
    "queue_arguments",
    "queues",
    "retry_plans",
    "settings",
    "topologies",
    "x_deaths",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'simulator.testing.strategies' has no attribute {name!r}")
    return getattr(importlib.import_module(f"simulator.testing.strategies.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
