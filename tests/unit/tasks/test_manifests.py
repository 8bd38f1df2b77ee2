"""Manifests are checked as a whole, and their constraints resolved before anything starts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.resolution import Machine
from inferometer_api.manifest.version_constraint import (
    ConstraintError,
    check_constraint,
    nearest,
    satisfies,
)
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.manifest_file import is_manifest, read_manifest
from inferometer_tasks.resolution import check_engine, check_machine
from support.digits import MANIFEST

INSTALLED = {"onnxruntime": "1.31.0", "openvino": "2025.4.1"}


def written(folder: Path, text: str = MANIFEST) -> Path:
    """Write a manifest and return its path."""
    path = folder / "model.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("version", "constraint", "wanted"),
    [
        ("1.31.0", ">=1.20 <2", True),
        ("2.0.0", ">=1.20 <2", False),
        ("1.12.3", "1.12", True),
        ("1.13.0", "1.12", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("1.9.0", "^1.2", True),
        ("2.0.0", "^1.2", False),
        ("0.2.9", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("1.20.7", "1.20.x", True),
        ("1.17.0", "<1.18 || >=1.20", True),
        ("1.19.0", "<1.18 || >=1.20", False),
        ("1.31.0", "*", True),
        ("1.12.1", ">=1.12.0, <1.13", True),
        ("1.20.1", "<=1.20", True),
        ("1.20.1", "<=1.20.x", True),
        ("1.21.0", "<=1.20.x", False),
        ("1.20.1", "<=1.20.0", False),
        ("1.20.1", ">1.20", False),
        ("1.20.1", ">1.20.x", False),
        ("1.21.0", ">1.20", True),
        ("1.20.1", ">1.20.0", True),
        ("1.20.1", "!=1.20.x", False),
        ("1.20.1", "!=1.20", False),
        ("1.20.1", "!=1.20.0", True),
        ("1.21.0", "!=1.20.x", True),
        ("1.9.0", "<=1", True),
        ("2.0.0", ">1", True),
        ("1.20.0", ">=1.20.x <1.21.x", True),
        ("1.21.0", ">=1.20.x <1.21.x", False),
        ("1.20.0", ">=*", True),
        ("1.20.0", ">*", False),
        ("0.0.0", "<*", False),
        ("1.20.0", "1.20.0rc1 || 1.20rc1", False),
        ("1.20.0rc1", "1.20rc1", True),
        ("no version", "*", False),
        ("1.21.0rc1", "^1.20", False),
        ("1.21.0rc1", ">=1.20 <2", False),
        ("1.21.0.dev1", "*", False),
        ("1.21.0rc2", ">=1.21.0-rc.1 <2", True),
        ("1.21.1rc2", ">=1.21.0-rc.1 <2", False),
        ("1.21.1rc2", ">=1.21.0-rc.1 <2 || 1.21.1-rc.2", True),
        ("2.0.0", ">=1.20 <2.0.0-0", False),
        ("1.99.0", ">=1.20 <2.0.0-0", True),
        ("1.20.0", "1.20.0 - 1.22.0", True),
        ("1.22.0", "1.20.0 - 1.22.0", True),
        ("1.22.1", "1.20.0 - 1.22.0", False),
        ("1.22.9", "1.20 - 1.22", True),
        ("1.23.0", "1.20 - 1.22 || 2.x", False),
        ("2.3.0", "1.20 - 1.22 || 2.x", True),
        ("1.23.0", "1.20 - *", True),
        ("1.19.0", "1.20 - x", False),
        ("2.9.0", "* - 2", True),
        ("3.0.0", "* - 2", False),
        ("1.2.9", "~>1.2", True),
        ("1.3.0", "~>1.2", False),
        ("1.2.9", "~> 1.2.3", True),
        ("1.2.3", "X.X", True),
        ("1.2.3", "*.1", True),
        ("1.2.3", ">x.1", False),
        ("1.2.9", "1.x.3", True),
        ("2.2.3", "1.x.3", False),
        ("1.9.9", "^1.x.3", True),
        ("1.2.3", "||", True),
        ("1.2.3", "9 ||", True),
        ("1.2.3", "|| 9", True),
        ("1.2.3rc1", "9 ||", False),
        ("1.9.0", "^1.2.3+b1", True),
        ("1.2.2", "^1.2.3+b1", False),
        ("1.2.3", "1.2.3+build", True),
        ("1.2.3+build", "1.2.3", True),
        ("1.2.3+build", "<=1.2.3", True),
        ("1.2.3+build", ">1.2.3", False),
        ("1.2.3+one", "1.2.3+other", True),
        ("1.2.3+a-b", "1.0 - 1.2.3+c-d", True),
    ],
)
def test_versions_are_judged_as_npm_does(version: str, constraint: str, wanted: bool) -> None:  # noqa: FBT001 - one of the cases
    """Ranges, carets, tildes, wildcards and alternatives."""
    assert satisfies(version, constraint) is wanted


@pytest.mark.parametrize(
    "constraint",
    ["newest", ">=", ">=1.0 <", "1.2 beta", "1.2 -", "- 1.2", "", " ", "~>=1", "1.2 || x y"],
)
def test_a_constraint_that_cannot_be_read_says_how_to_write_one(constraint: str) -> None:
    """It is not taken as any version."""
    with pytest.raises(ConstraintError, match="write one like"):
        check_constraint(constraint)


_PARTS = st.tuples(*[st.integers(0, 30)] * 3)


@given(version=_PARTS, low=_PARTS, high=_PARTS)
def test_a_range_is_that_of_its_numbers(
    version: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]
) -> None:
    """Versions compare part by part, as numbers."""
    text, least, limit = (".".join(map(str, each)) for each in (version, low, high))
    assert satisfies(text, f">={least} <{limit}") is (low <= version < high)


def test_the_nearest_version_is_named() -> None:
    """The closest to a version in the constraint, the newest of equal ones."""
    assert nearest(["1.10.0", "1.19.0", "3.0.0"], ">=1.20 <2") == "1.19.0"
    assert nearest(["1.10.0", "1.31.0"], "*") == "1.31.0"
    assert nearest([], "*") is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version: 1.0.0", "version: one", "version"),
        ("modality: Values", "modality: Smell", "modality"),
        ("license: Apache-2.0\n", "", "license"),
        ("{divideBy: 16}", "{divideBy: 0}", "divideBy"),
        ("normalize: {divideBy: 16}", "polish: {}", "polish"),
        (">=1.20 <2", "new", "write one like"),
        ("softmax: {}", "softmax: {}\n      - topK: {k: 1}", "no step follows it"),
        ("- normalize", "- decode: {}\n      - normalize", "decode takes bytes, but gets values"),
        (
            "- reshape",
            "- resize: {height: 2}\n      - reshape",
            "image steps come before normalize",
        ),
    ],
)
def test_a_broken_manifest_is_refused_with_the_place(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    """Every field, and steps that do not follow from each other."""
    assert old in MANIFEST
    with pytest.raises(TaskRefusedError) as refused:
        read_manifest(written(tmp_path, MANIFEST.replace(old, new, 1)))
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value) or "constraint" in str(refused.value)


def test_python_takes_the_place_of_steps(tmp_path: Path) -> None:
    """Both together have no order."""
    with pytest.raises(TaskRefusedError, match="remove one of the two"):
        read_manifest(written(tmp_path, MANIFEST + "preprocess: 'def preprocess(c, d): ...'\n"))


def test_only_a_manifest_is_taken_for_one(tmp_path: Path) -> None:
    """A run file called model.yaml stays a run file."""
    assert is_manifest(written(tmp_path))
    assert not is_manifest(written(tmp_path, "kind: BenchmarkRun\n"))
    assert not is_manifest(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("constraint", "engine", "words"),
    [
        (">=1.40 <2", "onnxruntime", "the nearest is onnxruntime 1.31.0"),
        (">=1.20 <2", "openvino", "onnxruntime 1.31.0 would do, so change server.runtime"),
    ],
)
def test_a_constraint_that_nothing_satisfies_names_the_nearest(
    constraint: str, engine: str, words: str, tmp_path: Path
) -> None:
    """What was required, what there is, and what to do."""
    manifest = read_manifest(written(tmp_path, MANIFEST.replace(">=1.20 <2", constraint)))
    with pytest.raises(TaskRefusedError) as refused:
        check_engine(manifest, engine, INSTALLED)
    assert words in str(refused.value)


def test_an_engine_that_nobody_offers_names_those_there_are(tmp_path: Path) -> None:
    """A manifest for TensorFlow can be kept, not run."""
    text = MANIFEST.replace("name: onnxruntime", "name: TensorFlow")
    with pytest.raises(TaskRefusedError, match=r"onnxruntime 1\.31\.0, openvino 2025\.4\.1"):
        check_engine(read_manifest(written(tmp_path, text)), "onnxruntime", INSTALLED)
    check_engine(read_manifest(written(tmp_path)), "onnxruntime", INSTALLED)


EITHER = """\
framework:
  - {name: onnxruntime, version: ">=1.20 <2"}
  - {name: OpenVINO, version: ">=2025"}
