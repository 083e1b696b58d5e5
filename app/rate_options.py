"""The options of an exchange rate, for every command that shows money: none of them has a default."""

from pathlib import Path
from typing import Annotated

import typer

ShowInOption = Annotated[
    str | None, typer.Option("--show-in", help="Show money in this too: USD, EUR, GBP or TRY; with --rate or --tcmb.")
]
RateOption = Annotated[
    list[str] | None, typer.Option(metavar="BASE/QUOTE=RATE", help="An exchange rate, as USD/TRY=45.03.")
]
TcmbOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Rates from a bulletin of the Turkish central bank (XML).")
]
KindOption = Annotated[
    str | None,
    typer.Option(help="The bank's side: buying or selling with --rate; forex-selling and the like with --tcmb."),
]
RateDateOption = Annotated[str | None, typer.Option(metavar="DATE", help="The day of --rate, YYYY-MM-DD.")]
RateSourceOption = Annotated[str | None, typer.Option(help="Who quoted --rate.")]
