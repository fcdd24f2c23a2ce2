"""Hypothesis strategies for everything that dead letters are about, from one field value to the log of a day.

>>> from hypothesis import given
>>> from simulator.testing.strategies import topologies
>>> @given(topologies(cyclic=True))
... def test_nothing_circles(topology): ...

All arguments of strategies are keywords with defaults, and a wrong one raises
``hypothesis.errors.InvalidArgument``. ``release`` is a release or its name, such as
``"4.3"``. ``definitions_document`` is not a strategy, but a function of a topology that
was drawn. Values shrink towards the plainest one, and Hypothesis prints them as code
that can be pasted into a test below

>>> import datetime
>>> from decimal import Decimal
>>> import dlx
>>> from dlx import Binding, Death, DeathHistory, DeathPoint, Exchange, Message, Policy, Queue, Release, RetryPlan
>>> from dlx import Settings, Topology
>>> from dlx.policies import PolicyChoice, SkippedPolicy
>>> from dlx.settings import Origin, Setting
>>> from dlx.field_values import *
>>> from simulator.capture.schema import Observation
>>> from simulator.scenario.steps import *

``from simulator.testing import strategies`` where Hypothesis's own ``settings`` is used beside this one.
Through the entry point ``hypothesis``, ``st.from_type(dlx.Topology)`` and its like work
without an import of this package. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.testing.strategies.amqp import field_tables as field_tables
    from simulator.testing.strategies.amqp import field_values as field_values
    from simulator.testing.strategies.argument import queue_arguments as queue_arguments
    from simulator.testing.strategies.history import histories as histories
    from simulator.testing.strategies.log import log_rows as log_rows
    from simulator.testing.strategies.message import death_histories as death_histories
    from simulator.testing.strategies.message import deaths as deaths
    from simulator.testing.strategies.message import messages as messages
    from simulator.testing.strategies.message import properties as properties
    from simulator.testing.strategies.message import x_deaths as x_deaths
    from simulator.testing.strategies.parts import bindings as bindings
    from simulator.testing.strategies.parts import exchanges as exchanges
    from simulator.testing.strategies.parts import queues as queues
    from simulator.testing.strategies.policy import policies as policies
    from simulator.testing.strategies.policy import settings as settings
    from simulator.testing.strategies.retry import retry_plans as retry_plans
    from simulator.testing.strategies.topology import definitions as definitions
    from simulator.testing.strategies.topology import definitions_document as definitions_document
    from simulator.testing.strategies.topology import topologies as topologies
else:
    # Modules are in the singular: a module of a strategy's own name would hide it.
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.testing.strategies.amqp": ("field_tables", "field_values"),
            "simulator.testing.strategies.argument": ("queue_arguments",),
            "simulator.testing.strategies.history": ("histories",),
            "simulator.testing.strategies.log": ("log_rows",),
            "simulator.testing.strategies.message": ("death_histories", "deaths", "messages", "properties", "x_deaths"),
            "simulator.testing.strategies.parts": ("bindings", "exchanges", "queues"),
            "simulator.testing.strategies.policy": ("policies", "settings"),
            "simulator.testing.strategies.retry": ("retry_plans",),
            "simulator.testing.strategies.topology": ("definitions", "definitions_document", "topologies"),
        },
        load=importing("testing"),
    )
