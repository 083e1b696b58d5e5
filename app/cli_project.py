"""`specscope project`: what a model would do on a GPU that is not here, and how far such projections have been off."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from app import command, terminal_project
from app.options import JsonOption

_HEADS = ("eagle", "eagle3", "medusa")
_MOST_GPUS = 8  # that one server has


def project(
    model: Annotated[
        str | None, typer.Option(help="A published model's name, a config.json, or a folder that has one.")
    ] = None,
    gpu: Annotated[
        list[str] | None, typer.Option(help="A GPU of the table, or a part of its name; may be given several times.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, max=64, help="How many share the model (tensor parallel).")] = 1,
    precision: Annotated[
        str | None,
        typer.Option(help="Of the weights: bf16, fp8, int8, int4 or fp4. Default: what the config says, else bf16."),
    ] = None,
    kv_precision: Annotated[str, typer.Option(help="Of keys and values: bf16, fp8 or int8.")] = "bf16",
    batch: Annotated[int, typer.Option(min=1, help="Sequences decoded together.")] = 1,
    context: Annotated[
        int | None, typer.Option(min=0, help="Tokens cached at the average step. Default: prompt and half the output.")
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 512,
    output_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an output.")] = 256,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Tokens drafted a step; of a tree all its nodes.")] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Of a drafted tree. Default: k, a chain.")] = None,
    mean_acceptance_length: Annotated[
        float | None, typer.Option(help="Tokens a drafted step emits, the target's own included: 1 to depth + 1.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Take acceptance and lengths from a kept run; see `specscope runs`."),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            help="A model like --model's, eagle, eagle3 or medusa, lookup, or a share of the target as 0.05. "
            "Default: lookup, which takes no time."
        ),
    ] = None,
    draft_seconds: Annotated[
        float | None, typer.Option(min=0, help="Measured seconds of drafting a step, for a lookup.")
    ] = None,
    draft_gpus: Annotated[int, typer.Option(min=1, max=64, help="How many GPUs share the draft.")] = 1,
    validate: Annotated[
        bool, typer.Option("--validate", help="In place of a projection: predicted, published, error, each result.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Speed, time to the first token and what binds, on GPUs that are not here: projected from the model's shape,
    fitted to published results, with the error that such projections have had."""
    with command.sentences():
        if validate:
            _validate(as_json)
            return
        from engine import EngineError
        from engine.gpu_specs import find_gpu
        from engine.model_shapes import find_shape
        from engine.precision import kv_bytes
        from engine.projection import project as carry

        if model is None:
            raise EngineError("--model is needed: a published model's name, a config.json, or a folder that has one")
        target, kv = find_shape(model), kv_bytes(kv_precision)
        held = target.precision(precision)
        found = list(dict.fromkeys(find_gpu(name) for name in gpu or ["H100 SXM"]))
        try:
            counts = (
                _counts_of_run(run, (k, depth, mean_acceptance_length))
                if run
                else _counts(k, depth, mean_acceptance_length, prompt_tokens, output_tokens)
            )
            drafting = _draft(draft, target, held, depth, draft_gpus, draft_seconds, precision)
            if not counts.drafted_steps and (draft is not None or draft_seconds is not None or draft_gpus != 1):
                raise EngineError(_no_draft(run))
            cached = round(counts.prompt_tokens + counts.output_tokens / 2) if context is None else context
            projections = [
                carry(
                    target.shape, spec, counts, drafting, context_tokens=cached, batch=batch, gpus=gpus,
                    precision=held, kv_bytes_per_element=kv,
                )
                for spec in found
            ]  # fmt: skip
            if precision is None and target.stored is not None:
                stated = (f"The weights are in {held.name}, as {target.source} states: {target.stored.told}.",)
                projections = [replace(p, notes=(*stated, *p.notes)) for p in projections]
        except ValueError as error:
            raise EngineError(str(error)) from None
        hints = [_hint(p, spec, target.shape, held, drafting, cached, counts, kv)
                 for p, spec in zip(projections, found, strict=True)]  # fmt: skip
        if as_json:
            command.print_json({
                "schema": "specscope.projection",
                "model": {"name": target.name, "parameters": target.shape.n_params, "source": target.source},
                "precision": held.name,
                "kv_precision": kv_precision,
                "draft": drafting.name if drafting and counts.drafted_steps else None,
                "projections": [p.as_dict() | {"fits_on": hint} for p, hint in zip(projections, hints, strict=True)],
            })  # fmt: skip
        else:
            terminal_project.show_projections(target.name, held.name, projections, hints, bool(counts.drafted_steps))


