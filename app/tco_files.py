"""Files of a scenario's total cost, by how their names end: the workbook, the months, the page, the PDF."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pricing.exchange import Exchange
from pricing.export.words import Language
from pricing.scenario import Arm, Case, Scenario
from pricing.sensitivity import Chances
from pricing.tables import PriceTable

MIME = {
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".csv": "text/csv",
    ".html": "text/html",
    ".pdf": "application/pdf",
}


def tco_file(
    ending: str,
    scenario: Scenario,
    *,
    case: Case = "base",
    language: Language = "en",
    prices: PriceTable | None = None,
    measurements: Sequence[Mapping[str, object]] = (),
    chances: Sequence[Chances] = (),
    changes: Sequence[str] = (),
    tornado_of: str | None = None,
    tornado_arm: Arm | None = None,
    exported_at: datetime | None = None,
    to: Exchange | None = None,
) -> bytes:
    """The file's content. ending: one of MIME; language "tr" makes a CSV that Turkish Excel opens. measurements,
    changes and tornado_*: see `to_xlsx`, which alone has room for them. to: another currency, shown beside the
    scenario's own. Raises ValueError with a sentence for another ending, and where the scenario cannot be served,
    RateError where no rate reaches that currency."""
    at = exported_at or datetime.now().astimezone()
    if ending == ".xlsx":
        from pricing.export.xlsx import to_xlsx

        return to_xlsx(
            scenario, case=case, prices=prices, measurements=measurements, chances=chances, changes=changes,
            tornado_of=tornado_of, tornado_arm=tornado_arm, exported_at=at, language=language, to=to,
        )  # fmt: skip
    if ending == ".csv":
        from pricing.export.tco_csv import tco_to_csv
        from pricing.tco import tco

        found, form = tco(scenario.in_case(case)), "turkish" if language == "tr" else "plain"
        return tco_to_csv(
            found, scenario=scenario, case=case, form=form, table=prices, exported_on=at.date(), to=to
        ).encode()
    if ending not in MIME:
        raise ValueError(f"a file of a total cost ends in {', '.join(MIME)}, not in {ending or 'nothing'}")
    from pricing.export.report import make_report

    report = make_report(
        scenario, case=case, prices=prices, chances=chances, exported_at=at, language=language, to=to
    )  # fmt: skip
    if ending == ".pdf":
        from app.export_pdf import to_pdf

        return to_pdf(report)
    from pricing.export.html import to_html

    return to_html(report).encode()
