"""One page in two languages: right numbers, escaped texts, nothing from outside; and the months as CSV."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime
from html.parser import HTMLParser

import pytest
from helpers.everything import API, CLOUD, HOSTILE, OWNED, everything
from helpers.scenarios import scenario

from pricing import load_prices
from pricing.export.drawing import HEIGHT, WIDTH, waterfall
from pricing.export.html import to_html
from pricing.export.report import MOST_ASSUMED, make_report
from pricing.export.tco_csv import tco_to_csv
from pricing.export.told import told
from pricing.export.words import Words, catalogue
from pricing.sensitivity import monte_carlo, tornado
from pricing.tco import tco

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
SLOW = {"serving__speculative__output_tokens_per_second": 500, "load_curve": {}}


def report(made, **asked):
    return make_report(made, exported_at=AT, **asked)


def test_the_headline_is_the_answer_with_its_range():
    """13 and 9 replicas at 2.49 for 8,760 hours; 3.00 in the worst case, 2.00 in the best."""
    price = "cloud.0.parts.0.per_gpu_hour"
    said = report(scenario(best={price: 2.0}, worst={price: 3.0})).headline
    assert said[0] == "rented, speculative costs least: $196,312 over one year, $196,312 in present value."
    assert said[1].startswith("Speculative decoding saves $87,250 (30.8%) on rented")
    assert said[2] == "Nothing has to be paid in advance."
    assert said[3] == "From best to worst case, rented, speculative costs $157,680 to $236,520."


def test_a_loss_is_called_a_loss_in_both_languages():
    english, turkish = (report(scenario(**SLOW), language=language) for language in ("en", "tr"))
    assert english.loss
    assert "LOSES" in english.headline[1]
    assert "ZARAR" in turkish.headline[1]
    assert english.speculation.rows[0][1].startswith("-$")
    assert english.speculation.rows[0][-1] == "a loss"
    assert 'class="headline loss"' in to_html(english)
    assert not report(scenario()).loss


def test_without_cases_and_draws_it_warns_of_single_points():
    assert "single points" in report(scenario()).headline[-1]
    made = everything()
    assert "In 90% of 60 draws" in " ".join(report(made, chances=monte_carlo(made, 60)).headline)


def test_a_target_that_no_fleet_keeps_in_some_draws_is_said():
    """0.2 s by itself, against 0.15 s: in every draw; against 3 s in none."""
    price = {"value": 2.49, "low": 2, "high": 3}
    late, kept = (
        scenario(serving__p95_target_s=target, cloud__0__parts__0__per_gpu_hour=price) for target in (0.15, 3)
    )
    chances = monte_carlo(late, 60)
    said = "In 100% of them no fleet keeps the P95 target."
    assert said in report(late, chances=chances).headline
    assert "%100" in " ".join(report(late, chances=chances, language="tr").headline)
    assert said not in report(kept, chances=monte_carlo(kept, 60)).headline
    assert not any("no fleet" in line for line in report(kept, chances=monte_carlo(kept, 60)).headline)


def test_turkish_numbers_are_written_as_turks_write_them():
    made = report(scenario(currency="TRY"), language="tr")
    assert "₺196.312" in made.headline[0]
    assert "%30,8" in made.headline[1]
    assert "30 Kas 2026" in made.subtitle


@pytest.mark.parametrize(
    ("said", "worked"),
    [
        (Words("en").money(-1234.5, "USD"), "-$1,234.50"),
        (Words("tr").money(1234567.891, "TRY"), "₺1.234.567,89"),
        (Words("en").money(-0.001, "USD"), ">-$0.01"),
        (Words("en").money(0.004, "USD"), "<$0.01"),
        (Words("tr").money(0.4, "TRY", 0), "<₺1"),
        (Words("en").money(None, "USD"), "–"),
        (Words("en").price(0.00437, "USD"), "$0.004370"),
        (Words("en").price(-12.3, "EUR"), "-€12.30"),
        (Words("tr").price(0.2083, "USD"), "$0,2083"),
        (Words("en").share(0.457), "45.7%"),
        (Words("tr").share(-0.457), "-%45,7"),
        (Words("en").short_money(-1_234_000, "USD"), "-$1.2M"),
        (Words("tr").number(1234.5), "1.234,5"),
        (Words("en").rate(0.125), "12.5%"),
        (Words("en").rate(3.5e11), "> 10,000%"),
        (Words("en").rate(None), "–"),
        (Words("en").day(date(2026, 3, 1)), "1 Mar 2026"),
    ],
)
def test_numbers_in_words(said, worked):
    assert said == worked


def test_every_number_shown_has_its_label_and_source():
    made = report(everything(), prices=load_prices())
    rows = {row[0]: row[1:] for row in made.conditions.rows}
    measured = rows["Serving: Writing speed of a replica, plain"]
    assert measured == ("1,000 tokens/s", "measured", "run 1, H100 SXM, 1 Nov 2026")
    assert {row[2] for row in made.conditions.rows[1:]} == {"measured", "projected", "quoted", "assumed"}
    assert all(row[2] == "assumed" for row in made.assumed.rows)
    assert load_prices().sha256 in made.footer[1]
    assert re.search(r"sha256 [0-9a-f]{64}", made.footer[0])


def test_what_does_not_fit_on_the_page_is_counted():
    made = everything()
    shown = report(made)
    assert len(shown.assumed.rows) == MOST_ASSUMED
    left = int(re.search(r"and (\d+) more", shown.assumed.title)[1])
    assumed = sum(figure.label == "assumed" for figure in made.figures().values())
    given = [row for row in shown.conditions.rows if row[0] != "P95 in the busiest hour"]  # which is worked out
    told = sum(row[2] == "assumed" for row in given)
    assert left == assumed - MOST_ASSUMED - told
    assert "more" in report(everything(excluded=[f"thing {i}" for i in range(20)])).excluded[-1]


class Checked(HTMLParser):
    """What a page holds."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def hostile():
    return everything(
        name=HOSTILE[8], about="</style><script>alert(1)</script>", excluded=[*HOSTILE[:7], "{{x}} ${alert(1)}"],
        serving__model='"><img src=x onerror=alert(1)>', best={}, worst={},
        cloud=[{**CLOUD, "name": "<svg onload=alert(1)>"}], owned=[{**OWNED, "name": HOSTILE[12]}],
        api=[{**API, "name": "</text></svg><script>"}],
        workload__peak_factor={"value": 2, "label": "quoted", "source": "javascript:alert(1)" * 50},
    )  # fmt: skip


