"""Files of a calculated scenario. `exports` is the one place where formats are plugged in."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.catalogue import Words
from app.finance import faults, measured
from app.finance.desk import Desk
from app.finance.two_way import in_both, picked_option
from pricing import Exchange, PriceTable
from pricing.export.told_moved import sentences
from pricing.export.words import Words as ExportWords
from pricing.moved import what_moved
from pricing.scenario import Arm, Scenario
from pricing.scenario_file import dump_scenario
from pricing.sensitivity import Chances
from pricing.tco import Tco

TOML = "application/toml"
File = tuple[str, str, bytes]


def exports(
    tco: Tco,
    language: str,
    *,
    scenario: Scenario | None = None,
    case: Any = "base",
    prices: PriceTable | None = None,
    measurements: Sequence[Mapping[str, object]] = (),
    chances: Sequence[Chances] = (),
    changes: Sequence[str] = (),
    tornado_of: str | None = None,
    tornado_arm: Arm | None = None,
    to: Exchange | None = None,
) -> list[File]:
    """(file name, MIME type, content) of every format, in the reader's language. scenario: the one that `tco` is of,
    without its case's numbers (default: `tco`'s own). What else there is: see `tco_file`."""
    from app.tco_files import MIME, tco_file  # late: the libraries that write them are for this button alone

    given = scenario or tco.scenario
    made = [toml_file(given)]
    for ending, mime in MIME.items():
        told: Any = language
        content = tco_file(
            ending, given, case=case, language=told, prices=prices, measurements=measurements, chances=chances,
            changes=changes, tornado_of=tornado_of, tornado_arm=tornado_arm, to=to,
        )  # fmt: skip
        made.append((file_stem(given.name) + ending, mime, content))
    return made


def toml_file(scenario: Scenario) -> File:
    return f"{file_stem(scenario.name)}.toml", TOML, dump_scenario(scenario).encode()


def file_stem(name: str) -> str:
    """A scenario's name as a file's: letters of any language, digits and dashes, nothing that leads out of a folder."""
    return re.sub(r"[^\w]+", "-", name, flags=re.UNICODE).strip("-_")[:60] or "scenario"


def as_download(file: File) -> dict[str, str]:
    """For the browser, which saves it from the page: no file with an address is left on the server."""
    name, mime, content = file
    return {"name": name, "mime": mime, "base64": base64.b64encode(content).decode("ascii")}


def files(desk: Desk, prices: PriceTable, words: Words, session: Any = None) -> dict[str, Any]:
    """What files.js lists: every format of what is on the desk and of what the page shows of it: the draws where they
    are of these numbers, the option that the tornado looks at, what moved, and the Explore tab's run."""
    if desk.current is None:
        return {"told": words("nothing_open"), "files": []}
    unmade = desk.faults.get("")
    if desk.now is None or unmade:  # figures of other numbers may stand on the page; files never hold them
        return _scenario_alone(desk.current, unmade or words("nothing_open"), words)
    drawn = desk.chances
    chances = drawn.found if drawn is not None and drawn.now is desk.now else ()
    name, arm = picked_option(desk, desk.now)
    try:
        made = exports(
            desk.now.made, words.language, scenario=desk.current, case=desk.case, prices=prices,
            measurements=measured.rows(session), chances=tuple(chances), changes=_changes(desk, name, arm, words),
            tornado_of=name, tornado_arm=arm, to=_reaching(desk),
        )  # fmt: skip
    except (ValueError, ArithmeticError) as error:  # workbook and report hold all cases and the ends of all ranges
        return _scenario_alone(desk.current, faults.told(str(error), "", words), words)
    return {"told": words("files_told"), "stale": words("files_stale"), "files": [as_download(file) for file in made]}


def _scenario_alone(scenario: Scenario, why: str, words: Words) -> dict[str, Any]:
    """What was typed can be saved, whatever cannot be calculated of it."""
    told = words("files_scenario_alone", why=why)
    return {"told": told, "stale": words("files_stale"), "files": [as_download(toml_file(scenario))]}


def _reaching(desk: Desk) -> Exchange | None:
    """What the page shows beside: nothing where no rate leads from the scenario's currency, which the page says."""
    own = desk.now.scenario.currency if desk.now is not None else ""
    return desk.to if desk.to is not None and desk.to.reaches(own) else None


def _changes(desk: Desk, picked: str, arm: Arm, words: Words) -> Sequence[str]:
    """What the TCO tab lists as moved, in its words; nothing across currencies."""
    before, after = desk.compared()
    name = in_both(before, after, picked)
    if name is None:
        return ()
    try:
        found = what_moved(before, after, name, arm)
    except (ValueError, ArithmeticError):
        return ()
    return sentences(found, before, after, ExportWords(words.language))
