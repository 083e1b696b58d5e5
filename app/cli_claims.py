"""`specscope claims`: what published claims imply and what is made of them; the same for a claim of one's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from app import command, terminal
from app.options import JsonOption

app = typer.Typer(
    invoke_without_command=True,
    help="Published claims and your own: what each implies, what arithmetic, roofline and sources say.",
)


@app.callback(invoke_without_command=True)
def claims(
    context: typer.Context,
    claim_id: Annotated[
        list[str] | None, typer.Option("--id", help="Only this claim; may be given several times.")
    ] = None,
    verdict: Annotated[
        list[str] | None, typer.Option(help="Only this verdict, as contradicted; may be given several times.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="Only claims of the starting article (article), or published ones (published).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """All claims with their verdicts; `show` has a whole derivation, `check` looks at a claim of your own."""
    if context.invoked_subcommand is not None:
        if claim_id or verdict or origin or as_json:
            with _sentences():
                _fail(f"options in front of {context.invoked_subcommand} have no effect; give them behind it")
        return
    with _sentences():
        from app import terminal_claims
        from app.claims_model import assessed
        from pricing.claims import MEANING, VERDICTS, shipped_claims

        wanted = tuple(verdict or ())
        for word in wanted:
            if word not in VERDICTS:
                _fail(f"there is no verdict {word!r}; choose from {', '.join(VERDICTS)}")
        if origin not in (None, "article", "published"):
            _fail(f"--origin takes article or published, not {origin!r}")
        table = shipped_claims()
        found = [one for one in assessed(claim_id or (), wanted) if origin in (None, one.claim.row.origin)]
        if as_json:
            command.print_json({
                "schema": "specscope.claims", "verdicts": MEANING, "file": table.file, "sha256": table.sha256,
                "claims": [one.as_dict() for one in found],
            })  # fmt: skip
        elif found:
            terminal_claims.show_list(found, len(table))
        else:
            terminal.note("no claim has that verdict")


@app.command()
def show(
    claim_id: Annotated[str, typer.Argument(metavar="ID", help="A claim's id, as the list has it.")],
    as_json: JsonOption = False,
) -> None:
    """One claim: what went in, every step of what follows, what each voice says, evidence."""
    with _sentences():
        from app import terminal_claims
        from app.claims_model import assessed
        from pricing.claims import EVIDENCE, MEANING

        (one,) = assessed([claim_id])
        if as_json:
            command.print_json({"schema": "specscope.claim", **one.as_dict()})
        else:
            grade = one.claim.row.evidence
            terminal_claims.show_one(one, MEANING[one.verdict], EVIDENCE[grade] if grade else "")


@app.command()
def check(
    model: Annotated[str, typer.Option(help="A published model's name, a config.json, or a folder that has one.")] = "",
    gpu: Annotated[str, typer.Option(help="A GPU of the table, or a part of its name.")] = "",
    gpus: Annotated[int, typer.Option(help="How many GPUs the figures are of.")] = 1,
    per_hour: Annotated[float | None, typer.Option(help="USD an hour for all GPUs together.")] = None,
    tokens_per_second: Annotated[
        float | None, typer.Option(help="Claimed output tokens/s, all requests together.")
    ] = None,
    plain_tokens_per_second: Annotated[float | None, typer.Option(help="The same without a draft.")] = None,
    speedup: Annotated[float | None, typer.Option(help="Claimed speed-up, as 2.5.")] = None,
    per_million: Annotated[float | None, typer.Option(help="Claimed USD per 1M output tokens.")] = None,
    plain_per_million: Annotated[float | None, typer.Option(help="The same without a draft.")] = None,
    batch: Annotated[int | None, typer.Option(help="Requests at once.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Drafted tokens a step.")] = None,
    mean_acceptance_length: Annotated[
        float | None, typer.Option(help="Tokens of a pass, the target's own included: 1 to K + 1.")
    ] = None,
    acceptance_rate: Annotated[
        float | None, typer.Option(help="Accepted / proposed as a share, another number; needs --k.")
    ] = None,
    cost_ratio: Annotated[
        float | None, typer.Option(help="Seconds of a draft pass over those of a target pass; needs --k.")
    ] = None,
    busy_share: Annotated[float, typer.Option(help="Share of the billed hours in which tokens are made.")] = 1.0,
    precision: Annotated[
        str | None, typer.Option(help="Of the weights: bf16, fp8, int8, int4 or fp4. Default: the quickest there is.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=0, help="Tokens cached in each request. Default: none for the limits.")
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(min=1, help="Of a request, for the projection. Default: prompts take no time.")
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="The draft, a model like --model's, for the projection. Default: a free one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """A claim of your own: what it implies each way, the limits that it stands under, a verdict with its derivation.
    Give what is claimed (tokens/s, a speed-up or USD per 1M tokens) and as much else as is known."""
    with _sentences():
        from app import claims_model, terminal_claims
        from pricing.claims import MEANING, ClaimInput

        claim = ClaimInput(
            model=model, gpu=gpu, gpus=gpus, usd_per_hour=per_hour, tokens_per_second=tokens_per_second,
            plain_tokens_per_second=plain_tokens_per_second, speedup=speedup, usd_per_million=per_million,
            plain_usd_per_million=plain_per_million, batch=batch, k=k, mean_acceptance_length=mean_acceptance_length,
            draft_acceptance_rate=acceptance_rate, cost_ratio=cost_ratio, busy_share=busy_share,
        )  # fmt: skip
        checked = claims_model.check(claim, precision, prompt_tokens=prompt_tokens, context_tokens=context, draft=draft)
        if as_json:
            command.print_json({"schema": "specscope.claim-check", **checked.as_dict()})
        else:
            terminal_claims.show_checked(checked, MEANING[checked.verdict])


def _fail(message: str) -> Any:
    from engine.errors import EngineError

    raise EngineError(message)


@contextmanager
def _sentences() -> Iterator[None]:
    """As `command.sentences`, for a claim's own faults too."""
    from pricing.claims import ClaimError

    with command.sentences():
        try:
            yield
        except ClaimError as error:
            _fail(str(error))
