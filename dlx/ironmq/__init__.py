"""IronMQ v3: what its requests may say, and when a message goes to the dead letter queue.

Pure functions over immutable values; ``simulator.ironmq`` has the queues and their time.

Source: the reference of IronMQ v3 (dead letter queue, API, push queues). The server's source
is not public, so the reference can be checked only against the authors' own client
tests. Behaviour that neither describes is marked "not documented".
"""
