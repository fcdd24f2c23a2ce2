"""Nameko: an RPC, an event whose handler fails, one that goes back to its queue, and events that wait for a service."""

import eventlet

eventlet.monkey_patch()

import os  # noqa: E402

from nameko.events import BROADCAST, event_handler  # noqa: E402
from nameko.rpc import rpc  # noqa: E402
from nameko.runners import ServiceRunner  # noqa: E402
from nameko.standalone.events import event_dispatcher  # noqa: E402
from nameko.standalone.rpc import ClusterRpcProxy  # noqa: E402

CONFIG = {"AMQP_URI": os.environ["AMQP_URL"]}
handled, requeued = [], []


class Orders:
    name = "orders"

    @rpc
    def add(self, number):
        return number + 1

    @event_handler("shop", "fails")
    def fails(self, number):
        handled.append(number)
        raise ValueError(number)

    @event_handler("shop", "returns", requeue_on_error=True)
    def returns(self, number):
        requeued.append(number)
        if len(requeued) < 3:
            raise ValueError(number)

    @event_handler("shop", "told", handler_type=BROADCAST, reliable_delivery=False)
    def told(self, number):
        handled.append(number)


runner = ServiceRunner(CONFIG)
runner.add_service(Orders)
runner.start()
dispatch = event_dispatcher(CONFIG)
with ClusterRpcProxy(CONFIG) as services:
    assert services.orders.add(1) == 2
for number, event in enumerate(("fails", "returns", "told"), 2):
    dispatch("shop", event, number)
while len(requeued) < 3 or len(handled) < 2:
    eventlet.sleep(0.05)
eventlet.sleep(0.3)
runner.stop()
for number, event in enumerate(("fails", "returns", "told", "unheard"), 5):
    dispatch("shop", event, number)
