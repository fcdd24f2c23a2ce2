"""A consumer that retries, with pika, aio-pika and kombu."""
