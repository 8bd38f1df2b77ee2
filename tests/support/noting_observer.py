"""An observer of a step that calls what a test gave it."""

from collections.abc import Callable

from typing_extensions import override

from inferometer_loadgen.drive import StepObserver


class Noting(StepObserver):
    """Calls back at the edges of a window and at each of its seconds."""

    def __init__(
        self,
        begin_window: Callable[[], object] = lambda: None,
        second: Callable[[], object] = lambda: None,
        end_window: Callable[[], object] = lambda: None,
    ) -> None:
        self._begin_window, self._second, self._end_window = begin_window, second, end_window

    @override
    def begin_window(self) -> None:
        self._begin_window()

    @override
    def second(self) -> None:
        self._second()

    @override
    def end_window(self) -> None:
        self._end_window()
