"""The PDF: one page, Turkish letters that are letters, no text of anybody's taken for markup."""

import base64
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.everything import API, CLOUD, HOSTILE, OWNED, everything
from helpers.rates import lira
from helpers.scenarios import scenario

from app.export_pdf import to_pdf
from pricing import load_prices
from pricing.export.report import make_report

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def made(scenario_, **asked):
    return to_pdf(make_report(scenario_, exported_at=AT, **asked))


def streams(data):
    """Every stream of the file, unpacked."""
    for found in re.finditer(rb"stream\r?\n(.*?)endstream", data, re.DOTALL):
        raw = found[1].rstrip(b"\r\n")
        yield zlib.decompressobj().decompress(base64.a85decode(raw.removesuffix(b"~>")) if raw.endswith(b"~>") else raw)


def letters(data):
    """The characters that a reader can select and search for."""
    maps = b"".join(stream for stream in streams(data) if b"begincmap" in stream)
    return {chr(int(code, 16)) for code in re.findall(rb"<[0-9A-Fa-f]{2,4}> <([0-9A-Fa-f]{4})>", maps)}


def pages(data):
    return len(re.findall(rb"/Type /Page\b", data))


def test_turkish_letters_and_the_lira_are_letters_of_the_file():
    data = made(everything(name="Iğdır'da şişeyi çöpe attık: İ ı Ğ ğ Ş ş", currency="TRY"), language="tr")
    assert set("ğĞşŞıİçöü₺") <= letters(data)
    assert "\ufffd" not in letters(data)
    assert pages(data) == 1


def test_lira_stand_under_dollars_on_the_same_one_page():
    data = made(everything(), to=lira())
    assert "₺" in letters(data)
    assert "₺" not in letters(made(everything()))
    assert pages(data) == 1


def test_letters_that_the_font_does_not_have_are_marked():
    assert "\ufffd" in letters(made(scenario(name="漢字 and 😀")))


@pytest.mark.parametrize("language", ["en", "tr"])
def test_it_is_one_page_whatever_is_in_it(language):
    long = {"value": 2, "label": "quoted", "source": "a source " * 400}
    crowded = everything(
        name="W" * 80, about="about " * 300, excluded=[f"thing {i} " * 30 for i in range(40)],
        workload__peak_factor=long, cloud=[{**CLOUD, "name": f"cloud {i} " + "x" * 60} for i in range(9)],
        owned=[{**OWNED, "name": f"own {i}"} for i in range(5)], best={}, worst={},
    )  # fmt: skip
    assert pages(made(crowded, language=language, prices=load_prices())) == 1
    assert pages(made(scenario(cloud=[], api=[API]), language=language)) == 1


def test_no_text_is_markup():
    hostile = everything(
        name="<b>a</b> & <para>", excluded=list(HOSTILE), serving__model="<img src='x'/>", best={}, worst={},
        cloud=[{**CLOUD, "name": "</para><a href='file:///'>x</a>"}],
    )  # fmt: skip
    data = made(hostile)
    assert pages(data) == 1
    assert b"/URI" not in data
    assert b"/Annot" not in data


def test_the_fonts_carry_their_licence():
    folder = Path(to_pdf.__code__.co_filename).parent / "fonts"
    assert "Bitstream" in (folder / "LICENSE").read_text(encoding="utf-8")
    assert sum(font.stat().st_size for font in folder.glob("*.ttf")) < 200_000
