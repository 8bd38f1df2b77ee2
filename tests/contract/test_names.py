"""Names of the product: a class has one meaning, and a function that acts is a verb."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from docgen.files import CHECKOUT

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_IRREGULAR = {
    *("begun", "bought", "brought", "built", "caught", "chosen", "dealt", "done", "drawn"),
    *("driven", "fed", "found", "given", "gone", "grown", "heard", "held", "hidden"),
    *("kept", "known", "laid", "led", "left", "lost", "made", "met", "paid"),
    *("seen", "sent", "shown", "sought", "spent", "spoken", "struck", "taken", "thought"),
    *("thrown", "told", "won", "worn", "written"),
}
_VERBS = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed"})
_DICTATED = {
    "extended": "kopf's store of credentials has it",
    "opened": "an event of a connection, as `connection_made` of asyncio",
    "closed": "an event of a connection, as `connection_lost` of asyncio",
    "done": "as the work queue of client-go has it",
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_two_product_files_define_a_class_of_the_same_name() -> None:
    """A reader who has learnt a name in one component knows it in all others."""
    files = defaultdict(list)
    for path in sorted(CHECKOUT.glob("*/src/**/*.py")):
        for name in _CLASS.findall(path.read_text(encoding="utf-8")):
            if not name.startswith("_"):
                files[name].append(str(path.relative_to(CHECKOUT)))
    assert len(files) > 500
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_no_function_that_acts_is_named_by_a_participle() -> None:
    """What is awaited, or returns nothing, acts: `send`, and not `sent`."""
    functions = [
        (f"{path.relative_to(CHECKOUT)}:{each.lineno}", each)
        for path in sorted(CHECKOUT.glob("*/src/**/*.py"))
        for each in _functions(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.AsyncFunctionDef) or _returns_nothing(each)
    ]
    assert len(functions) > 1500
    participles = {where: each.name for where, each in functions if _is_participle(each.name)}
    wrong = {where: name for where, name in participles.items() if name not in _DICTATED}
    assert wrong == {}
    assert set(participles.values()) == set(_DICTATED)


def _functions(tree: ast.Module) -> Iterator[_Function]:
    """Yield the functions of a module and the methods of its classes."""
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    for body in (tree.body, *(each.body for each in classes)):
        yield from (each for each in body if isinstance(each, _Function))


def _returns_nothing(function: _Function) -> bool:
    return isinstance(function.returns, ast.Constant) and function.returns.value is None


def _is_participle(name: str) -> bool:
    word = name.strip("_")
    is_regular = word.endswith("ed") and "_" not in word and word not in _VERBS
    return is_regular or word in _IRREGULAR
