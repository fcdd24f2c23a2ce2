"""ActiveMQ Classic's dead letters as rules: pure functions over immutable values.

What has state and time is in ``simulator.activemq``.
"""
