"""YAML is read as kubectl reads it."""

import pytest
import yaml

from inferometer_api.spec.yaml_text import UnreadableTextError, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("8.0", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("0x10", 16),
        ("-0x10", -16),
        ("0b11", 3),
        ("010", 8),
        ("0o10", 8),
        ("08", 8.0),
        ("1_000", 1000),
        ("18446744073709551616", 2**64),
        ("1e400", "1e400"),
        ("yes", True),
        ("on", True),
        ("y", True),
        ("Off", False),
        ("yEs", "yEs"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("2001-01-01", "2001-01-01"),
        ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
        ("-", [None]),
        ("'8'", "8"),
        ('"yes"', "yes"),
        ("!!str 8", "8"),
        ("!!int '8'", 8),
        ("|\n  8\n", "8\n"),
        ("=", "="),
    ],
)
def test_a_scalar_is_read_as_go_yaml_reads_it(text: str, value: object) -> None:
    """A value has the type that kubectl sends; the table was compared with sigs.k8s.io/yaml."""
    found = read_yaml(f"key: {text}" if text != "-" else "key:\n-").data["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_strings() -> None:
    """A key of another type becomes the text that JSON has for it."""
    assert read_yaml("{1: a, true: b, 1.5: c}").data == {"1": "a", "true": "b", "1.5": "c"}


def test_a_merge_key_is_refused() -> None:
    """`<<` is refused with its place and what to write instead."""
    message = r"line 2, column 5: merge keys \(<<\) are not supported; write the members out"
    with pytest.raises(UnreadableTextError, match=message):
        read_yaml("a: &a {x: 1}\nb: {<<: *a, w: 3}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!!int x", "'x' is not a int"),
        ("!!bool 8", "'8' is not a bool"),
        ("!!timestamp 2001-01-01", "the tag tag:yaml.org,2002:timestamp is unknown"),
        ("!!set {a}", "the tag tag:yaml.org,2002:set is unknown"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(text: str, message: str) -> None:
    """A value must have the type of its tag; only the tags of JSON types are known."""
    with pytest.raises(UnreadableTextError, match=message):
        read_yaml(text)


def test_every_value_has_its_line() -> None:
    """The line of each key and each item is known."""
    lines = read_yaml("a:\n  b: 1\n  c:\n  - 2\n  - d: 3\n").lines
    assert lines == {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, "d"): 5,
    }


def test_json_is_read_as_json() -> None:
    """JSON may be indented by tabs, and keeps 8.0 apart from 8."""
    assert read_yaml('{\n\t"a": [8.0, "\\u00e9"]\n}').data == {"a": [8.0, "é"]}


def test_json_may_escape_a_character_in_two_halves() -> None:
    """A surrogate pair is one character."""
    assert read_yaml('{"a": "\\ud83d\\ude00\\/"}').data == {"a": "\U0001f600/"}


def test_json_has_no_constants() -> None:
    """NaN is a text, which no field for a number accepts."""
    assert read_yaml('{"a": NaN}').data == {"a": "NaN"}


@pytest.mark.parametrize(
    "value",
    ["y", "N", "on", "~", "", "08", "1e3", "0b1", "1:30", "2001-01-01", "<<", "=", "two\nlines\n"],
)
def test_what_is_written_is_read_as_the_same(value: str) -> None:
    """A text stays a text as value and key, whichever of the two readers reads it."""
    text = write_yaml({"key": value, value: 1, "number": 1.5, "list": [True, None]})
    for found in (read_yaml(text).data, yaml.safe_load(text)):
        assert found == {"key": value, value: 1, "number": 1.5, "list": [True, None]}
