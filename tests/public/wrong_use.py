"""Mistakes of a consumer, a tester and an analyst; behind each is the code of mypy's error."""

import dlx
import simulator
import simulator.capture
import simulator.replay
import simulator.testing
import simulator.testing.strategies
from dlx import death_histroy  # attr-defined
from simulator.testing import assert_nothing_lots  # attr-defined

# A consumer

dlx.death_histroy({})  # attr-defined
dlx.Retries  # attr-defined
dlx.death_history(3)  # arg-type
dlx.death_history("x-death")  # arg-type
history = dlx.death_history({})
history.rejected("orders")  # attr-defined
history.rejected_in(7)  # arg-type
history.count("orders")  # call-arg
history.first.queue  # union-attr
history.attempts = 3  # misc
dlx.RetryPlan(delays=(1, 2))  # call-arg
plan = dlx.RetryPlan(delays_ms=("1",))  # arg-type
plan.decide({})  # arg-type
plan.decide(history).to  # union-attr
dlx.republish_headers({}, attempts="3")  # arg-type
dlx.exponential_delays_ms(5)  # call-arg

# A tester

simulator.server_("4.3")  # attr-defined
simulator.serve(4.3)  # arg-type
simulator.serve(clock="real")  # arg-type
server = simulator.serve()
server.url  # attr-defined
server.clock.advance(days="1")  # arg-type
simulator.Broker("4.3").handle("publish", 0)  # arg-type
simulator.VirtualClock().now_ms()  # attr-defined
trial = simulator.testing.Trial(3)  # arg-type
trial.publish("", "orders", ttl_ms=5)  # call-arg
trial.publish("", "orders", times="2")  # arg-type
trial.requeue("orders", method="drop")  # arg-type
simulator.testing.assert_dead_lettered("http://localhost", to="dead")  # arg-type
simulator.testing.assert_settles(server, within="1 s")  # arg-type
simulator.testing.strategies.topology(cyclic=True)  # operator
simulator.testing.strategies.topologies(cycles=True)  # call-arg
simulator.testing.strategies.definitions(cycles=True)  # call-arg
simulator.testing.Property().broken("lost", queue="orders")  # call-arg

# An analyst

simulator.replay.repaly  # attr-defined
simulator.replay.Summary().loss  # attr-defined
simulator.capture.open_log(7)  # arg-type
simulator.capture.captures  # attr-defined
dlx.release(4.3)  # arg-type
name: dlx.ReleaseName = "4.4"  # assignment
dlx.release("4.3").death_histories  # attr-defined
dlx.published("", "orders", expiration=100, release=dlx.release())  # arg-type
dlx.route("orders", dlx.Topology(), dlx.release())  # arg-type
