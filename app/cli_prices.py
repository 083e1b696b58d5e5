"""`specscope prices`: the price table, the user's own prices over it, and the live catalogue."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from app.options import JsonOption
from app.rate_options import KindOption, RateDateOption, RateOption, RateSourceOption, TcmbOption

app = typer.Typer(no_args_is_help=True, help="GPU prices: list, import your own, compare with live ones, export.")

ProviderOption = Annotated[list[str] | None, typer.Option(help="Only this provider; may be given several times.")]
GpuOption = Annotated[
    list[str] | None, typer.Option(help='Only this GPU, as "A100 SXM" or "A100 SXM 40 GB"; several times.')
]
CommitmentOption = Annotated[
    list[str] | None, typer.Option(help="Only this one, as on_demand, spot or reserved_1yr; several times.")
]
OnOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="Prices in force on this day, YYYY-MM-DD. Default: today.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every price that is held, superseded ones too.")]
AcceptOption = Annotated[bool, typer.Option("--accept", help="Take them over into your own prices.")]
CloseOption = Annotated[
    bool, typer.Option("--close-gone", help="With --accept: close held prices that the list no longer has.")
]


class Format(StrEnum):
    CSV = "csv"
    CSV_TR = "csv-tr"


@app.command("list")
def list_prices(
    provider: ProviderOption = None,
    gpu: GpuOption = None,
    commitment: CommitmentOption = None,
    on: OnOption = None,
    everything: AllOption = False,
    currency: Annotated[
        str | None, typer.Option("--currency", "--show-in", help="Show prices in this too: USD, EUR, GBP or TRY.")
    ] = None,
    rate: RateOption = None,
    tcmb: TcmbOption = None,
    kind: KindOption = None,
    rate_date: RateDateOption = None,
    rate_source: RateSourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """The prices in force on a day, each in its own currency."""
    from app import price_commands, price_rates

    with price_rates.sentences():
        to = price_rates.exchange(currency, rate or [], tcmb, kind, rate_date, rate_source)
        price_commands.list_prices(_chosen(provider, gpu, commitment, on, everything), to, as_json)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="CSV or XLSX; its first row holds the names of the columns.")],
    currency: Annotated[str | None, typer.Option(help="Of every price, where the file does not say.")] = None,
    decimal: Annotated[
        str | None, typer.Option(help='The decimal mark, "," or ".", for texts such as 1,234 that could be either.')
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="The day of the prices, where the file does not say.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="Of a workbook with several.")] = None,
    accepted: AcceptOption = False,
    close_gone: CloseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Contract prices from a file: how it was read and what would change; --accept takes them over.

    Columns: provider, instance, gpu, gpu_count, commitment (on_demand, spot, reserved_1yr, reserved_3yr,
    capacity_block, ...) and price, of an instance for an hour; as_of and currency, unless --as-of and --currency say
    them; and, if you like, region, gpu_mem_gb, valid_until, source_url, evidence, notes. No other column is skipped, as
    it may change the price.
    """
    from app import price_commands, price_rates

    with price_rates.sentences():
        price_commands.import_file(file, currency, decimal, as_of, sheet, accepted, close_gone, as_json)


@app.command()
def live(
    provider: Annotated[str, typer.Option(help="Whose list prices, as AWS, Azure, GCP, Lambda, Nebius, OCI, RunPod.")],
    gpu: Annotated[
        list[str] | None, typer.Option(help="Only this GPU, as H100; several times. Default: those of the table.")
    ] = None,
    accepted: AcceptOption = False,
    close_gone: CloseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Today's list prices from the catalogue of gpuhunt (an extra: live-prices), over the network, as a difference."""
    from app import price_commands, price_rates

    with price_rates.sentences():
        price_commands.live(provider, gpu, accepted, close_gone, as_json)


@app.command()
def export(
    output: Annotated[Path | None, typer.Option(help="Write to this file in place of stdout.")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="csv; csv-tr: as Excel in Turkish opens it (; and decimal commas).")
    ] = Format.CSV,
    provider: ProviderOption = None,
    gpu: GpuOption = None,
    commitment: CommitmentOption = None,
    on: OnOption = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prices as CSV, each row with the sha256 and the file of its table and the day of the export."""
    from app import price_commands, price_rates

    with price_rates.sentences():
        price_commands.export(_chosen(provider, gpu, commitment, on, everything), output, form.value, as_json)


def _chosen(
    provider: list[str] | None, gpu: list[str] | None, commitment: list[str] | None, on: str | None, everything: bool
) -> dict[str, Any]:
    return {"provider": provider, "gpu": gpu, "commitment": commitment, "on": on, "everything": everything}