"""
ONE = 'framework: {name: onnxruntime, version: ">=1.20 <2"}\n'
NEEDS = "needs onnxruntime >=1.20 <2 or OpenVINO >=2025"


@pytest.mark.parametrize(
    ("engine", "installed", "words"),
    [
        ("onnxruntime", INSTALLED, ""),
        ("openvino", INSTALLED, ""),
        ("onnxruntime", {"onnxruntime": "1.31.0"}, ""),
        ("openvino", INSTALLED | {"openvino": "2024.1"}, "onnxruntime 1.31.0 would do, so change"),
        ("tensorrt", INSTALLED, "onnxruntime 1.31.0 or OpenVINO 2025.4.1 would do, so change"),
        (
            "openvino",
            {"onnxruntime": "1.19.0", "openvino": "2024.1"},
            "the nearest is onnxruntime 1.19.0 or OpenVINO 2024.1. Install another version",
        ),
        ("openvino", {"openvino": "2024.1"}, "the nearest is OpenVINO 2024.1. Install"),
        (
            "tensorrt",
            {"tensorrt": "11.0"},
            "the engines that could run it here: tensorrt",
        ),
    ],
)
def test_one_of_several_engines_is_enough(
    engine: str, installed: dict[str, str], words: str, tmp_path: Path
) -> None:
    """The same model under each; a refusal names what each needs, and what came nearest."""
    assert ONE in MANIFEST
    manifest = read_manifest(written(tmp_path, MANIFEST.replace(ONE, EITHER)))
    if not words:
        check_engine(manifest, engine, installed)
        return
    with pytest.raises(TaskRefusedError) as refused:
        check_engine(manifest, engine, installed)
    assert NEEDS in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("[]", "framework: must be a list of 1 to 8 items"),
        ("[{name: a}, {name: a}]", "framework[1].name: stands at index 0 already"),
        ("[{name: a}, {name: A}]", "framework[1].name: stands at index 0 already"),
        ("[{name: a}, {name: b, version: new}]", "[1].version: cannot be read: write one like"),
        ("{name: a, version: new}", "line 8: framework.version: cannot be read: write one like"),
        ("\n  name: a\n  version: 1.20- 2", "line 10: framework.version: cannot be read: write"),
        ("{name: a, version: 1.2}", 'found 1.2: write it in quotes, "1.2"'),
        ("{name: a, version: 1.20}", 'found 1.20: write it in quotes, "1.20"'),
        ("[{name: a, version: 1.20}]", 'found 1.20: write it in quotes, "1.20"'),
        ("{name: a, versoin: '1'}", "unknown field; did you mean version?"),
    ],
)
def test_broken_engines_are_refused(framework: str, words: str, tmp_path: Path) -> None:
    """One mapping or a list of them, each with its own constraint."""
    text = MANIFEST.replace(ONE, f"framework: {framework}\n")
    with pytest.raises(TaskRefusedError) as refused:
        read_manifest(written(tmp_path, text))
    assert words in str(refused.value)


def test_everything_that_the_machine_lacks_is_named(tmp_path: Path) -> None:
    """Architecture, CPUs, memory and device at once."""
    text = MANIFEST.replace(
        "{cpus: 1, memory: 64Mi}",
        "{cpus: 4, memory: 8Gi, architectures: [aarch64], device: GPU}",
    )
    manifest = read_manifest(written(tmp_path, text))
    with pytest.raises(TaskRefusedError) as refused:
        check_machine(manifest, Machine("x86_64", 2, 4 << 30, "CPU"))
    for words in ("device GPU", "aarch64, and this is x86_64", "4 CPUs", "8Gi of memory"):
        assert words in str(refused.value)
    check_machine(manifest, Machine("aarch64", 4, 8 << 30, "GPU"))


@pytest.mark.parametrize("path", ["../labels.txt", "/etc/labels.txt"])
def test_a_text_in_the_manifest_has_a_path_below_its_folder(path: str, tmp_path: Path) -> None:
    """Although no file is read: another person may unpack it."""
    manifest = read_manifest(written(tmp_path, MANIFEST.replace("labels.txt", path)))
    with pytest.raises(TaskRefusedError, match="leaves the folder"):
        Assets(manifest, tmp_path).check()


@pytest.mark.parametrize("path", ["../labels.txt", "/etc/hostname", "absent.txt"])
def test_an_asset_outside_or_absent_is_refused(path: str, tmp_path: Path) -> None:
    """A path that leaves the folder is never read."""
    (tmp_path / "labels.txt").write_text("secret")
    folder = tmp_path / "inner"
    folder.mkdir()
    text = MANIFEST.replace('{path: labels.txt, text: "0\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"}',
                            f"{{path: {path}}}")  # fmt: skip
    manifest = read_manifest(written(folder, text))
    with pytest.raises(TaskRefusedError, match=r"leaves the folder|is no file"):
        Assets(manifest, folder).check()


def test_labels_that_no_asset_declares_are_checked(tmp_path: Path) -> None:
    """A step may name a file that the list of assets lacks."""
    text = MANIFEST.replace("labels: labels.txt", "labels: other.txt")
    manifest = read_manifest(written(tmp_path, text))
    with pytest.raises(TaskRefusedError, match=r"'other\.txt', but .* is no file"):
        Assets(manifest, tmp_path).check()
    (tmp_path / "other.txt").write_text("a\n")
    Assets(manifest, tmp_path).check()


def test_an_asset_with_another_checksum_is_refused(tmp_path: Path) -> None:
    """It is another file."""
    (tmp_path / "labels.txt").write_text("a\nb\n")
    text = MANIFEST.replace(
        'text: "0\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"', f"sha256: {'a' * 64}"
    )
    manifest = read_manifest(written(tmp_path, text))
    with pytest.raises(TaskRefusedError, match="another file"):
        Assets(manifest, tmp_path).check()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_an_asset_may_end_as_on_windows(end: str, tmp_path: Path) -> None:
    """Labels have no carriage return, and other separators stay characters."""
    (tmp_path / "labels.txt").write_bytes(end.join(["cat", "", "\u2028", "dog", ""]).encode())
    assets = Assets(ModelManifest.model_construct(assets=[]), tmp_path)  # type: ignore[call-arg]  # the rest is unread
    assert assets.lines("labels.txt") == ("cat", "", "\u2028", "dog")
