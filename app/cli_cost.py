"""`specscope cost`: what tokens, requests and words cost at a price an hour and a speed."""

from typing import Annotated, Any

import typer

from app import command, terminal
from app.cli_tco import sentences
from app.options import JsonOption
from app.rate_options import KindOption, RateDateOption, RateOption, RateSourceOption, ShowInOption, TcmbOption

_ROWS = (  # of `Figures.as_dict`
    ("per_million_input", "1M input tokens"),
    ("per_million_cached_input", "1M cached input tokens"),
    ("per_million_output", "1M output tokens"),
    ("per_million_output_alone", "1M output tokens, all of the bill on them"),
    ("blended_per_million", "1M tokens, blended"),
    ("per_request", "a request"),
    ("per_conversation", "a conversation"),
    ("per_1000_words_english", "1,000 English words of output"),
    ("per_1000_words_turkish", "1,000 Turkish words of output"),
    ("per_month", "a month of 730 hours"),
)


def cost(
    per_hour: Annotated[float, typer.Option(help="Price of one GPU an hour.")],
    gpus: Annotated[int, typer.Option(help="GPUs of one replica: the machine that has the speeds below.")] = 1,
    tokens_per_second: Annotated[
        float | None, typer.Option(help="Output tokens/s of a replica, where that is all you know.")
    ] = None,
    input_tokens_per_second: Annotated[float | None, typer.Option(help="While it reads prompts.")] = None,
    output_tokens_per_second: Annotated[
        float | None, typer.Option(help="While it writes; the same as --tokens-per-second.")
    ] = None,
    plain_tokens_per_second: Annotated[
        float | None, typer.Option(help="While it writes without a draft: shows the saving, or the loss.")
    ] = None,
    input_tokens: Annotated[float | None, typer.Option(help="Of a request.")] = None,
    output_tokens: Annotated[float | None, typer.Option(help="Of a request.")] = None,
    cached_share: Annotated[
        float | None, typer.Option(help="Share of the input found in a prefix cache. Default: 0.")
    ] = None,
    cached_cost_share: Annotated[
        float | None, typer.Option(help="Time of a cached token over that of another. Default: 0.1.")
    ] = None,
    busy: Annotated[
        float | None, typer.Option(help="Share of the billed hours in which it works. Default: 1, assumed.")
    ] = None,
    requests_per_second: Annotated[
        float | None,
        typer.Option(help="Mean demand over all hours: the replicas and the busy share follow from it."),
    ] = None,
    billed_hours_share: Annotated[
        float,
        typer.Option(
            help="Share of all hours that are billed, as a scenario's hours_on_share. All work is done in them: a "
            "month costs less, and a token does where the busy share follows from demand."
        ),
    ] = 1.0,
    peak_factor: Annotated[float | None, typer.Option(help="Busiest hour over the mean one. Default: 1.")] = None,
    busy_limit: Annotated[
        float | None, typer.Option(help="How busy a replica may be in the busiest hour. Default: 0.7.")
    ] = None,
    spare_replicas: Annotated[int | None, typer.Option(help="On top of those; 1 is N+1. Default: 0.")] = None,
    p95_target: Annotated[
        float | None, typer.Option(help="Seconds in which 95 % of requests are done; may lower --busy-limit.")
    ] = None,
    requests_at_once: Annotated[int | None, typer.Option(help="Of a replica at these speeds. Default: 1.")] = None,
    turns: Annotated[float | None, typer.Option(help="Requests of a conversation. Default: 1.")] = None,
    english_tokens_per_word: Annotated[float | None, typer.Option(help="See `specscope models check`.")] = None,
    turkish_tokens_per_word: Annotated[float | None, typer.Option(help="See `specscope models check`.")] = None,
    currency: Annotated[str, typer.Option(help="Of the price: USD, EUR, GBP or TRY.")] = "USD",
    show_in: ShowInOption = None,
    rate: RateOption = None,
    tcmb: TcmbOption = None,
    kind: KindOption = None,
    rate_date: RateDateOption = None,
    rate_source: RateSourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cost of input, cached input and output tokens, of a request and of 1,000 words, with the formula. The bill is
    split by the time that reading and writing take, so that the parts add up to it. In another currency too, at a rate
    that you give."""
    with command.sentences(), sentences():
        from dataclasses import asdict, replace

        from app import price_rates
        from app.cost_figures import Given, Work, check_used, figures
        from pricing import currencies, saving_share

        if tokens_per_second is not None and output_tokens_per_second is not None:
            raise ValueError("give --tokens-per-second or --output-tokens-per-second, not both; they are the same")
        speed = tokens_per_second if tokens_per_second is not None else output_tokens_per_second
        if speed is None:
            raise ValueError("give --tokens-per-second, or --output-tokens-per-second with the tokens of a request")
        known = currencies.currency(currency)
        to = price_rates.exchange(show_in, rate or [], tcmb, kind, rate_date, rate_source, "--show-in")
        used = to.rate(known) if to is not None else None  # before the sums: a rate that is missing is told at once
        optional = {
            "peak_factor": peak_factor, "busy_limit": busy_limit, "spare_replicas": spare_replicas, "turns": turns,
            "requests_at_once": requests_at_once,
        }  # fmt: skip
        cached = {"cached_share": cached_share, "cached_cost_share": cached_cost_share}
        given = Given(
            per_hour, gpus, speed, input_tokens_per_second, Work(input_tokens, output_tokens, **_said(cached)), busy,
            requests_per_second, p95_target_s=p95_target, billed_hours_share=billed_hours_share,
            english_tokens_per_word=english_tokens_per_word, turkish_tokens_per_word=turkish_tokens_per_word,
            **_said(optional),
        )  # fmt: skip
        found = figures(given)
        needing = {
            **optional, **cached, "requests_per_second": requests_per_second, "p95_target": p95_target,
            "input_tokens": input_tokens, "output_tokens": output_tokens,
        }  # fmt: skip
        check_used({f"--{name.replace('_', '-')}": value for name, value in needing.items()})
        plain = None
        if plain_tokens_per_second is not None:
            plain = figures(replace(given, output_tokens_per_second=plain_tokens_per_second))
        if as_json:
            saving = None
            if plain is not None:
                saving = saving_share(_bill(plain), _bill(found))
            command.print_json({
                "schema": "specscope.cost", "currency": known, "label": "calculated from what was entered (assumed)",
                "given": asdict(given), **found.as_dict(), "plain": None if plain is None else plain.as_dict(),
                "saving_share": saving,
                "shown": None if to is None else {
                    "currency": to.currency, "rate": price_rates.rate_record(used), **_converted(found, known, to),
                    "plain": None if plain is None else _converted(plain, known, to),
                },
            })  # fmt: skip
            return
        _show(found, plain, known, to)


def _said(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _bill(found: Any) -> float | None:
    """What is compared: a request where there is one, else 1M output tokens."""
    costs = found.costs
    return costs.per_request if costs.per_request is not None else costs.per_million_output_alone


def _converted(found: Any, currency: Any, to: Any) -> dict[str, float | None]:
    """The same figures in the other currency, unrounded."""
    known = found.as_dict()
    own = {name: known[name] for name in ("per_replica_hour", *(name for name, _ in _ROWS))}
    return {name: None if value is None else to.price(value, currency).amount for name, value in own.items()}


def _show(found: Any, plain: Any, currency: Any, to: Any) -> None:
    from rich.text import Text

    lines = _told(found, plain)
    own = [None if one is None else one.as_dict() for one in (found, plain)]
    _table(own[0], own[1], currency, "calculated from what was entered (assumed)")
    if to is not None and to.currency != currency:
        converted = [None if one is None else _converted(one, currency, to) for one in (found, plain)]
        how = to.price(1.0, currency).how
        _table(converted[0], converted[1], to.currency, f"the same in {to.currency}, {how}")
        lines.append(f"{to.currency}: {currency} {how}")
    for line in lines:
        terminal.out.print(Text(line), style="dim")


def _told(found: Any, plain: Any) -> list[str]:
    """The formulas; where plain decoding has others, both."""
    if plain is None:
        return list(found.formula)
    lines = []
    for own, other in zip(found.formula, plain.formula, strict=True):
        lines += [own] if own == other else [f"plain: {other}", f"speculative: {own}"]
    return lines


def _table(found: Any, plain: Any, currency: Any, title: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from pricing import format_unit_price, saving_share

    table = Table(title=Text(title), title_style="dim", title_justify="left")
    table.add_column("cost of")
    if plain is not None:
        table.add_column("plain", justify="right")
    table.add_column("speculative" if plain is not None else currency, justify="right")
    if plain is not None:
        table.add_column("saving", justify="right")
    for name, told in _ROWS:
        values = [one[name] for one in ((plain, found) if plain is not None else (found,))]
        if all(value is None for value in values):
            continue
        cells = [Text(terminal.NO_VALUE if v is None else format_unit_price(v, currency)) for v in values]
        if plain is not None:
            saving = saving_share(*values)
            loss = saving is not None and saving < 0
            told_saving = terminal.NO_VALUE if saving is None else f"{saving:.1%}" + (" (a loss)" if loss else "")
            cells.append(Text(told_saving, "red" if loss else ""))
        table.add_row(told, *cells)
    terminal.out.print(table)
