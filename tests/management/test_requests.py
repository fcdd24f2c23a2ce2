"""What the scenarios do not show: limits, logins, forms, the clock."""

from __future__ import annotations

import pytest

from dlx.releases import RELEASES
from simulator.broker.broker import Broker
from simulator.broker.commands import Get, OpenChannel, OpenConnection, Publish
from simulator.clock import WallClock
from simulator.server.management.application import Application
from simulator.server.node import Node
from tests.management.client import Simulated


@pytest.fixture
def server() -> Simulated:
    return Simulated()


# Requests


def test_bodies_have_a_limit(server: Simulated) -> None:
    answer = server("PUT", "/api/queues/%2F/q", b" " * 20_000_001)
    assert (answer.status, answer.json["reason"]) == (400, "Exceeded HTTP request body size limit")


def got(server: Simulated, **look: object) -> tuple[int, int]:
    """Publish three messages; return the status of getting them, and how many came."""
    server("PUT", "/api/queues/%2F/q", {})
    message = {"properties": {}, "routing_key": "q", "payload": "a", "payload_encoding": "string"}
    for _ in range(3):
        server("POST", "/api/exchanges/%2F/amq.default/publish", message)
    answer = server("POST", "/api/queues/%2F/q/get", {"ackmode": "ack_requeue_true", "encoding": "auto", **look})
    return answer.status, len(answer.json) if answer.status == 200 else 0


@pytest.mark.parametrize("count", [-1, -5, "-1"])
def test_a_negative_count_gets_all(server: Simulated, count: object) -> None:
    """So do 3.8.9, 3.10.8, 4.0.5 and 4.3.6."""
    assert got(server, count=count) == (200, 3)


@pytest.mark.parametrize("count", [0, 1])
def test_an_ackmode_that_is_an_object_crashes_the_request(server: Simulated, count: int) -> None:
    """On the same servers."""
    assert got(server, count=count, ackmode={}) == (500, 0)


DEEP = "JSON is nested too deeply for the simulator, which reads up to 400 levels"
NESTED = ("arrays", "objects")


def nested(depth: int, kind: str) -> str:
    before, after = ("[", "]") if kind == "arrays" else ('{"t":', "}")
    return before * depth + "1" + after * depth


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
def test_deep_json_is_refused(server: Simulated, depth: int, kind: str) -> None:
    server("PUT", "/api/queues/%2F/q", {})
    value = nested(depth, kind)
    for method, path, body in (
        ("PUT", "queues/%2F/new", f'{{"arguments":{{"a":{value}}}}}'),
        ("PUT", "exchanges/%2F/new", f'{{"arguments":{{"a":{value}}}}}'),
        ("PUT", "global-parameters/new", f'{{"value":{value}}}'),
        ("PUT", "policies/%2F/new", f'{{"pattern":"","definition":{value}}}'),
        ("POST", "exchanges/%2F/amq.default/publish", f'{{"properties":{{"headers":{{"a":{value}}}}}}}'),
        ("POST", "definitions", f'{{"queues":[{{"arguments":{value}}}]}}'),
        ("POST", "definitions/%2F", f'{{"policies":[{{"definition":{value}}}]}}'),
    ):
        answer = server(method, f"/api/{path}", body)
        assert (answer.status, answer.json["reason"]) == (400, DEEP), path
    answer = server("POST", "/api/bindings/%2F/e/amq.headers/q/q", f'{{"arguments":{{"a":{value}}}}}')
    too_long = len(value) > 4_900
    assert (answer.status, answer.json["reason"]) == (400, "Payload size limit exceeded" if too_long else DEEP)


