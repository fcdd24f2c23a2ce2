"""A server is reached by its URLs, as whoever they name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import simulator
from simulator.server.in_process import Server
from simulator.testing.brokers.servers import NoSuchServerError, ask


@pytest.fixture
def running() -> Iterator[Server]:
    with simulator.serve("4.3", management_port=0) as server:
        ask(f"{server.amqp_url}|{server.management_url}").api(
            "PUT", "users/watch", {"password": "a:b/c", "tags": "monitoring"}
        )
        yield server


def _with_login(url: str, login: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{login}@{rest.rpartition('@')[2]}"


def test_the_user_of_the_management_url_asks(running: Server) -> None:
    server = ask(f"{running.amqp_url}|{_with_login(str(running.management_url), 'watch:a%3Ab%2Fc')}")
    assert server.api("GET", "whoami")["name"] == "watch"


def test_a_management_url_without_a_user_is_asked_as_that_of_the_amqp_url(running: Server) -> None:
    server = ask(f"{_with_login(running.amqp_url, 'watch:a%3Ab%2Fc')}|{running.management_url}")
    assert server.api("GET", "whoami")["name"] == "watch"


def test_a_refused_user_of_the_management_url_is_named_without_the_password(running: Server) -> None:
    with pytest.raises(NoSuchServerError, match="refuses the user 'watch'") as error:
        ask(f"{running.amqp_url}|{_with_login(str(running.management_url), 'watch:secret')}")
    assert "secret" not in str(error.value)