def _validate(as_json: bool) -> None:
    from engine.validation import shipped_validation

    found = shipped_validation()
    if as_json:
        command.print_json({"schema": "specscope.validation", **found.as_dict()})
    else:
        terminal_project.show_validation(found)


def _counts(k: int | None, depth: int | None, length: float | None, prompt_tokens: int, output_tokens: int) -> Any:
    from engine import EngineError
    from engine.step_counts import StepCounts

    if k is None and length is None and depth is None:
        return StepCounts.plain(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    if k is None or length is None:
        raise EngineError("speculation needs both --k and --mean-acceptance-length, or --run with a kept run")
    if output_tokens < 2:
        raise EngineError("an output of one token has no step that drafts; give --output-tokens of at least 2")
    return StepCounts.from_acceptance(
        length, k, prompt_tokens=prompt_tokens, output_tokens=output_tokens, depth=depth, label="assumed"
    )


def _counts_of_run(run_id: str, given: tuple[object, ...]) -> Any:
    """Measured counts of a kept run, whatever command made it."""
    from engine import EngineError
    from engine.step_counts import StepCounts

    if any(value is not None for value in given):
        raise EngineError("give --run, or --k with --mean-acceptance-length, not both")
    run = command.run_store().find(run_id)
    stats = run.stats or {}
    needed = ("runs", "prompt_tokens", "output_tokens", "steps", "drafted_steps", "proposed")
    if not all(isinstance(stats.get(name), int | float) for name in needed):
        raise EngineError(f"run {run.id} ({run.kind}) has no counted steps; `generate` and `bench` runs have")
    counts: Any = SimpleNamespace(**{name: stats[name] for name in needed})
    return StepCounts.of(counts)


def _no_draft(run: str | None) -> str:
    if run:
        return f"run {run} drafted nothing, so no draft can be projected; leave the options of the draft out"
    return (
        "--draft, --draft-seconds and --draft-gpus have no effect without speculation; give --k and "
        "--mean-acceptance-length, or --run, or leave them out"
    )


def _draft(
    name: str | None, target: Any, held: Any, depth: int | None, gpus: int, seconds: float | None, asked: str | None
) -> Any:
    """asked: the precision that the user gave; a model that drafts is held in it too, else in what its own config
    says, else in the target's."""
    from engine import EngineError
    from engine import model_shapes as shapes
    from engine.draft_cost import Draft
    from engine.shape import at_precision

    kind = (name or "lookup").strip()
    if seconds is not None and kind != "lookup":
        raise EngineError("--draft-seconds is for a lookup; a network's forwards are projected")
    if kind == "lookup":
        return Draft.lookup() if seconds is None else Draft.lookup(seconds, "measured")
    if kind in _HEADS:
        make = {"eagle": shapes.eagle_head, "eagle3": shapes.eagle3_head, "medusa": shapes.medusa_heads}[kind]
        once = kind == "medusa"  # all its heads in one forward; a chain's or a tree's levels one after the other
        return Draft.head(
            make(target), forwards=1 if once else depth, gpus=gpus, reads_prompt=not once, name=f"{kind} head"
        )
    try:
        share = float(kind)
    except ValueError:
        other = shapes.find_shape(kind)
        own = held if other.stored is None else other.precision(asked)
        return Draft.model(at_precision(other.shape, own.bytes_per_param), gpus=gpus, precision=own, name=other.name)
    return Draft.share(at_precision(target.shape, held.bytes_per_param), share, forwards=depth)


def _hint(
    projection: Any, spec: Any, shape: Any, held: Any, drafting: Any, cached: int, counts: Any, kv: float
) -> int | None:
    """The fewest GPUs (1, 2, 4, 8) that hold it and share its heads evenly, None where 8 do not."""
    from engine.hardware import fits, memory_plan
    from engine.projection import longest_context
    from engine.shape import at_precision

    if projection.fits:
        return int(projection.gpus)
    shape = at_precision(shape, held.bytes_per_param)

    def holds(gpus: int) -> bool:
        plan = memory_plan(
            shape, drafting.shape, longest_context(counts, cached), projection.batch, math.ceil(counts.width), kv,
            gpus=gpus, draft_gpus=drafting.gpus,
        )  # fmt: skip
        return fits(plan, spec)

    even = [n for n in (1, 2, 4, _MOST_GPUS) if n > projection.gpus and not shape.query_heads % n]
    return next((n for n in even if holds(n)), None)
