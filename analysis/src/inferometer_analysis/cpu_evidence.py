"""Evidence for advice on a CPU, from timings of a model, its variants and its layers."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer_analysis.advice import Evidence
from inferometer_analysis.bound import best_timings, lower_bound, timing_interval
from inferometer_analysis.layer_work import graph_layers
from inferometer_analysis.measured_variants import failed_variants, measured_variants
from inferometer_analysis.samples import Interval, total
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.timings import LayerTimings
from inferometer_api.layers.variants import ModelVariant, Rewriting, named_variant

PRECISION = "FP32"


@dataclass(frozen=True, slots=True)
class CpuTimings:
    """What was timed of one model on a CPU."""

    graph: LayerGraph
    measured: LayerTimings
    """The variants, of which the present one is named, and timings of layers."""
    known: LayerTimings | None = None
    """Further timings of layers, of the same machine and engines."""
    addresses: Mapping[str, str] | None = None
    """Of the files of rewritten models, by the name of the variant; None: they were not kept."""
    not_rewritten: Mapping[Rewriting, str] | None = None
    """Why a rewriting could not be made; None: the timings say it."""

    @property
    def not_measured(self) -> dict[str, str]:
        """Why some ways to run the model were not measured, by their names."""
        reasons = failed_variants(self.measured)
        for kind, reason in (self.not_rewritten or {}).items():
            reasons[ModelVariant(threads=self.measured.machine.threads, rewriting=kind).name] = (
                reason
            )
        return reasons


def cpu_evidence(timings: CpuTimings) -> Evidence | None:
    """Return the evidence for advice; None without a timing of the model as it is."""
    measured = measured_variants(timings.measured, timings.addresses)
    present = measured.pop(timings.measured.present, None)
    if present is None:
        return None
    known = timings.known.kernels if timings.known else []
    kernels = [*known, *timings.measured.kernels]
    has_bound = present.precision in ("", PRECISION)
    own = {
        each.key: timing_interval(each)
        for each in kernels
        if has_bound and each.engine == present.engine
    }
    layers = graph_layers(timings.graph)
    timed = [each for each in layers if not each.is_view]
    by_operator: dict[str, list[Interval]] = {}
    for layer in timed:
        # What has no layer before it cannot be fused into one.
        if layer.key in own and layer.predecessors:
            by_operator.setdefault(layer.operator, []).append(own[layer.key])
    is_whole = bool(timed) and all(each.key in own for each in timed)
    refused = ((named_variant(name), why) for name, why in timings.not_measured.items())
    return Evidence(
        present=present,
        others=tuple(measured.values()),
        bound=lower_bound(layers, best_timings(kernels, PRECISION)) if has_bound else None,
        own_kernels=total(own[each.key] for each in timed) if is_whole else None,
        layer_times=by_operator,
        not_rewritten={each.rewriting: why for each, why in refused if each and each.rewriting},
    )
