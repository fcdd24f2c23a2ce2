"""Record one workload on a real RabbitMQ under several settings, to hold ``dlx whatif`` against what really happened.

``topology`` has the queues and the settings that are tried; ``traffic`` the publishes, and consumers
whose outcome depends on message, queue and attempt alone; ``recording`` plays it on a server.
"""
