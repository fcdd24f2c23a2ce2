"""The parts with state and time: captures, replay, the broker and the command line. Built on the rules in ``dlx``.

``simulator.serve(...)`` starts a RabbitMQ in this process; it is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing
from simulator.markup import DRAWN_BY

if TYPE_CHECKING:
    from simulator.broker import Broker as Broker
    from simulator.broker import OperatorError as OperatorError
    from simulator.clock import VirtualClock as VirtualClock
    from simulator.definitions import DefinitionsError as DefinitionsError
    from simulator.server import serve as serve
    from simulator.server.tls import Tls as Tls
    from simulator.server.tls import TlsError as TlsError
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.broker": ("Broker", "OperatorError"),
            "simulator.clock": ("VirtualClock",),
            "simulator.definitions": ("DefinitionsError",),
            "simulator.server": ("serve",),
            "simulator.server.tls": ("Tls", "TlsError"),
        },
        load=importing("server"),
    )

# The picture of definitions has their losses, each played on a broker, which is made from definitions.
DRAWN_BY["Definitions"] = "simulator.analysis.topology_graph:definitions_html"
