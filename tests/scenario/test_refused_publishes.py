"""A scenario's trace tells which publishes the broker refused."""

from simulator.systems import simulate

QUEUES = [{"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}]
DEFINITIONS = {"vhosts": [{"name": "/"}], "queues": QUEUES}


def played(*steps):
    return simulate("rabbitmq", {"definitions": DEFINITIONS, "steps": list(steps)})


def publish(**fields):
    return {"do": "publish", "exchange": "", "routing_key": "orders", **fields}


def test_a_publish_that_the_broker_refuses_is_told_with_the_reason_and_the_next_one_goes_through():
    trace = played({"do": "wait", "ms": 1_500}, publish(expiration_ms=-5), publish())
    (refused,) = trace["refused_publishes"]
    assert (refused["step"], refused["time_ms"]) == (1, 1_500)
    assert "expiration" in refused["why"]
    assert len(trace["queues"]["orders"]) == 1


def test_a_scenario_in_which_nothing_is_refused_says_so():
    assert played(publish())["refused_publishes"] == []
