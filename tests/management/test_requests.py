"""What the scenarios do not show: limits, logins, forms, the page, the clock."""

from __future__ import annotations

import pytest

from simulator.broker.broker import Broker
from simulator.broker.commands import OpenChannel, OpenConnection, Publish
from simulator.clock import WallClock
from simulator.server.management import application
from simulator.server.node import Node
from tests.management.client import Simulated

RELEASES = ("3.8", "3.10", "3.13", "4.0", "4.3")


@pytest.fixture
def server() -> Simulated:
    return Simulated()


# Requests


def test_bodies_have_a_limit(server: Simulated) -> None:
    answer = server("PUT", "/api/queues/%2F/q", b" " * 20_000_001)
    assert (answer.status, answer.json["reason"]) == (400, "Exceeded HTTP request body size limit")


@pytest.mark.parametrize("depth", [600, 5_000, 100_000])
def test_deep_json_is_refused(server: Simulated, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    answer = server("PUT", "/api/queues/%2F/q", f'{{"arguments":{deep}}}')
    assert (answer.status, answer.json["reason"]) == (400, "not_json")
    answer = server("POST", "/api/definitions", f'{{"queues":[{{"arguments":{deep}}}]}}')
    assert (answer.status, answer.json["reason"]) == (400, "failed_to_parse_json")


def test_json_that_is_not_so_deep_is_taken(server: Simulated) -> None:
    value = "[" * 399 + "]" * 399
    assert server("PUT", "/api/global-parameters/deep", f'{{"value":{value}}}').status == 201
    assert server("GET", "/api/global-parameters/deep").body == f'{{"value":{value},"name":"deep"}}'.encode()
    arguments = '{"x-note":' + "[" * 398 + "]" * 398 + "}"
    assert server("PUT", "/api/exchanges/%2F/x", f'{{"arguments":{arguments}}}').status == 201


def test_integers_beyond_64_bits_are_refused(server: Simulated) -> None:
    assert server("PUT", "/api/queues/%2F/q", {"arguments": {"x": 2**63}}).status == 400


@pytest.mark.parametrize("header", ["Bearer x", "Basic %%%", "Basic Z3Vlc3Q=", "basic", ""])
def test_unreadable_credentials_are_none(server: Simulated, header: str) -> None:
    answer = server("GET", "/api/whoami", auth=None, headers={"authorization": header})
    assert answer.status == 401
    assert "www-authenticate" in answer.headers


def test_guest_logs_in_from_this_machine_only() -> None:
    server = Simulated()
    server.peer_host = "192.0.2.1"
    answer = server("GET", "/api/whoami")
    assert (answer.status, answer.json["reason"]) == (401, "User can only log in via localhost")


def test_the_virtual_host_of_lists_may_come_in_a_header(server: Simulated) -> None:
    server("PUT", "/api/vhosts/v", {})
    server("PUT", "/api/queues/v/mine", {})
    server("PUT", "/api/queues/%2F/other", {})
    answer = server("GET", "/api/queues?columns=name", headers={"x-vhost": "v"})
    assert answer.json == [{"name": "mine"}]


@pytest.mark.parametrize("release", RELEASES)
def test_every_list_can_be_asked_for_in_every_release(release: str) -> None:
    server = Simulated(release)
    server("PUT", "/api/queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    for path in (
        "overview", "nodes", "nodes/rabbit@localhost", "vhosts", "users", "permissions", "topic-permissions",
        "queues", "queues/%2F/q", "exchanges", "bindings", "policies", "operator-policies", "parameters",
        "global-parameters", "connections", "channels", "consumers", "definitions", "definitions/%2F",
        "extensions", "cluster-name", "feature-flags", "traces", "trace-files", "lives", "clock",
        "vhost-limits", "users/without-permissions",
    ):  # fmt: skip
        assert server("GET", f"/api/{path}").status == 200, path


# Definitions


@pytest.mark.parametrize("release", RELEASES)
def test_an_export_can_be_imported(release: str) -> None:
    first, second = Simulated(release), Simulated(release)
    first("PUT", "/api/vhosts/v", {"description": "d"})
    first("PUT", "/api/users/u", {"password": "u", "tags": "management"})
    first("PUT", "/api/permissions/v/u", {"configure": "^a", "write": ".*", "read": ""})
    first("PUT", "/api/queues/v/q", {"durable": True, "arguments": {"x-queue-type": "quorum", "x-max-length": 5}})
    first("PUT", "/api/exchanges/v/x", {"type": "topic", "durable": True})
    first("POST", "/api/bindings/v/e/x/q/q", {"routing_key": "a.#", "arguments": {"n": 1}})
    first("PUT", "/api/policies/v/p", {"pattern": "^q", "definition": {"max-length": 3}, "apply-to": "queues"})
    first("PUT", "/api/operator-policies/v/o", {"pattern": "^q", "definition": {"max-length": 2}})
    first("PUT", "/api/global-parameters/g", {"value": {"a": [1]}})
    exported = first("GET", "/api/definitions").body
    assert second("POST", "/api/definitions", exported).status == 204
    assert second("GET", "/api/definitions").json == first("GET", "/api/definitions").json
    facts = second("GET", "/api/queues/v/q").json
    assert facts["effective_policy_definition"] == {"max-length": 2}
    assert second("GET", "/api/whoami", auth="u:u").status == 200


def test_definitions_come_as_a_form_too(server: Simulated) -> None:
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
        b'{"vhosts": [{"name": "from-form"}]}\r\n--b--\r\n'
    )
    answer = server("POST", "/api/definitions", form, headers={"content-type": "multipart/form-data; boundary=b"})
    assert answer.status == 204
    assert server("GET", "/api/vhosts/from-form").status == 200