def test_the_page_is_whole_in_itself_and_no_text_is_markup():
    made = hostile()
    page = to_html(report(made, prices=load_prices()))
    checked = Checked(page)
    assert checked.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "section", "figure", "figcaption",
        "svg", "polyline", "rect", "text", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "footer",
    }  # fmt: skip
    assert not [name for name, _ in checked.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "url(" not in page
    assert "default-src 'none'" in page
    assert "<img src=x onerror=alert(1)>" in "".join(checked.text)


def test_charts_are_drawn_within_their_frame_and_end_at_the_totals():
    made = everything()
    for drawing in report(made).drawings:
        for bar in drawing.bars:
            assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
            assert 0 <= bar.y <= bar.y + bar.height <= HEIGHT
        assert all(-0.1 <= x <= WIDTH + 0.1 and 0 <= y <= HEIGHT for line in drawing.lines for x, y in line.points)
    for svg in re.findall(r"<svg.*?</svg>", to_html(report(hostile())), re.S):
        ET.fromstring(svg)
    found = tco(made)
    plain, fast = found.option("rented", "plain"), found.option("rented")
    bars = [bar for bar in waterfall(plain, fast, "USD", Words()).bars if bar.role == "whole"]
    assert bars[1].height / bars[0].height == pytest.approx(fast.total / plain.total)


def test_a_scenario_of_apis_alone_has_a_page():
    made = report(scenario(cloud=[], api=[API]))
    assert made.speculation is None
    assert len(made.drawings) == 1
    assert to_html(made)


# CSV


def read(text, **how):
    return list(csv.DictReader(io.StringIO(text, newline=""), **how))


def test_months_add_up_to_the_total_in_both_forms():
    found = tco(everything())
    plain = read(tco_to_csv(found, exported_on=date(2026, 11, 30)))
    turkish_text = tco_to_csv(found, form="turkish", exported_on=date(2026, 11, 30))
    assert turkish_text.startswith("\ufeff")
    turkish = read(turkish_text.lstrip("\ufeff"), delimiter=";")
    assert len(plain) == len(turkish) == 36 * len(found.options)
    for option in found.options:
        for rows, number in ((plain, float), (turkish, lambda text: float(text.replace(",", ".")))):
            own = [row for row in rows if (row["option"], row["arm"]) == (option.name, option.arm)]
            assert sum(number(row["total"]) for row in own) == pytest.approx(option.total)
            paid = sum(number(row["paid"]) + number(row["paid_today"]) for row in own)
            assert paid == pytest.approx(option.total)
            assert [row["month"] for row in own] == [str(month) for month in range(1, 37)]
    api = next(row for row in plain if row["kind"] == "api")
    assert api["gpus"] == api["replicas"] == ""
    assert {row["label"] for row in plain} == {"calculated"}
    assert {row["currency"] for row in plain} == {"USD"}


def test_names_in_the_csv_are_guarded_and_prices_that_are_not_the_tables_carry_no_hash_of_it():
    made = everything(name="=1+1", cloud=[{**CLOUD, "name": "@SUM(A1)"}], best={}, worst={})
    rows = read(tco_to_csv(tco(made), table=load_prices()))
    assert {row["scenario"] for row in rows} == {"'=1+1"}
    assert "'@SUM(A1)" in {row["option"] for row in rows}
    rented = [row for row in rows if row["option"] == "'@SUM(A1)"]
    own = "the user's own price, not from this table"
    assert {row["prices_in_table"] for row in rented} == {f"2.1: {own}; 1.2: {own}"}
    assert {row["price_table_sha256"] for row in rows} == {""}


def test_what_is_owed_after_the_term_is_in_the_headline_and_the_csv():
    """9 and 13 GPUs for two years more at 2.49 x 8,760: 392,623.20 and 567,122.40."""
    made = scenario(cloud__0__parts__0__commitment="reserved_3yr")
    said = report(made).headline[-1]
    assert said == (
        "Still owed for reservations when the term is over, with tax, and in no total: rented, speculative: $392,623; "
        "rented, plain: $567,122."
    )
    assert "Still owed" not in " ".join(report(scenario()).headline)
    rows = read(tco_to_csv(tco(made)))
    owed = {row["arm"]: sum(float(r["owed_after_term"]) for r in rows if r["arm"] == row["arm"]) for row in rows}
    assert owed == {"plain": pytest.approx(567_122.40), "speculative": pytest.approx(392_623.20)}


def test_break_even_against_an_api_has_its_tokens_and_busy_share():
    """The 224,101 requests a day of test_golden; never against a token that costs nothing."""
    apis = [
        {"name": "api", "input_per_million": 0.5, "output_per_million": 1.5},
        {"name": "free", "input_per_million": 0, "output_per_million": 1e-9},
    ]
    made = scenario(serving__spare_replicas=0, api=apis)
    assert report(made).break_even.rows == (
        ("rented in place of api", "224,101", "8,179,686,500", "17.3%"),
        ("rented in place of free", "not below 1,000 times today's demand", "–", "–"),
    )
    assert report(made, language="tr").break_even.rows[1][1] == "bugünkü talebin 1.000 katına dek ucuzlamıyor"
    assert report(scenario()).break_even is None
    assert "8,179,686,500" in to_html(report(made))


def test_a_saving_that_comes_too_late_is_a_loss_everywhere():
    """Speculation saves 4 of 12 replicas: 4 x 2.49 x 8760 = 87,249.60 in the year, after 86,600 at its beginning:
    649.60 in all. At 50 % a year what comes back month by month is worth less than what was paid at the beginning."""
    made = scenario(cost_of_capital=0.5, speculation__pilot=86_600, serving__spare_replicas=0)
    choice = tco(made).speculation[0]
    assert choice.saving == pytest.approx(4 * 2.49 * 8760 - 86_600)
    assert choice.npv < 0 < choice.saving
    assert choice.verdict == "late"
    shown = report(made)
    assert shown.loss
    assert "too late" in shown.headline[1]
    assert shown.speculation.rows[0][-1] == "a loss (NPV)"
    assert "too late" in to_html(shown)


def test_the_best_case_comes_first_though_it_costs_more():
    price = "cloud.0.parts.0.per_gpu_hour"
    made = scenario(best={price: 3.0}, worst={price: 2.0})
    assert report(made).headline[3] == "From best to worst case, rented, speculative costs $236,520 to $157,680."
    assert "$236.520 - $157.680" in report(made, language="tr").headline[3]
    assert report(made, case="best").headline[3].endswith("costs $236,520 to $157,680.")


def test_what_moves_the_total_most_comes_first_and_prices_follow():
    """The numbers with ranges by their swing; where there are none, nothing is said to be what it hangs on most."""
    made = everything()
    shown = report(made).conditions
    assert shown.title.startswith("What it hangs on most")
    best = min((o for o in tco(made).options if o.arm == "speculative"), key=lambda o: o.npv_of_cost)
    drivers = [driver.path for driver in tornado(made, best.name) if driver.swing > 0]
    names = {number.path: f"{number.section}: {number.name}" for number in told(made, Words())}
    rows = [row[0] for row in shown.rows if row[0] in names.values()]
    assert rows[: len(drivers)] == [names[path] for path in drivers[:8]]
    assert names["cloud.0.parts.0.per_gpu_hour"] in rows
    assert report(scenario()).conditions.title == "What it rests on"


def _printed(text):
    """In the last unit that is printed."""
    return int(re.sub(r"[^\d-]", "", text))


@pytest.mark.parametrize("language", ["en", "tr"])
@pytest.mark.parametrize("levels", [
    [1_047_404.4, 752_004.5, 757_004.5], [39_952.0, 34_952.3], [0.42, 0.31, 0.36], [5e9, 4.9994e9, 4.9e9],
    [1_047_404, 1_047_104, 757_004.5], [12_345_678.9, -2_000_000.6, 4.5],
])  # fmt: skip
def test_steps_add_up_as_they_are_printed(language, levels):
    first, changes, last = Words(language).steps(levels, "EUR")
    assert _printed(first) + sum(map(_printed, changes)) == _printed(last)


def test_the_waterfall_says_thousands_as_people_do():
    levels = [1_047_404.4, 752_004.5, 757_004.5]
    assert Words().steps(levels, "EUR") == ("€1,047K", ["-€295K", "+€5K"], "€757K")
    assert Words("tr").steps(levels, "EUR")[2] == "€757\u00a0bin"
    assert Words("tr").short_money(1_050_000_000, "TRY") == "₺1\u00a0mr"
    assert Words("tr").short_money(1_200_000, "TRY") == "₺1,2\u00a0mn"


def test_a_payback_of_days_is_under_a_week():
    words = Words()
    assert [words.weeks(weeks) for weeks in (None, 0, 0.3, 4, 183.04)] == ["–", "0", "under a week", "4.0", "183.0"]


def test_turkish_exports_use_the_pages_words():
    texts = " ".join(catalogue("tr").values()).lower()
    assert not re.search("spek[üu]l|öngörül", texts)
    assert catalogue("tr")["arm.speculative"] == "taslaklı"
    assert catalogue("tr")["label.projected"] == "kestirim"
