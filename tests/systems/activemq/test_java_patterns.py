"""Regular expressions of Java, as the broker's plugin reads them."""

from __future__ import annotations

import pytest

from simulator.systems.activemq.java_patterns import JavaPatternError, compiled


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        (r"\QA.B\E", ["A.B"], ["AxB"]),
        (r"\QA.*", ["A.*"], ["A.B"]),
        (r"A\Q.\E.*", ["A.B"], ["AB"]),
        (r"[\Q]^\E]+", ["]^"], ["a"]),
        ("[a-c&&[^b]]", ["a", "c"], ["b", "&"]),
        ("[a|~b]", ["|", "~", "a"], ["c"]),
        (r"(?<n>a|b)\k<n>", ["aa", "bb"], ["ab"]),
        (r"\x{41}\x42\u0043\0104\cA", ["ABCD\x01"], ["ABCD"]),
        (r"A\1", [], ["A", "A1"]),
        (r"(A)\1", ["AA"], ["A"]),
        (r"A.\z", ["AB"], ["A"]),
        ("(?i)orders\\..+", ["ORDERS.eu"], ["ORDERS"]),
        (r"\w+", ["a1"], ["é"]),
        (r"(\Q(\E)(B)\2", ["(BB"], ["(B"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, names: list[str], others: list[str]) -> None:
    assert [name for name in (*names, *others) if compiled(pattern).fullmatch(name)] == names


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a{,3}", "expected a number of repetitions in braces at character 2"),
        ("${x}", "expected a number of repetitions in braces at character 2"),
        ("(?P<n>a)", "expected a group of Java's behind '(?' at character 1"),
        (r"A\E", "expected an escape of Java's at character 2"),
        (r"[\1]", "expected no reference to a group in a class at character 2"),
        ("A\\", "expected a character behind it at character 2"),
        (r"\x{110000}", "expected the number of a character at character 1"),
        ("(", "missing )"),
        ("[a--b]", "bad character range"),
    ],
)
def test_what_java_refuses_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(JavaPatternError) as raised:
        compiled(pattern)
    assert said in str(raised.value)
