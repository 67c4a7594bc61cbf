import pytest

from tests.helpers.house_checks import MAX_FUNCTION_LINES, MAX_MODULE_LINES, problems_of, same_names


def function_of(lines: int) -> str:
    return "def f() -> None:\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        ("engine/a.py", "x = 1  # TO" + "DO later\n", "unfinished"),
        ("docs/a.md", "FIX" + "ME\n", "unfinished"),
        ("engine/a.py", "x = 1  # pragma:" + " no cover\n", "no test reaches"),
        ("engine/a.py", "x = 1\n" * (MAX_MODULE_LINES + 1), "601 lines"),
        ("app/a.py", function_of(MAX_FUNCTION_LINES + 1), "f has 61 lines"),
        ("engine/contract/a.py", "import numpy\n", "imports numpy"),
        ("engine/contract/a.py", "from engine.core.paths import Paths\n", "imports engine.core.paths"),
        ("engine/core/a.py", "import msgspec.json\n", "imports msgspec.json"),
        ("tests/a.py", "time.sleep(1)\n", "do not wait"),
        ("tests/a.py", "async def f():\n    await asyncio.sleep(0.1)\n", "do not wait"),
        ("tests/a.py", "@pytest.mark.skipif(x, reason='')\ndef f(): ...\n", "runs or is not there"),
        ("tests/a.py", "pytest.skip('')\n", "runs or is not there"),
    ],
)
def test_names_what_breaks_a_rule(path: str, text: str, part: str) -> None:
    problems = list(problems_of(path, text))
    assert problems
    assert all(part in problem for problem in problems)
    assert all(problem.startswith(path) for problem in problems)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("engine/a.py", "x = 1\n" * MAX_MODULE_LINES),
        ("engine/a.py", function_of(MAX_FUNCTION_LINES)),
        ("engine/contract/a.py", "import enum\nimport msgspec\nfrom engine.contract.reasons import Reason\n"),
        ("engine/core/a.py", "import platformdirs\nfrom engine.core.paths import Paths\n"),
        ("engine/averaging/a.py", "import numpy\n"),
        ("tests/a.py", "async def f():\n    await asyncio.sleep(0)\n"),
        ("engine/a.py", "time.sleep(1)\n"),
    ],
)
def test_lets_the_rest_pass(path: str, text: str) -> None:
    assert list(problems_of(path, text)) == []


def test_two_test_modules_of_one_name() -> None:
    paths = ["tests/unit/a/test_x.py", "tests/unit/a/test_y.py", "tests/unit/b/test_x.py", "engine/a/test_x.py"]
    assert list(same_names(paths)) == ["tests/unit/b/test_x.py: tests/unit/a/test_x.py has the same file name"]
