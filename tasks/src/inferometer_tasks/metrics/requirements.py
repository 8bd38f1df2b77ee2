"""Refuses, before a server starts, measures whose input the steps of a manifest do not make."""

from collections.abc import Sequence

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.pipeline import predicting_output
from inferometer_tasks.step_order import name_of

_TEXTS = ("ExactMatch", "F1", "WER", "CER")
_STEPS_OF_METRICS: dict[str, tuple[str, ...]] = {
    "Top1": ("topK",),
    "Top5": ("topK",),
    "MAP": ("boxes",),
    "MeanIoU": ("argmaxMask", "mask"),
    "MSE": ("softmax", ""),
    **dict.fromkeys(_TEXTS, ("ctc", "span", "")),
}
"""The last steps that make what each measure takes; empty: none, of a model that replies it."""
_TOP = frozenset({"Top1", "Top5"})


def check_metrics(metrics: Sequence[str], manifest: ModelManifest | None) -> None:
    """Raise TaskRefusedError if the last step of a manifest does not make what a measure takes.

    Without a manifest the first output's best classes are there if a measure needs them, else its
    values. What Python makes is not known.
    """
    if manifest is None:
        last = "topK" if _TOP.intersection(metrics) else ""
    elif manifest.postprocess is not None:
        return
    else:
        steps = predicting_output(manifest).steps
        last = name_of(steps[-1]) if steps else ""
    for metric in metrics:
        wanted = _STEPS_OF_METRICS[metric]
        if last in wanted:
            continue
        found = f"they end with {last}" if last else "there are none"
        raise TaskRefusedError(
            f"{metric} needs the output's steps to end with "
            f"{' or '.join(each for each in wanted if each)}{' or none' if '' in wanted else ''}, "
            f"but {found}: change the metrics or the manifest."
        )