@pytest.mark.parametrize("kind", NESTED)
def test_what_is_too_deep_to_be_printed_is_refused(server: Simulated, kind: str) -> None:
    value = nested(390, kind)
    server("PUT", "/api/users/u", {"password": "u", "tags": ""})
    for method, path, body in (
        ("PUT", "policies/%2F/p", f'{{"pattern":"","definition":{{"max-length":{value}}}}}'),
        ("PUT", "parameters/operator_policy/%2F/p", f'{{"value":{value}}}'),
        ("PUT", "vhost-limits/%2F/max-queues", f'{{"value":{value}}}'),
        ("PUT", "user-limits/u/max-channels", f'{{"value":{value}}}'),
        ("POST", "definitions/%2F", f'{{"policies":[{{"name":"p","pattern":"","definition":{{"expires":{value}}}}}]}}'),
    ):
        answer = server(method, f"/api/{path}", body)
        assert (answer.status, answer.json["reason"]) == (400, DEEP), path


def test_json_that_is_not_so_deep_is_taken(server: Simulated) -> None:
    value = "[" * 399 + "]" * 399
    assert server("PUT", "/api/global-parameters/deep", f'{{"value":{value}}}').status == 201
    assert server("GET", "/api/global-parameters/deep").body == f'{{"value":{value},"name":"deep"}}'.encode()
    arguments = '{"x-note":' + "[" * 398 + "]" * 398 + "}"
    assert server("PUT", "/api/exchanges/%2F/x", f'{{"arguments":{arguments}}}').status == 201


@pytest.mark.parametrize("release", RELEASES)
def test_some_resources_insist_on_the_content_type(release: str) -> None:
    server = Simulated(release)
    policy = {"pattern": "", "definition": {"max-length": 1}}
    for method, path, body in (
        ("POST", "definitions", {"users": []}),
        ("POST", "definitions/%2F", {"queues": []}),
        ("PUT", "operator-policies/%2F/p", policy),
        ("PUT", "traces/%2F/t", {"format": "json", "pattern": "#"}),
    ):
        for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application"):
            answer = server(method, f"/api/{path}", body, headers={"content-type": kind})
            assert (answer.status, answer.body) == (415, b""), path
        assert server(method, f"/api/{path}", body, headers={"content-type": "Application/JSON"}).status in (201, 204)
        charset = server(method, f"/api/{path}", body, headers={"content-type": "application/json; charset=utf-8"})
        assert charset.status == (415 if path.startswith("traces") else 204)
    assert server("PUT", "/api/policies/%2F/p", policy, headers={"content-type": None}).status == 201
    assert server("POST", "/api/definitions", {}, auth=None, headers={"content-type": None}).status == 401


@pytest.mark.parametrize(("release", "offered"), [("3.12", False), ("3.13", True), ("4.3", True)])
def test_deprecated_features_are_listed_and_those_in_use_apart(release: str, offered: bool) -> None:
    server = Simulated(release)
    if not offered:
        assert server("GET", "/api/deprecated-features").status == 404
        return
    names = {feature["name"] for feature in server("GET", "/api/deprecated-features").json}
    assert "transient_nonexcl_queues" in names
    assert server("GET", "/api/deprecated-features/used").json == []
    server("PUT", "/api/queues/%2F/q", {"durable": False})
    assert [f["name"] for f in server("GET", "/api/deprecated-features/used").json] == ["transient_nonexcl_queues"]


def test_integers_beyond_64_bits_are_refused(server: Simulated) -> None:
    assert server("PUT", "/api/queues/%2F/q", {"arguments": {"x": 2**63}}).status == 400


@pytest.mark.parametrize("header", ["Basic %%%", "Basic \xe9", "Basic Z3Vlc3Q=", "Digest x", "basic", ""])
def test_unreadable_credentials_are_refused(server: Simulated, header: str) -> None:
    """So do 3.8.9, 3.10.8, 4.0.5 and 4.3.6."""
    answer = server("GET", "/api/whoami", auth=None, headers={"authorization": header})
    assert (answer.status, answer.body) == (400, b"")


