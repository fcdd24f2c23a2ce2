"""Which names the patterns of policies are found in, and which patterns are refused."""

from __future__ import annotations

import pytest

from dlx.patterns import Library, compiled
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
    (r"^(?U)or+", "orders.1", "found"),
    ("^(?i-)ORDERS", "orders.1", "found"),
    ("^(?i-i)ORDERS", "orders.1", "absent"),
    (r"\cA", "orders.1", "absent"),
    (r"\cA", "a\x01", "found"),
    (r"^[\ca]$", "\x01", "found"),
    (r"\e", "\x1b", "found"),
    (r"^\x6\x4f", "\x06O", "found"),
    (r"\10", "\x08", "found"),
    (r"^[\8]$", "8", "found"),
    (r"\400", "orders.1", "refused"),
    (r"^\C{8}$", "orders.1", "found"),
    (r"^[\H]+$", "orders.1", "found"),
    (r"^(o)r\g{1}", "oro", "found"),
    (r"^(o)r\g-1$", "oro", "found"),
    (r"^(o|r)\g<1>d", "ord", "found"),
    (r"^(?<n>o|r)\g'n'd", "ord", "found"),
    (r"\g1", "orders.1", "refused"),
    (r"(a)\g{+1}", "orders.1", "refused"),
    (r"^(?<n>o)?(?(<n>)r|x)", "orders.1", "found"),
    ("^or(?C1)d", "orders.1", "found"),
    ("(?C256)", "orders.1", "refused"),
    ("(?<=orders|s)\\.", "orders.1", "found"),
    (r"(?<=\w{6})\.", "orders.1", "found"),
    ("(?<=o+)r", "orders.1", "refused"),
    ("(?<![^.]*)r", "orders.1", "refused"),
    ("[:lower:]", "orders.1", "refused"),
    ("[[.o.]]", "orders.1", "refused"),
    (r"\u006f", "orders.1", "refused"),
    (r"\N{U+6f}", "orders.1", "refused"),
    (r"\p", "orders.1", "refused"),
    (r"[o-\d]", "orders.1", "refused"),
    (r"[\N]", "orders.1", "refused"),
    ("^*orders", "orders.1", "refused"),
    (r"orders\b+", "orders.1", "refused"),
    ("(?f)orders", "orders.1", "refused"),
    ("(?V1)orders", "orders.1", "refused"),
    ("a&&o|o", "orders.1", "found"),
    # A hyphen at an end of a class, or behind a range, is a hyphen.
    (r"^[\w-]+$", "orders-eu", "found"),
    (r"^[\w-]+$", "orders.eu", "absent"),
    (r"^[-\w]+$", "orders-eu", "found"),
    (r"^[^-\d]+$", "orders-eu", "absent"),
    (r"^[a-z\d-]+$", "orders-1", "found"),
    (r"^[[:alpha:]-]+$", "orders-eu", "found"),
    (r"^[-[:alpha:]]+$", "orders-eu", "found"),
    (r"^[\p{L}-]+$", "orders-eu", "found"),
    (r"^[]\w-]+$", "orders]-eu", "found"),
    (r"^[a-z-\d]+$", "orders-1", "found"),
    (r"^[\x61-\x7a-\d]+$", "orders-1", "found"),
    (r"^[o-[:digit:]]", "orders.1", "refused"),
]  # fmt: skip
# What PCRE, of Erlang until OTP 27, makes of a pattern, and PCRE2.
DIFFERING = [
    ("^a{,3}$", "aa", "absent", "found"),
    ("^a{,3}$", "a{,3}", "found", "absent"),
    ("^a{1, 2}$", "aa", "absent", "found"),
    ("{,3}", "{,3}", "found", "refused"),
    ("^(?^)orders", "orders.1", "refused", "found"),
    ("(?i)^(?^:o)R", "orders.1", "refused", "found"),
    ("(?n)^(o)r", "orders.1", "refused", "found"),
    ("(?X)^o", "orders.1", "found", "refused"),
    (r"(?<!\.(dlq|dead))$", "orders.dlq", "refused", "absent"),
    (r"(?<!\.(dlq|dead))$", "orders", "refused", "found"),
    (r"(?<=o?)r", "orders.1", "refused", "found"),
    (r"(?<=o{1,256})r", "orders.1", "refused", "refused"),
    (r"(?<=o{1,255})r", "orders.1", "refused", "found"),
    (r"^[\w-.]+$", "or-ders.1", "found", "refused"),
    (r"^[[:lower:]-.]+1$", "or-ders.1", "found", "refused"),
    (r"^\y", "yes", "found", "refused"),
    (r"\8", "8", "found", "refused"),
    (r"\x", "orders.1", "absent", "refused"),
    (r"^[\Z]$", "Z", "found", "refused"),
    ("(?<n123456789012345678901234567890123>o)", "orders.1", "refused", "found"),
    ("(*NO_JIT)orders", "orders.1", "refused", "found"),
]  # fmt: skip


def outcome(pattern: str, name: str, server: str) -> str:
    try:
        check_policy("p", pattern, {"expires": 1}, "all", 0, operator=False, release=release(server))
    except PolicyRefusedError:
        return "refused"
    return "found" if pattern_found(pattern, name, release(server).regex_library) else "absent"


@pytest.mark.parametrize(("pattern", "name", "by_pcre", "by_pcre2"), DIFFERING)
def test_a_pattern_is_read_by_the_library_of_the_release(pattern: str, name: str, by_pcre: str, by_pcre2: str) -> None:
    assert {outcome(pattern, name, server) for server in ("3.8", "4.0")} == {by_pcre}
    assert outcome(pattern, name, "4.3") == by_pcre2


@pytest.mark.parametrize(("pattern", "name", "told"), SEEN)
def test_a_pattern_is_read_as_on_the_server(pattern: str, name: str, told: str) -> None:
    assert {outcome(pattern, name, server) for server in ("3.8", "4.0", "4.3")} == {told}


@pytest.mark.parametrize("library", ["PCRE", "PCRE2"])
def test_a_recursion_without_an_end_is_not_decided(library: Library) -> None:
    with pytest.raises(TimeoutError):
        compiled("(?R)", library).search("orders", timeout_s=10)
