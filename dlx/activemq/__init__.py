"""ActiveMQ Classic's dead letters as rules: pure functions over immutable values.

``simulator.activemq`` adds state and time.
"""
