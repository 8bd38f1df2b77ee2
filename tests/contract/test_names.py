"""Names of the product's classes have one meaning."""

import re
from collections import defaultdict

from docgen.files import CHECKOUT

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def test_no_two_product_files_define_a_class_of_the_same_name() -> None:
    """A reader who has learnt a name in one component knows it in all others."""
    files = defaultdict(list)
    for path in sorted(CHECKOUT.glob("*/src/**/*.py")):
        for name in _CLASS.findall(path.read_text(encoding="utf-8")):
            if not name.startswith("_"):
                files[name].append(str(path.relative_to(CHECKOUT)))
    assert len(files) > 500
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
