"""What the configuration of pytest says, also in TOML, where releases may be numbers."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TABLES = ["tool.pytest", "tool.pytest.ini_options"]
RELEASES = """
    def test_it(dlx_broker):
        assert dlx_broker.release in ("3.13", "4.3")
"""


def configure(pytester: pytest.Pytester, table: str, *lines: str) -> None:
    if table == "tool.pytest" and pytest.version_tuple < (9, 0):
        pytest.skip("TOML of its own came with pytest 9")
    own = 'addopts = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]'
    pytester.makepyprojecttoml("\n".join([f"[{table}]", own, *lines]))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("dlx_releases = [3.13, 4.3]", 2),
        ('dlx_releases = ["3.13", 4.3]', 2),
        ('dlx_releases = "3.13 4.3"', 2),
        ("dlx_releases = 4.3", 1),
        ("dlx_release = 3.13", 1),
        ('dlx_release = "3.13"', 1),
    ],
)
def test_releases_may_be_numbers(loaded: None, pytester: pytest.Pytester, table: str, line: str, runs: int) -> None:
    configure(pytester, table, line)
    pytester.makepyfile(RELEASES)
    pytester.runpytest().assert_outcomes(passed=runs)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "dlx_releases = [3.10, 4.3]",
            'in the configuration: a number drops the last zero of 3.10, so write "3.10" in quotes; got 3.1',
        ),
        (
            "dlx_releases = [true]",
            'dlx_releases in the configuration: expected releases in quotes, such as ["4.3"]; got True',
        ),
        ("dlx_releases = 3.10", 'a number drops the last zero of 3.10, so write "3.10" in quotes; got 3.1'),
        ("dlx_release = 3.10", 'a number drops the last zero of 3.10, so write "3.10" in quotes; got 3.1'),
        (
            'dlx_releases = "3.13, 4.3"',
            "dlx_releases in the configuration: separate releases by spaces, not commas; got '3.13, 4.3'",
        ),
        ("dlx_releases = [4]", 'expected releases in quotes, such as ["4.3"]; got 4'),
        ("dlx_releases = [4.7]", "dlx_releases in the configuration: no release '4.7': known are"),
        ('dlx_release = "3.13 4.3"', "dlx_release in the configuration names one release; dlx_releases names several"),
        (
            'dlx_answer_within_s = "soon"',
            "dlx_answer_within_s in the configuration: expected seconds of real time, 0 or more, got 'soon'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    loaded: None, pytester: pytest.Pytester, table: str, line: str, why: str
) -> None:
    configure(pytester, table, line)
    pytester.makepyfile(RELEASES)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert why in error


@pytest.mark.parametrize(
    ("line", "runs"), [('dlx_release = "4.3"', 1), ("dlx_releases = '3.13' '4.3'", 2), ('dlx_answer_within_s = "3"', 1)]
)
def test_values_in_an_ini_file_may_have_quotes(loaded: None, pytester: pytest.Pytester, line: str, runs: int) -> None:
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider -p no:hypothesispytest\n{line}")
    pytester.makepyfile(RELEASES)
    pytester.runpytest().assert_outcomes(passed=runs)


def test_the_command_line_wins_over_a_number(loaded: None, pytester: pytest.Pytester) -> None:
    configure(pytester, "tool.pytest.ini_options", "dlx_release = 3.10")
    pytester.makepyfile(RELEASES)
    pytester.runpytest("-o", "dlx_release=3.13").assert_outcomes(passed=1)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("value", ["3", "3.0", '"3"'])
def test_how_long_time_stands_for_a_consumer_is_configured_and_marked(
    loaded: None, pytester: pytest.Pytester, table: str, value: str
) -> None:
    configure(pytester, table, f"dlx_answer_within_s = {value}")
    pytester.makepyfile("""
        import pytest

        def test_of_the_configuration(dlx_clock):
            assert dlx_clock.answer_within_s == 3

        @pytest.mark.dlx_answer_within_s(0.5)
        def test_of_the_marker(dlx_clock):
            assert dlx_clock.answer_within_s == 0.5

        @pytest.mark.dlx_answer_within_s("soon")
        def test_nonsense(dlx_clock): pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([
        "@pytest.mark.dlx_answer_within_s: expected seconds of real time, 0 or more, got 'soon'"])  # fmt: skip
