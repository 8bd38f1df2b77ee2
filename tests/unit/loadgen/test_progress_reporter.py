"""Progress of what no driver sends: the samples of a data set."""

import asyncio

from inferometer_api.plan.reports import ProgressReport
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.reporting.report_writer import LastingReport


class _NoSink:
    """Sink that drops all reports."""

    def progress(self, report: ProgressReport) -> None:
        pass

    def add(self, report: LastingReport) -> None:
        pass


def test_samples_are_measured_and_counted() -> None:
    """From the first one on the stage is Measuring; the next scenario counts none of them."""

    async def reports() -> list[ProgressReport]:
        progress = ProgressReporter(_NoSink(), 2, on_gone=lambda: None)
        progress.preparing("acc", "", 0)
        found = [progress.now()]
        progress.sending(200)
        found.append(progress.now())
        progress.report_samples(50, 3)
        found.append(progress.now())
        progress.preparing("next", "", 1)
        found.append(progress.now())
        progress.close()
        return found

    assert [
        (each.stage, each.fraction, each.queries, each.failed, each.sample_count)
        for each in asyncio.run(reports())
    ] == [
        ("Preparing", 0.0, 0, 0, None),
        ("Measuring", 0.0, 0, 0, 200),
        ("Measuring", 0.25, 50, 3, 200),
        ("Preparing", 0.0, 0, 0, None),
    ]
