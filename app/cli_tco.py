"""`specscope tco`: what a scenario costs over its years, in every option, and what speculation is worth there."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from app import command, terminal
from app.options import JsonOption
from app.rate_options import KindOption, RateDateOption, RateOption, RateSourceOption, ShowInOption, TcmbOption


class Case(StrEnum):
    BASE = "base"
    BEST = "best"
    WORST = "worst"


class Language(StrEnum):
    EN = "en"
    TR = "tr"


def tco(
    scenario: Annotated[str, typer.Argument(help="A TOML file, or a scenario that comes with specscope by its name.")],
    case: Annotated[
        Case, typer.Option(help="The scenario's own numbers, or those of its best or worst case.")
    ] = Case.BASE,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a workbook with live formulas (.xlsx), months (.csv), one page (.html, .pdf)."
        ),
    ] = None,
    language: Annotated[
        Language, typer.Option(help="Of tables and files; tr makes Turkish Excel's CSV.")
    ] = Language.EN,
    monte_carlo: Annotated[
        int | None, typer.Option(metavar="N", help="Draw every number that has a range so often, at random.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draws: the same one draws the same numbers.")] = 0,
    tornado: Annotated[
        str | None, typer.Option(metavar="OPTION", help="What moves this option's total, the largest first.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="SCENARIO", help="What moved from this scenario to the first one, in words.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A kept run for the workbook's measurements; may be given several times."),
    ] = None,
    show_in: ShowInOption = None,
    rate: RateOption = None,
    tcmb: TcmbOption = None,
    kind: KindOption = None,
    rate_date: RateDateOption = None,
    rate_source: RateSourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Total cost of every option of a scenario, rented, owned and by the token; plain against speculative decoding;
    with its range. Ctrl-C ends the draws and keeps those that were made."""
    with command.sentences(), sentences():
        from app import own_prices, price_rates, tco_report
        from app.tco_files import MIME, tco_file
        from app.whole_file import write_whole

        if out is not None:
            if out.suffix.lower() not in MIME:
                fail(f"--out takes a file that ends in {', '.join(MIME)}, not {out.name!r}")
            command.check_writable(out, "--out")
        if monte_carlo is not None and not 1 <= monte_carlo <= 1_000_000:
            fail(f"--monte-carlo takes a number of draws from 1 to 1,000,000, not {monte_carlo}")
        if run and (out is None or out.suffix.lower() != ".xlsx"):
            fail("--run puts a kept run's measurements in a workbook; give --out with a file that ends in .xlsx")
        to = price_rates.exchange(show_in, rate or [], tcmb, kind, rate_date, rate_source, "--show-in")
        runs = _runs(run or [])
        asked = tco_report.Asked(scenario, case.value, language.value, tornado, against)
        found = tco_report.work_out(asked)
        if to is not None:
            to.rate(found.used.currency)  # one that is missing is told before the draws
        drawn = _draw(found, monte_carlo, seed) if monte_carlo is not None else None
        prices = own_prices.load()
        if as_json:
            command.print_json(tco_report.document(found, drawn, prices, to))
        else:
            from app import terminal_tco

            terminal_tco.show(found, drawn, prices, to)
        if out is not None:
            content = tco_file(
                out.suffix.lower(), found.scenario, case=case.value, language=language.value, prices=prices,
                measurements=runs, chances=drawn.chances if drawn else (), changes=found.moved_told, tornado_of=tornado,
                to=to,
            )  # fmt: skip
            write_whole(out, content)
            terminal.note(f"written to {out}")
        if drawn is not None and drawn.stopped:
            raise typer.Exit(command.INTERRUPTED)


def _runs(ids: list[str]) -> list[dict[str, object]]:
    """The kept runs' measurements, a row each, as `specscope runs export` writes them."""
    if not ids:
        return []
    from app.cli_runs import table_rows

    store = command.run_store()
    return [row for run_id in ids for row in table_rows(store.export(run_id))]


def _draw(found: Any, draws: int, seed: int) -> Any:
    from app.tco_report import Drawn
    from pricing.sensitivity import monte_carlo

    done = 0
    with terminal.progress_bar("drawing") as step, command.interrupt() as cancel:
        step(0, draws)

        def stop() -> bool:  # asked between two thousands
            nonlocal done
            done += 2000
            step(done, draws)
            return cancel.is_set()

        chances = monte_carlo(found.used, draws, seed, stop)
    made = len(chances[0].totals)
    if made < draws:
        terminal.note(f"stopped after {made:,} of {draws:,} draws; they are kept")
    return Drawn(tuple(chances), draws, made, seed)


def fail(sentence: str) -> None:
    raise ValueError(sentence)


@contextmanager
def sentences() -> Iterator[None]:
    """What scenarios and the arithmetic refuse is the user's to mend too."""
    from engine import EngineError
    from pricing import PriceError

    try:
        yield
    except PriceError:
        raise
    except (ValueError, KeyError) as error:
        told = "; ".join(str(error.args[0] if error.args else error).splitlines())
        raise EngineError(told) from error
    except ArithmeticError as error:
        raise EngineError("these numbers are beyond what can be calculated; look for one too large or small") from error
