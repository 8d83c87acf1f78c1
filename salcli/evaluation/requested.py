"""Which attackers take part: those in the options, else the default ones, and what gates expect of them."""

import itertools
from collections.abc import Iterable, Sequence

from salcli.data.labels import GuardedLabels
from salcli.erasers.artifact import Artifact
from salcli.errors import ParameterError, UsageError
from salcli.evaluation.attackers import ATTACKERS, REGRESSORS, names_of
from salcli.evaluation.gates import Expected
from salcli.evaluation.intersections import attacked
from salcli.options import RAW, EvaluateOptions, Limit

ALL = "all"
"""In place of names: every attacker that can read what there is."""


def require_attackers(options: EvaluateOptions) -> None:
    """Check that `ATTACKERS` has the names in `options`, and that one of them reads vectors if a sweep needs it.

    Raises
    ------
    UsageError : it names the option
    """
    every = dict.fromkeys((*ATTACKERS, *REGRESSORS))
    if options.probes not in (None, (ALL,)) and not (options.probes and set(options.probes) <= set(every)):
        raise ParameterError("probes", options.probes, f"expected some of {', '.join(every)}, or {ALL}")
    for name in ("max_accuracy", "max_gain", "max_leak", "max_r2"):
        limits: tuple[Limit, ...] = getattr(options, name)
        suited = REGRESSORS if name == "max_r2" else ATTACKERS
        for limit in limits:
            if limit.probe is not None and limit.probe not in suited:
                value = f"{limit.probe}={limit.limit:g}"
                raise ParameterError(name, value, f"no probe {limit.probe!r}, expected one of {', '.join(suited)}")
    if (options.sweep is not None or options.repeats is not None) and not _read_vectors(options.probes):
        raise UsageError(
            f"`sweep` and `repeats` need vectors: request another probe than {','.join(options.probes or ())} alone"
        )


def needs_vectors(options: EvaluateOptions) -> bool:
    """Return whether any attacker or measure of `options` needs vectors, not only the kernel's inner products."""
    measures = (options.similarity, options.bias, options.neighbors, options.task, options.sweep, options.repeats)
    return any(measures) or options.min_neighbors_kept is not None or _read_vectors(options.probes)


def _read_vectors(names: Sequence[str] | None) -> bool:
    vectors = {name for name, each in (*ATTACKERS.items(), *REGRESSORS.items()) if each.reads == "vectors"}
    return names in (None, (ALL,)) or not set(names or ()).isdisjoint(vectors)


def chosen_probes(artifact: Artifact | None, options: EvaluateOptions) -> tuple[str, ...]:
    """Return the names of the attackers of classes: those in `options`, else all default ones that suit the eraser.

    Parameters
    ----------
    artifact : the eraser; None: without one
    options : of the evaluation

    Raises
    ------
    UsageError : a requested attacker reads a kernel, and the eraser has none
    """
    is_kernel = artifact is not None and artifact.eraser.by_inner_products() is not None
    suited = tuple(ATTACKERS) if is_kernel else names_of("vectors")
    if options.probes == (ALL,):
        return suited
    for name in options.probes or ():
        if name not in suited and (name not in REGRESSORS or REGRESSORS[name].reads == "kernel"):
            raise UsageError(f"`probes={name}`: only an eraser that `salcli kfit` wrote has a kernel")
    named = tuple(name for name in options.probes or () if name in suited)
    chosen = named or tuple(name for name in suited if ATTACKERS[name].is_default)
    if not any(readers_of(form, chosen) for form in options.attacked_forms):
        forms = ",".join(options.attacked_forms)
        raise UsageError(f"`forms={forms}`: {','.join(chosen)} reads inner products, which are raw: request raw")
    return chosen


def readers_of(form: str, probes: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the `probes` that read rows in a `form`: inner products of a kernel are raw."""
    return probes if form == RAW else tuple(name for name in probes if ATTACKERS[name].reads == "vectors")


def expected_of(
    labels: GuardedLabels, options: EvaluateOptions, probes: tuple[str, ...], forms: Iterable[str] | None = None
) -> Expected:
    """Return what gates expect to have been measured.

    Parameters
    ----------
    labels : with the guarded attributes
    options : of the evaluation
    probes : names of the attackers
    forms : of the rows that are attacked; default: raw alone, if it is among those of the options
    """
    read = [attribute.name for attribute in attacked(labels, options)]
    unjudged = [attribute.name for attribute in labels.attributes if attribute.classes is None and not options.max_r2]
    if forms is None:
        forms = (RAW,) if RAW in options.attacked_forms else options.attacked_forms
    due = {probe: tuple(form for form in forms if readers_of(form, (probe,))) for probe in probes}
    unit = "test rows" if labels.groups is None else "test rows in groups of such sizes"
    return Expected(tuple(itertools.product(read, options.adversaries, probes)), tuple(unjudged), forms=due, unit=unit)