@pytest.mark.parametrize("header", ["Bearer x", "Basic 6Tp4"])
def test_credentials_of_nobody_do_not_match(server: Simulated, header: str) -> None:
    """A token, and a name that is no UTF-8, on the same servers."""
    answer = server("GET", "/api/whoami", auth=None, headers={"authorization": header})
    assert (answer.status, answer.json["error"]) == (401, "not_authorized")


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


@pytest.mark.parametrize("release", RELEASES)
def test_a_path_that_no_resource_has_is_taken_for_a_file(release: str) -> None:
    server = Simulated(release)
    for path in ("/api/nope", "/api/queues/%2F/q/nope", "/nope", "/api/definitions/v/x"):
        for method, status in (("GET", 404), ("HEAD", 404), ("OPTIONS", 200), ("PUT", 405), ("DELETE", 405)):
            escaped = "%2F" in path and status == 404 and release != "3.8"
            answer = server(method, path, auth=None)
            assert answer.status == (400 if escaped else status), (method, path)
            if status == 405:
                assert answer.headers["allow"] == "HEAD, GET, OPTIONS"


@pytest.mark.parametrize("escape", ["%2F", "%2f", "%5C", "%00"])
def test_no_file_has_a_slash_a_backslash_or_a_nul_in_its_name(server: Simulated, escape: str) -> None:
    answer = server("GET", f"/api/definitions/{escape}/x")
    assert (answer.status, answer.body) == (400, b"")
    assert server("GET", f"/api/definitions/%20{escape}").status == 400  # no such virtual host


def test_a_name_in_a_path_may_be_empty(server: Simulated) -> None:
    publish = {"properties": {}, "routing_key": "nowhere", "payload": "", "payload_encoding": "string"}
    assert server("POST", "/api/exchanges/%2F//publish", publish).json == {"routed": False}
    assert server("GET", "/api/exchanges/%2F//bindings/source").json == []
    assert server("GET", "/api/exchanges/%2F/").json == server("GET", "/api/exchanges/%2F").json
    for path in ("exchanges//", "queues//", "vhosts//", "policies//", "aliveness-test//", "overview//", "/overview"):
        answer = server("GET", f"/api/{path}")
        assert (answer.status, answer.json) == (404, {"error": "Object Not Found", "reason": "Not Found"}), path


# Virtual hosts


@pytest.mark.parametrize(
    ("release", "kept"),
    [
        ("3.10", "quorum"),
        ("3.11", None),
        ("3.12", None),
        ("3.13", None),
        ("4.0", "quorum"),
        ("4.1", None),
        ("4.3", None),
    ],
)
def test_a_put_that_names_no_default_queue_type(release: str, kept: str | None) -> None:
    server = Simulated(release)
    assert server("PUT", "/api/vhosts/v", {"defaultqueuetype": "quorum"}).status == 201
    server("PUT", "/api/vhosts/v", {"description": "d"})
    assert server.node.broker.vhosts["v"].default_queue_type == kept
    vhost = server("GET", "/api/vhosts/v").json
    shown = kept or ("undefined" if release < "4.0" else "classic")
    assert (vhost["default_queue_type"], vhost["metadata"]["default_queue_type"]) == (shown, shown)
    server("DELETE", "/api/vhosts/v")
    server("PUT", "/api/vhosts/v", {})
    assert server("GET", "/api/vhosts/v").json["metadata"].get("default_queue_type") in (None, "classic")


def test_a_put_may_name_no_default_queue_type_in_words() -> None:
    server = Simulated("4.0")
    for kind, shown in (("quorum", "quorum"), ("undefined", "classic")):
        server("PUT", "/api/vhosts/v", {"default_queue_type": kind})
        assert server("GET", "/api/vhosts/v").json["default_queue_type"] == shown


