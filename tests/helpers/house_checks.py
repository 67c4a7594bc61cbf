"""House rules that no linter knows; `python -m tests.helpers.house_checks` prints what breaks them and fails.

The rules are in docs/CONTRIBUTING.md.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CODE_FOLDERS: Final = ("app", "engine", "resources", "tests")

MAX_MODULE_LINES: Final = 600
MAX_FUNCTION_LINES: Final = 60

FORBIDDEN_TEXT: Final = {
    re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"): "unfinished work belongs in an issue, not in the code",
    re.compile(r"pragma:" r" no cover"): "code that no test reaches is not kept",
}

STANDS_ON: Final = {
    "engine/contract": {"msgspec", "engine.contract"},
    "engine/core": {"platformdirs", "engine.core"},
}
"""Packages that may import the standard library and this, nothing else."""

FORBIDDEN_IN_TESTS: Final = {
    "time.sleep": "tests do not wait",
    "pytest.skip": "a test runs or is not there",
    "pytest.xfail": "a test runs or is not there",
    "pytest.importorskip": "a test runs or is not there",
    "pytest.mark.skip": "a test runs or is not there",
    "pytest.mark.skipif": "a test runs or is not there",
    "pytest.mark.xfail": "a test runs or is not there",
}


ALLOWED_IN_TESTS: Final = {
    "tests/interop/": "pytest.skip",  # not every system has a Chromium; POTLUCK_NO_SKIP=1 has none of it
    "tests/integration/lab/": "pytest.skip",  # network namespaces need root; POTLUCK_NO_SKIP=1 has none of it
    "tests/benchmarks/link.py": "time.sleep",  # a transfer gets up to its rate before anything is measured beside it
    "tests/benchmarks/averager.py": "asyncio.sleep",  # looks at its deadlines at a pace
    "tests/lab/": "asyncio.sleep",  # its computers are programs of their own that send, and tell, at a pace
    "tests/benchmarks/install.py": "time.sleep",  # programs in another tree tell of nothing: they are asked again
}


def problems_of(path: str, text: str) -> Iterator[str]:
    """What is wrong with the file `path` (relative, with forward slashes) that holds `text`."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in FORBIDDEN_TEXT.items():
            if found := pattern.search(line):
                yield f"{path}:{number}: {found.group()}: {why}"
    if not path.endswith(".py"):
        return
    length = len(text.splitlines())
    if length > MAX_MODULE_LINES:
        yield f"{path}: {length} lines, more than {MAX_MODULE_LINES}: split it"
    tree = ast.parse(text, path)
    for node in ast.walk(tree):
        yield from _function_problems(path, node)
        yield from _import_problems(path, node)
        if path.startswith("tests/"):
            yield from _test_problems(path, node)


def _function_problems(path: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
        length = node.end_lineno - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            yield f"{path}:{node.lineno}: {node.name} has {length} lines, more than {MAX_FUNCTION_LINES}: split it"


def _import_problems(path: str, node: ast.AST) -> Iterator[str]:
    allowed = next((names for folder, names in STANDS_ON.items() if path.startswith(folder + "/")), None)
    if allowed is None or not isinstance(node, ast.Import | ast.ImportFrom):
        return
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
    for module in modules:
        top = module.partition(".")[0]
        known = top in sys.stdlib_module_names or any(f"{module}.".startswith(f"{name}.") for name in allowed)
        if not known:
            yield f"{path}:{node.lineno}: imports {module}; this package may import only {', '.join(sorted(allowed))}"


def _test_problems(path: str, node: ast.AST) -> Iterator[str]:
    allowed = next((name for place, name in ALLOWED_IN_TESTS.items() if path.startswith(place)), "")
    if isinstance(node, ast.Attribute) and ast.unparse(node) == allowed:
        return
    if isinstance(node, ast.Attribute) and (why := FORBIDDEN_IN_TESTS.get(ast.unparse(node))):
        yield f"{path}:{node.lineno}: {ast.unparse(node)}: {why}"
    if allowed == "asyncio.sleep":
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.sleep" and ast.unparse(node.args[0]) != "0":
        yield f"{path}:{node.lineno}: asyncio.sleep: tests do not wait"


def tracked_files(root: Path = ROOT) -> list[Path]:
    """Text files of the repository: tracked, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in names if (root / name).suffix in (".py", ".md", ".toml", ".sh", ".html")]


def same_names(paths: list[str]) -> Iterator[str]:
    """Test modules live in folders without `__init__.py`, so two of one name would shadow each other."""
    first: dict[str, str] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        if path.startswith("tests/") and name.startswith("test_") and first.setdefault(name, path) != path:
            yield f"{path}: {first[name]} has the same file name"


def main() -> int:
    """Print every problem of the tree; 1 if there is one."""
    found: list[str] = []
    paths = [path for path in tracked_files() if path.is_file()]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    for path, name in zip(paths, names, strict=True):
        found += problems_of(name, path.read_text(encoding="utf-8"))
    found += same_names(names)
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