def test_a_download_has_a_name(server: Simulated) -> None:
    answer = server("GET", "/api/definitions?download=d.json")
    assert answer.headers["content-disposition"] == "attachment; filename=d.json"


# The page


def test_the_page_shows_where_dead_letters_go(server: Simulated) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"}
    server("PUT", "/api/queues/%2F/%3Cwork%3E", {"arguments": arguments})
    server("PUT", "/api/queues/%2F/parking", {})
    server("PUT", "/api/queues/%2F/lost", {"arguments": {"x-dead-letter-exchange": "<missing>"}})
    page = server("GET", "/").body.decode()
    assert "&lt;work&gt;" in page
    arrow = "→ exchange <code>(default)</code>, key <code>parking</code> → "
    assert f'{arrow}<a href="#%252F.parking">parking</a>' in page
    assert 'id="%2F.parking"' in page
    assert "exchange <code>&lt;missing&gt;</code>, which does not exist" in page
    assert "<script" not in page
    assert "//" not in page


def test_the_page_shows_what_was_lost_and_why(server: Simulated) -> None:
    server("PUT", "/api/queues/%2F/q", {"arguments": {"x-max-length": 1}})
    for message_id in ("<m>", "kept"):
        body = {
            "properties": {"message_id": message_id},
            "routing_key": "q",
            "payload": "",
            "payload_encoding": "string",
        }
        server("POST", "/api/exchanges/%2F/amq.default/publish", body)
    page = server("GET", "/").body.decode()
    assert '<a href="api/lives/1">1 (&lt;m&gt;)</a>' in page
    assert "It was dropped: it died in the queue &#x27;q&#x27; (maxlen) and went nowhere" in page
    assert "kept" not in page


def test_the_page_is_for_users(server: Simulated) -> None:
    server("PUT", "/api/queues/%2F/hidden", {})
    assert server("GET", "/", auth=None).headers["www-authenticate"].startswith("Basic")
    server("PUT", "/api/users/u", {"password": "p", "tags": "management"})
    answer = server("GET", "/", auth="u:p")
    assert (answer.status, b"hidden" in answer.body) == (200, False)
    assert server("DELETE", "/").status == 405


# The clock