def test_until_3_10_a_default_queue_type_is_for_new_virtual_hosts() -> None:
    server = Simulated("3.10")
    for body in ({}, {"default_queue_type": "quorum"}, {"defaultqueuetype": "quorum"}):
        server("PUT", "/api/vhosts/v", body)
        assert server("GET", "/api/vhosts/v").json["default_queue_type"] == "undefined"
    server = Simulated("3.8")
    server("PUT", "/api/vhosts/v", {"defaultqueuetype": "zz"})
    assert "default_queue_type" not in server("GET", "/api/vhosts/v").json["metadata"]


@pytest.mark.parametrize(
    ("release", "status", "reason"),
    [
        ("3.10", 500, "invalid_queue_type"),
        ("3.12", 500, "invalid_queue_type"),
        ("3.13", 500, None),
        ("4.1", 500, None),
        ("4.2", 400, "zz is not a valid queue type"),
    ],
)
def test_unknown_default_queue_types(release: str, status: int, reason: str | None) -> None:
    answer = Simulated(release)("PUT", "/api/vhosts/v", {"defaultqueuetype": "zz"})
    assert (answer.status, answer.json["reason"] if answer.body else None) == (status, reason)


# Numbers


def published(server: Simulated, queue: str, delivery_mode: int | None) -> None:
    properties = {} if delivery_mode is None else {"delivery_mode": delivery_mode}
    body = {"properties": properties, "routing_key": queue, "payload": "four", "payload_encoding": "string"}
    assert server("POST", "/api/exchanges/%2F/amq.default/publish", body).json["routed"]


@pytest.mark.parametrize("release", RELEASES)
def test_persistent_messages_are_counted_ready_or_not(release: str) -> None:
    server = Simulated(release)
    channel = ("c", 1)
    for command in (OpenConnection("c"), OpenChannel(channel)):
        server.node.handle(command)
    for queue, durable in (("kept", True), ("transient", False)):
        server("PUT", f"/api/queues/%2F/{queue}", {"durable": durable})
        for mode in (2, 1, None, 2):
            published(server, queue, mode)
        server.node.handle(Get(channel, queue))  # the first one is not ready any more
    counted = {
        queue["name"]: (queue["messages_persistent"], queue["message_bytes_persistent"])
        for queue in server("GET", "/api/queues/%2F").json
    }
    assert counted == {"kept": (2, 8), "transient": (0, 0)}


def test_counters_start_again_when_they_are_reset(server: Simulated) -> None:
    server("PUT", "/api/queues/%2F/q", {})
    for path in ("reset", "reset/rabbit@localhost"):
        published(server, "q", None)
        assert server("GET", "/api/overview").json["message_stats"]["publish"] == 1
        assert server("DELETE", f"/api/{path}").status == 204
        assert server("GET", "/api/overview").json["message_stats"] == {}
        assert "message_stats" not in server("GET", "/api/queues/%2F/q").json
    assert server("GET", "/api/queues/%2F/q").json["messages"] == 2
    assert server("DELETE", "/api/reset/other").status == 404
    answer = server("GET", "/api/reset/other")
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, OPTIONS")


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


@pytest.mark.parametrize(("release", "names"), [("4.1", {"internal_a", "b"}), ("4.2", {"b"})])
def test_internal_parameters_are_not_exported_since_4_2(release: str, names: set[str]) -> None:
    server = Simulated(release)
    for name in ("internal_a", "b"):
        server("PUT", f"/api/global-parameters/{name}", {"value": 1})
    exported = server("GET", "/api/definitions").json["global_parameters"]
    assert {parameter["name"] for parameter in exported} - {"cluster_tags"} == names


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
    server.application = Application(server.node)
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


@pytest.mark.parametrize(("release", "paged"), [("3.8", False), ("3.10", False), ("4.0", True), ("4.3", True)])
def test_users_come_in_pages_from_4_0_on(release: str, paged: bool) -> None:
    """Not among the recorded calls: what a server answers has the users of whoever else asks it something."""
    answer = Simulated(release)("GET", "/api/users?page=1&columns=name").json
    assert (answer["items"] if paged else answer) == [{"name": "guest"}]
