"""Random small faults in the pure parts of the product, by their syntax trees."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants.catalogue import Mutant

_LOADGEN = "loadgen/src/inferometer_loadgen"
TARGETS: dict[str, tuple[str, ...]] = {
    "operator/src/inferometer_operator/reconcile": ("tests/unit/operator",),
    f"{_LOADGEN}/verdict": ("tests/unit/loadgen",),
    f"{_LOADGEN}/schedule": ("tests/unit/loadgen", "tests/unit/fleet", "tests/virtual"),
    f"{_LOADGEN}/record": ("tests/unit/loadgen", "tests/unit/fleet", "tests/virtual"),
}
"""Folders that get faults, and the tests that should notice; the gate has more."""

_FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

_SYMMETRIC = {"min", "max"}
"""Functions for which the order of the arguments does not matter."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """A node, and the text that takes its place."""

    node: ast.expr
    replacement: ast.expr
    description: str


def random_mutants(root: Path, count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants drawn by a seed from all possible ones, each in another place."""
    possible = [
        (path, tests, fault)
        for folder, tests in sorted(TARGETS.items())
        for path in sorted((root / folder).rglob("*.py"))
        for fault in _faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    chosen = random.Random(seed).sample(possible, min(count, len(possible)))  # noqa: S311 - no secret
    return [
        _mutant(root, path, fault, tests, number)
        for number, (path, tests, fault) in enumerate(chosen, 1)
    ]


def _mutant(root: Path, path: Path, fault: _Fault, tests: tuple[str, ...], number: int) -> Mutant:
    """Return a mutant whose old text is the whole file, since a fragment may stand in it twice."""
    text = path.read_text(encoding="utf-8")
    node = fault.node
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
    replacement = f"({ast.unparse(fault.replacement)})".encode()
    changed = (text.encode()[:start] + replacement + text.encode()[end:]).decode()
    file = str(path.relative_to(root))
    before = ast.unparse(node)
    return Mutant(
        name=f"random {number}: {file}:{node.lineno}",
        description=f"{fault.description}: {before}  ->  {ast.unparse(fault.replacement)}",
        file=file,
        old=text,
        new=changed,
        tests=tests,
    )


def _faults(tree: ast.Module) -> Iterator[_Fault]:
    """Yield every small fault that a file can have, outside annotations and decorators."""
    skipped = {id(each) for part in _without_effect(tree) for each in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in skipped:
            yield from _faults_of(node)


def _without_effect(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the parts whose change no test could notice, or need not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from node.decorator_list
        match node:
            case ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.FunctionDef(returns=returns, args=arguments):
                if returns is not None:
                    yield returns
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                yield from (each.annotation for each in every if each.annotation is not None)
            case ast.JoinedStr():
                yield node  # words of a message
            case _:
                pass


def _faults_of(node: ast.expr) -> Iterator[_Fault]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
            type(operator) in _FLIPS
        ):
            flipped = ast.Compare(left, [_FLIPS[type(operator)]()], [right])
            yield _Fault(node, flipped, "a comparison flipped")
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield _Fault(node, ast.Constant(value + 1), "a number one larger")
            if value > 0:
                yield _Fault(node, ast.Constant(value - 1), "a number one smaller")
        case ast.Constant(value=bool() as value):
            yield _Fault(node, ast.Constant(not value), "a truth turned round")
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield _Fault(node, ast.BoolOp(other, values), "and/or swapped")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Fault(node, operand, "a not dropped")
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not _is_text(left, right):
            yield _Fault(node, ast.BinOp(left, ast.Sub(), right), "plus becomes minus")
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield _Fault(node, ast.BinOp(right, ast.Sub(), left), "a difference turned round")
        case ast.Call(func=function, args=[first, second, *rest], keywords=keywords) if (
            ast.unparse(function) not in _SYMMETRIC
        ):
            swapped = ast.Call(function, [second, first, *rest], keywords)
            yield _Fault(node, swapped, "two arguments swapped")
        case _:
            pass


def _is_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(each, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in operands
    )