def test_the_clock_is_moved(server: Simulated) -> None:
    before = server("GET", "/api/clock").json["now_us"]
    answer = server("POST", "/api/clock/advance", {"hours": 1, "minutes": 30, "seconds": 5, "milliseconds": 250})
    assert answer.json["now_us"] - before == 5_405_250_000


def test_the_clock_jumps_to_what_happens_next(server: Simulated) -> None:
    server("PUT", "/api/queues/%2F/q", {"arguments": {"x-expires": 60_000}})
    before = server("GET", "/api/clock").json
    answer = server("POST", "/api/clock/advance", {"to_next_deadline": True}).json
    assert (answer["now_us"] - before["now_us"], answer["moved"]) == (60_000_000, True)
    assert answer["now_us"] == before["next_deadline_us"]
    assert server("GET", "/api/queues/%2F/q").status == 404
    assert server("POST", "/api/clock/advance", {"to_next_deadline": True}).json["moved"] is False


@pytest.mark.parametrize("body", [{}, {"weeks": 1}, {"hours": "1"}, {"hours": -1}, {"hours": True}, {"days": 1e9}])
def test_impossible_moves_are_refused(server: Simulated, body: object) -> None:
    before = server("GET", "/api/clock").json
    assert server("POST", "/api/clock/advance", body).status == 400
    assert server("GET", "/api/clock").json == before


def test_only_administrators_move_the_clock(server: Simulated) -> None:
    server("PUT", "/api/users/u", {"password": "p", "tags": "monitoring"})
    assert server("POST", "/api/clock/advance", {"hours": 1}, auth="u:p").status == 401
    assert server("GET", "/api/clock", auth="u:p").status == 200


def test_wall_time_is_not_moved(server: Simulated) -> None:
    server.node = Node(Broker("4.3"), WallClock())
    server.application = application(server.node)
    assert server("GET", "/api/clock").json["virtual"] is False
    answer = server("POST", "/api/clock/advance", {"hours": 1})
    assert (answer.status, answer.json["error"]) == (409, "conflict")
    assert server("GET", "/api/histories").status == 404  # nor does a plain broker record lives


# MessageHistories


def test_a_life_is_explained(server: Simulated) -> None:
    body = {"properties": {"message_id": "m"}, "routing_key": "nowhere", "payload": "", "payload_encoding": "string"}
    server("POST", "/api/exchanges/%2F/amq.default/publish", body)
    (found,) = server("GET", "/api/histories?message_id=m&ended=true").json
    life = server("GET", f"/api/histories/{found['uid']}").json
    assert life["sentences"][-1] == "Nothing is left of it."
    assert [event["event"] for event in life["events"]] == ["published", "returned"]
    assert server("GET", "/api/histories/99").status == 404
    assert server("GET", "/api/histories/x").status == 400


def test_histories_keep_their_older_paths(server: Simulated) -> None:
    body = {"properties": {}, "routing_key": "nowhere", "payload": "", "payload_encoding": "string"}
    server("POST", "/api/exchanges/%2F/amq.default/publish", body)
    assert server("GET", "/api/lives").json == server("GET", "/api/histories").json != []
    assert server("GET", "/api/lives/1").json == server("GET", "/api/histories/1").json


def test_what_is_no_text_is_shown_all_the_same(server: Simulated) -> None:
    for command in (OpenConnection("c"), OpenChannel(("c", 1))):
        server.node.handle(command)
    server.node.handle(Publish(("c", 1), "", "nowhere \udcff", {"message_id": "\udcfe"}, b""))
    assert server("GET", "/api/histories").json[0]["message_id"] == "?"
    assert "nowhere ?" in server("GET", "/").body.decode()


def test_lives_of_other_virtual_hosts_are_hidden(server: Simulated) -> None:
    body = {"properties": {}, "routing_key": "nowhere", "payload": "", "payload_encoding": "string"}
    server("POST", "/api/exchanges/%2F/amq.default/publish", body)
    server("PUT", "/api/users/u", {"password": "p", "tags": "management"})
    assert server("GET", "/api/histories", auth="u:p").json == []
    assert server("GET", "/api/histories/1", auth="u:p").status == 404
