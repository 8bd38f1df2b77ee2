"""`inferometer validate`: would this file be run?"""

from inferometer_cli.run_file import RunFile, SetOption, read_run_file
from inferometer_cli.terminal import say


def validate(file: RunFile, set_: SetOption = None) -> None:
    """Say whether a file is a BenchmarkRun that can be run here, or everything that is wrong."""
    run = read_run_file(file, set_ or [])
    names = ", ".join(f"{scenario.name} ({scenario.kind})" for scenario in run.spec.scenarios)
    say(f"{file} is a valid BenchmarkRun: {run.name}, scenarios {names}")
