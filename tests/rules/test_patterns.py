"""Which names the patterns of policies are found in, and which patterns are refused."""

from __future__ import annotations

import pytest

from dlx.policies import pattern_found
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import release

# tests/live/test_patterns.py asks the servers.
SEEN = [
    (r"^\Qorders.\E\d+$", "orders.1", "found"),
    (r"^\Qorders.1", "orders.1", "found"),
    (r"^[\Q.\Edeors]+.\d$", "orders.1", "found"),
    (r"^orders\E\.1", "orders.1", "found"),
    (r"a\Q\E*", "orders.1", "found"),
    ("(*UTF8)^orders", "orders.1", "found"),
    (r"(*UTF)(*UCP)^\w+\.", "orders.1", "found"),
    ("(*NO_START_OPT)(*ANYCRLF)1$", "orders.1", "found"),
    ("(*LIMIT_MATCH=9)orders", "orders.1", "found"),
    ("(*UTF16)orders", "orders.1", "refused"),
    (r"^\x{6f}rders", "orders.1", "found"),
    (r"^\x6frders", "orders.1", "found"),
    (r"^orders\x{2e}1", "orders.1", "found"),
    (r"\x{100}", "orders.1", "refused"),
    (r"^orders\o{56}", "orders.1", "found"),
    (r"\o{8}", "orders.1", "refused"),
    (r"^orders\0561", "orders.1", "found"),
    (r"^orders\.\N", "orders.1", "found"),
    (r"^orders\N{2}$", "orders.1", "found"),
    (r"^orders\h?\H\V$", "orders.1", "found"),
    (r"^o\Rrders|orders", "orders.1", "found"),
    (r"^orders\.\d+\z", "orders.1", "found"),
    (r"^orders\.\d+\Z", "orders.1", "found"),
    (r"\Gorders", "orders.1", "found"),
    (r"\Aorders\b", "orders.1", "found"),
    (r"^orders\.(?#c)\d", "orders.1", "found"),
    ("^(?i)ORDERS", "orders.1", "found"),
    (r"^orders(?i)\.1$", "orders.1", "found"),
    ("^((?i)O|R)rders", "orders.1", "found"),
    ("^(?i:O)RDERS", "orders.1", "absent"),
    (r"(?x) ^ orders \. # the name", "orders.1", "found"),
    ("^(?s)orders.1", "orders.1", "found"),
    (r"^(?|(o)|(f))\1?", "orders.1", "found"),
    ("^(?|orders|foo)", "orders.1", "found"),
    ("^(?<n>o)rders", "orders.1", "found"),
    ("^(?P<n>o)rders", "orders.1", "found"),
    ("^(?'n'o)rders", "orders.1", "found"),
    (r"^(?<n>.).*\k{n}", "orders.1", "absent"),
    (r"(?<n>d).*\k<n>", "orders.1", "absent"),
    (r"(?<n>s).*\k<n>", "orders.s", "found"),
    (r"(?'n's).*\k'n'", "orders.s", "found"),
    ("(?<n>o)(?<n>r)", "orders.1", "refused"),
    ("(?J)(?<n>o)(?<n>r)", "orders.1", "found"),
    ("(?|(?<n>o)|(?<n>f))r", "orders.1", "found"),
    ("s{0,65535}", "orders.1", "found"),
    ("s{65536}", "orders.1", "refused"),
    ("s{1,99999}", "orders.1", "refused"),
    ("[{99999}s]", "orders.1", "found"),
    (r"s\{99999}|s", "orders.1", "found"),
    ("^((?:o)(?1)?)", "orders.1", "found"),
    ("^(.)rde(?-1)|s", "orders.1", "found"),
    ("^o(?R)?rders", "orders.1", "found"),
    (r"^(?>orders)\.", "orders.1", "found"),
    (r"^\w++\.\d", "orders.1", "found"),
    (r"^orders\K\.", "orders.1", "found"),
    (r"(?<=orders)\.", "orders.1", "found"),
    ("(?<!x)orders", "orders.1", "found"),
    ("^(o)?(?(1)r|x)", "orders.1", "found"),
    ("^(?(?=o)orders|x)", "orders.1", "found"),
    (r"^[[:lower:]]+\.", "orders.1", "found"),
    ("^[[:^digit:]]+1", "orders.1", "found"),
    ("[[:foo:]]", "orders.1", "refused"),
    ("^o[^]]rders", "orders.1", "absent"),
    ("^o[]r]d", "orders.1", "found"),
    (r"^[\w.]+$", "orders.1", "found"),
    ("[z-a]", "orders.1", "refused"),
    ("^orders.{1,}", "orders.1", "found"),
    ("x{|orders", "orders.1", "found"),
    ("^orders.{2,1}", "orders.1", "refused"),
    ("a**", "orders.1", "refused"),
    ("*.orders", "orders.1", "refused"),
    ("orders.*|*", "orders.1", "refused"),
    (r"\1", "orders.1", "refused"),
    (r"^\p{L}+\.\d", "orders.1", "found"),
    (r"^\p{Lu}", "orders.1", "absent"),
    (r"\p{Foo}", "orders.1", "refused"),
    ("^orders(*F)|1$", "orders.1", "found"),
    ("(", "orders.1", "refused"),
    (")", "orders.1", "refused"),
    ("[a", "orders.1", "refused"),
    ("\\", "orders.1", "refused"),
    ("(?", "orders.1", "refused"),
    ("(?z)", "orders.1", "refused"),
    ("(?<n-a>)", "orders.1", "refused"),
    (r"\c", "orders.1", "refused"),
    ("^é$", "é", "found"),
    ("^..$", "é", "found"),
    ("^.$", "é", "absent"),
    ("(*UTF8)^.$", "é", "found"),
    (r"^\x{e9}$", "é", "absent"),
    (r"(*UTF8)^\x{e9}$", "é", "found"),
    (r"^orders\.1\n?$", "orders.1", "found"),
    ("", "orders.1", "found"),
]  # fmt: skip


def outcome(pattern: str, name: str, server: str) -> str:
    try:
        check_policy("p", pattern, {"expires": 1}, "all", 0, operator=False, release=release(server))
    except PolicyRefusedError:
        return "refused"
    return "found" if pattern_found(pattern, name) else "absent"


@pytest.mark.parametrize(("pattern", "name", "told"), SEEN)
def test_a_pattern_is_read_as_on_the_server(pattern: str, name: str, told: str) -> None:
    assert {outcome(pattern, name, server) for server in ("3.8", "4.0", "4.3")} == {told}
