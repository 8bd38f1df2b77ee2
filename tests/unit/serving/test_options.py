"""The server's options take effect, and wrong ones are refused."""

import argparse
from pathlib import Path

import pytest

from inferometer_serving.command_line import OPTIONS, add_options, parse, serve_options
from inferometer_serving.options import Device, ServeOptions


def _read(*words: str) -> ServeOptions:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return serve_options(Path("m.onnx"), vars(parse(parser, words)), default_name="m")


def test_defaults_are_those_of_the_options() -> None:
    """Without any option the dataclass's own defaults hold."""
    assert _read() == ServeOptions(model=Path("m.onnx"), model_name="m")


def test_every_option_is_read() -> None:
    """Each option reaches its field; shapes may be given for several inputs."""
    found = _read(
        *("--model-name", "n", "--device", "gpu", "--threads", "4", "--host", "::1"),
        *("--http-port", "8000", "--grpc-port", "8001", "--max-body-bytes", "10"),
        *("--max-model-bytes", "20", "--warm-up-batch-sizes", "1,8,8,32"),
        *("--warm-up-shape", "a=1,2", "--warm-up-shape", "b=c=3", "--drain-seconds", "1.5"),
        *("--run", "r", "--run-namespace", "n"),
    )
    assert found == ServeOptions(
        model=Path("m.onnx"),
        model_name="n",
        device=Device.GPU,
        threads=4,
        host="::1",
        http_port=8000,
        grpc_port=8001,
        max_body_bytes=10,
        max_model_bytes=20,
        warm_up_batch_sizes=(1, 8, 32),
        warm_up_shapes={"a": (1, 2), "b=c": (3,)},
        drain_seconds=1.5,
        run="r",
        run_namespace="n",
    )
    assert len({option.flag for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize(
    "words",
    [
        ("--threads", "0"),
        ("--threads", "1.5"),
        ("--http-port", "65536"),
        ("--grpc-port", "x"),
        ("--device", "TPU"),
        ("--warm-up-batch-sizes", "1,,2"),
        ("--warm-up-batch-sizes", "0"),
        ("--warm-up-shape", "3"),
        ("--warm-up-shape", "a=-1"),
        ("--drain-seconds", "-1"),
        ("--drain-seconds", "nan"),
        ("--model-name", "a/b"),
        ("--model-name", ""),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A value out of bounds ends with exit code 2 and says what would do."""
    with pytest.raises(SystemExit) as caught:
        _read(*words)
    assert caught.value.code == 2
    assert f"argument {words[0]}: " in capsys.readouterr().err


def test_a_delay_without_batches_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An option that would have no effect is refused."""
    with pytest.raises(SystemExit) as refused:
        _read("--max-delay-microseconds", "100")
    assert refused.value.code == 2
    assert "never joined without --max-batch-size" in capsys.readouterr().err
    assert _read("--max-delay-microseconds", "100", "--max-batch-size", "4").max_batch_size == 4
