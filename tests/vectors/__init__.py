"""Golden vectors: small cases of RabbitMQ's rules and what real servers of several releases did with them."""
