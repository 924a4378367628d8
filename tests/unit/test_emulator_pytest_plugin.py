"""The pytest fixture, as somebody else's tests use it: a pytest of its own, in a process of its own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests that opted in, with a key pair of its own in the environment."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "the-developers-own")
    pytester.makeconftest('pytest_plugins = ["sls_io.emulator.pytest_plugin"]')
    return pytester


def run(elsewhere: pytest.Pytester, text: str) -> pytest.RunResult:
    """The result of the tests in `text`, with strict marks."""
    elsewhere.makepyfile(text)
    return elsewhere.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")


def test_each_test_has_an_emulator_of_its_own_that_ends_with_it(elsewhere: pytest.Pytester) -> None:
    result = run(
        elsewhere,
        """
        import os

        ports = []

        def test_first(sls_emulator):
            ports.append(sls_emulator.port)
            sls_emulator.admin.limits(groups_max=1)
            assert sls_emulator.admin.state()["projects"] == []

        def test_second(sls_emulator):
            assert sls_emulator.admin.limits()["groups_max"] == 30
            ports.append(sls_emulator.pid)

        def test_after():
            assert not os.path.exists(f"/proc/{ports[1]}")
        """,
    )
    result.assert_outcomes(passed=3)


def test_marks_say_how_it_starts_and_the_nearest_decides(elsewhere: pytest.Pytester) -> None:
    result = run(
        elsewhere,
        """
        import pytest

        pytestmark = pytest.mark.sls_emulator(now=1_790_000_000, limits={"groups_max": 3})

        def test_of_the_module(sls_emulator):
            assert 0 <= sls_emulator.admin.now() - 1_790_000_000 < 60
            assert sls_emulator.admin.limits()["groups_max"] == 3

        @pytest.mark.sls_emulator(limits={"groups_max": 4}, data=True)
        def test_of_its_own(sls_emulator, tmp_path):
            assert 0 <= sls_emulator.admin.now() - 1_790_000_000 < 60
            assert sls_emulator.admin.limits()["groups_max"] == 4
            assert list((tmp_path / "sls-emulator").glob("*.seg"))
        """,
    )
    result.assert_outcomes(passed=2)


def test_it_signs_with_the_documented_pair_unless_told_otherwise(elsewhere: pytest.Pytester) -> None:
    result = run(
        elsewhere,
        """
        import pytest
        from aliyun.log import LogClient, LogException

        def projects(emulator, monkeypatch, *pair):
            monkeypatch.setenv("http_proxy", emulator.endpoint)
            monkeypatch.setenv("no_proxy", "")
            return LogClient("http://sls.emu", *pair).list_project().get_projects()

        def test_documented(sls_emulator, monkeypatch):
            assert projects(sls_emulator, monkeypatch, "emulator-key", "emulator-secret") == []

        @pytest.mark.sls_emulator(key_pair=("mine", "secret"))
        def test_told(sls_emulator, monkeypatch):
            assert projects(sls_emulator, monkeypatch, "mine", "secret") == []
            with pytest.raises(LogException, match="Unauthorized"):
                projects(sls_emulator, monkeypatch, "emulator-key", "emulator-secret")
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_wrong_mark_says_what_is_right(elsewhere: pytest.Pytester) -> None:
    result = run(
        elsewhere,
        """
        import pytest

        @pytest.mark.sls_emulator(colour="red")
        def test_name(sls_emulator):
            pass

        @pytest.mark.sls_emulator(5)
        def test_value(sls_emulator):
            pass

        @pytest.mark.sls_emulator(limits={"groups_max": 0})
        def test_limit(sls_emulator):
            pass
        """,
    )
    result.assert_outcomes(errors=3)
    said = result.stdout.str()
    assert "mark sls_emulator: colour; it takes now, limits, data, key_pair" in said
    assert "mark sls_emulator: a value without a name; it takes now, limits, data, key_pair" in said
    assert "mark sls_emulator: limits: groups_max: Input should be greater than or equal to 1" in said
