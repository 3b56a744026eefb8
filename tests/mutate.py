"""Change random places of the package one at a time, and count the changes that a test notices.

    python tests/mutate.py --number 200 --seed 1 --revision HEAD

A change swaps an operator, negates a condition, adds 1 to a number, returns None or drops a call.
Then the tests of its room that are not slow run until one fails or ten minutes have passed. Changes
are made in another checkout. Those that no test notices are printed; some of them make no
difference.
"""

import argparse
import ast
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SWAPPED: dict[type[ast.AST], Any] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult},
}
NONE = ast.Constant(None)
Place = ast.expr | ast.stmt


def changes(tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    """Yield each part of a module that can be changed, and what takes its place."""
    for node in without_types(tree):
        match node:
            case ast.Compare(left, [operator, *more], right) if type(operator) in SWAPPED:
                yield node, ast.Compare(left, [SWAPPED[type(operator)](), *more], right)
            case ast.BoolOp(operator, values):
                yield node, ast.BoolOp(SWAPPED[type(operator)](), values)
            case ast.BinOp(left, operator, right) if type(operator) in SWAPPED:
                yield node, ast.BinOp(left, SWAPPED[type(operator)](), right)
            case ast.Constant(bool() as value):
                yield node, ast.Constant(not value)
            case ast.Constant(int() | float() as value):
                yield node, ast.Constant(value + 1)
            case ast.UnaryOp(ast.Not(), operand):
                yield node, operand
            case ast.If(test) | ast.While(test) if isinstance(test, ast.Name | ast.Call):
                yield test, ast.UnaryOp(ast.Not(), test)
            case ast.Return(ast.expr()):
                yield node, ast.Return(NONE)
            case ast.Expr(ast.Call()):
                yield node, ast.Expr(NONE)


def without_types(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a tree without annotations, decorators and imports for a type checker."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
                continue
            if isinstance(part, ast.AST):
                yield from without_types(part)


def replaced(text: str, old: Place, new: Place) -> str:
    """Return a module with another part; the rest keeps its lines."""
    assert old.end_lineno is not None and old.end_col_offset is not None
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: old.lineno - 1]) + lines[old.lineno - 1][: old.col_offset]
    rest = b"".join(lines[old.end_lineno :])
    after = lines[old.end_lineno - 1][old.end_col_offset :] + rest
    code = ast.unparse(ast.fix_missing_locations(new))
    return (before + (f"({code})" if isinstance(new, ast.expr) else code).encode() + after).decode()


def is_noticed(path: Path, checkout: Path) -> bool:
    """Return whether a test fails of the room that a module is in."""
    room = path.relative_to(checkout / "seq2seq").parent
    tests = sorted((checkout / "tests" / room).glob("test_*.py"))
    tests.sort(key=lambda test: (path.stem not in test.name, path.stem not in test.read_text()))
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-m", "not slow"]
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *map(str, tests)],
            cwd=checkout,
            env=environment,
            capture_output=True,
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--revision", default="HEAD", help="commit to change (default: HEAD)")
    options = parser.parse_args()
    checkout = Path(tempfile.mkdtemp()) / "checkout"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", checkout, options.revision], check=True)
    try:
        paths = sorted((checkout / "seq2seq").rglob("*.py"))
        texts = {path: path.read_text(encoding="utf-8") for path in paths}
        places = [(path, *each) for path in paths for each in changes(ast.parse(texts[path]))]
        num_noticed = 0
        chosen = random.Random(options.seed).sample(places, options.number)
        for number, (path, old, new) in enumerate(chosen, start=1):
            path.write_text(replaced(texts[path], old, new), encoding="utf-8")
            noticed = is_noticed(path, checkout)
            path.write_text(texts[path], encoding="utf-8")
            num_noticed += noticed
            if not noticed:
                place = f"{path.relative_to(checkout)}:{old.lineno}"
                print(f"{place}: {ast.unparse(old)[:60]} -> {ast.unparse(new)[:60]}", flush=True)
            print(f"{num_noticed} of {number} noticed", flush=True)
    finally:
        subprocess.run([*git, "remove", "--force", checkout], check=True)


if __name__ == "__main__":
    main()
