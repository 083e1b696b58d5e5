"""The finance tabs' sheets and charts, without a browser: each figure is the arithmetic's own."""

import json
from datetime import date
from pathlib import Path

import pytest
from finance_desk import EN, PEAK, PRICES, RATE, TR, opened, sheets, shelf_of, table, texts
from helpers.finance import a_loss, by_hand

import pricing
from app.finance import actions, chances, charts, cost_sheets, load_curve, shown, tabs, tco_charts, tco_sheets
from app.finance.sensitivity_sheets import steps
from pricing.break_even import break_even, break_even_requests_per_day, break_evens
from pricing.figure import Figure
from pricing.scenario_file import dump_scenario, load_scenario
from pricing.tco import tco

SHIPPED = Path(pricing.__file__).parent / "data" / "scenarios"

pytestmark = pytest.mark.usefixtures("shipped")


def test_the_costs_of_the_worked_scenario_are_those_worked_out_by_hand():
    """13 replicas: 13 x 2.49 x 730 = 23,630.10 a month for 26,280,000 requests: 0.00089917 each. Of a request's 0.3 s
    0.2 go to 200 output tokens: 23,630.10 x 2/3 / 5,256 M x 1e6 = 2.9972."""
    rows = {row["cells"][0]: texts(row) for row in table(sheets(opened())["cost_cards"], "rented")["rows"]}
    assert rows["a request"][1] == "$0.0008992"
    assert rows["1M output tokens"][1] == "$2.997"
    assert rows["a conversation"][1] == "$0.004496"
    assert rows["1M output, whole bill"][1] == "$4.496"
    assert rows["1,000 words, Turkish"][1] == shown.unit_price(2.99722 * 2.6 / 1000, "USD", EN)
    # 9 replicas: 16,359.30 a month and a pilot of 29,083.20; half of 0.2 s is writing.
    total = 9 * 2.49 * 730 * 12 + 29_083.20
    assert rows["a request"][2] == shown.unit_price(total / (26_280_000 * 12), "USD", EN)
    assert rows["1M output tokens"][2] == shown.unit_price(total / 2 / (5_256 * 12), "USD", EN)


@pytest.mark.parametrize("words", [EN, TR], ids=["en", "tr"])
def test_each_cost_is_the_arithmetics_own(words):
    held = opened(words=words)
    made = tco(by_hand())
    for option in made.options:
        rows = table(sheets(held, words)["cost_cards"], option.name)["rows"]
        for row in rows:
            for cell in row["cells"][1:]:
                if isinstance(cell, dict) and cell["why"][0] == "token" and cell["why"][2] == option.arm:
                    value = getattr(option.tokens, cell["why"][3])
                    assert cell["t"] == shown.unit_price(value, "USD", words)


def test_an_apis_tokens_are_shown_at_their_list_prices():
    rows = {row["cells"][0]: texts(row)[1] for row in table(sheets(opened())["cost_cards"], "an API")["rows"]}
    assert rows["1M output tokens"] == "$1.500"
    assert rows["1M input tokens"] == "$0.5000"


def test_the_tco_table_is_the_arithmetics_own():
    held = opened("tco")
    made = tco(by_hand())
    rows = {texts(row)[0]: row for row in table(sheets(held)["options"], "options")["rows"]}
    plain, fast = (made.option("rented", arm) for arm in ("plain", "speculative"))
    (choice,) = [c for c in made.speculation if c.option == "rented, speculative"]
    assert texts(rows["rented"])[1:] == [
        "$283,561", shown.money(fast.total, "USD", EN), shown.money(fast.npv_of_cost, "USD", EN),
        shown.money(choice.saving, "USD", EN), "17.4", "17.4", shown.percent(choice.irr, EN),
    ]  # fmt: skip
    assert plain.total == pytest.approx(13 * 2.49 * 730 * 12)
    assert choice.payback_weeks == pytest.approx(4 * 365 / 12 / 7)  # 29,083.20 over 4 x 2.49 x 730 a month
    assert texts(rows["an API"])[2] is None
    assert list(rows) == list(dict.fromkeys(option.name for option in made.options))


def test_a_loss_is_called_one_and_a_gain_is_not():
    held = opened("tco", a_loss())
    told = [b["text"] for b in tco_sheets.verdict(held.now, EN)["blocks"]]
    assert "rented: speculation is a loss. It costs" in told[1]
    turkish = tco_sheets.verdict(held.now, TR)["blocks"][1]
    assert "zarar ettiriyor" in turkish["text"]
    assert turkish["tone"] == "loss"
    (row,) = table(sheets(held)["options"], "options")["rows"]
    assert row["cells"][4]["tone"] == "loss"
    assert row["cells"][4]["t"].startswith("−₺")
    assert texts(row)[5:] == ["not within the term", "not within the term", "none"]
    gain = next(b for b in tco_sheets.verdict(opened("tco").now, EN)["blocks"] if b["text"].startswith("rented: "))
    assert "is paid back in 17.4 weeks" in gain["text"]
    assert gain["tone"] == "gain"


def test_a_loss_that_is_a_gain_at_todays_value_says_both_and_has_the_colour_of_a_loss():
    # Machines are bought once, and upkeep is paid month by month: at 40 % a year the later ones weigh less.
    late = load_scenario(SHIPPED / "ecommerce_chat.toml").with_values(
        {"cost_of_capital": 0.4, "speculation.upkeep_per_month": 91_500}
    )
    (choice,) = [c for c in tco(late).speculation if c.option.startswith("Own DGX")]
    assert choice.saving < 0 < choice.npv
    blocks = tco_sheets.verdict(opened("tco", late).now, EN)["blocks"]
    (block,) = [block for block in blocks if block["text"].startswith("Own DGX")]
    assert f"that is a gain of {shown.money(choice.npv, 'USD', EN)}" in block["text"]
    assert block["tone"] == "loss"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"speculation__pilot": 0}, "with nothing to pay in advance"),
        ({"speculation__pilot": 85_000, "cost_of_capital": 0.9}, "but too late"),
        (
            {"serving__speculative__output_tokens_per_second": 1000, "speculation__pilot": 0},
            "changes nothing in the bill",
        ),
    ],
)
def test_what_speculation_is_worth_is_said_in_words(changes, told):
    made = tco(by_hand(owned=[], api=[], **changes))
    assert told in tco_sheets.worth("rented", made.speculation[0], made.scenario, EN)


def test_a_rate_of_fifteen_digits_is_only_called_high():
    (choice, *_) = tco(by_hand(speculation__pilot=1)).speculation
    assert choice.irr > 1e6
    assert tco_sheets.irr_of(choice, EN) == "over 10,000%"
    assert tco_sheets.irr_of(choice, TR) == "%10.000’den çok"


def test_a_break_even_has_its_tokens_and_how_busy_it_is_beside_it():
    made = by_hand(serving__spare_replicas=0)
    rows = table(tco_sheets.break_evens(opened("tco", made).now, EN), "break_even")["rows"]
    assert [row["cells"][0]["t"] for row in rows] == ["own rack", "rented"]
    evens = {even.option: even for even in break_evens(made)}
    for row, even in ((row, evens[row["cells"][0]["t"]]) for row in rows):
        assert even.requests_per_day == break_even_requests_per_day(made, even.option, "an API")
        cell = row["cells"][1]
        assert cell["t"] == tco_sheets.break_even_text(even, EN)
        if even.requests_per_day:
            tokens, busy = shown.number(even.tokens_per_month / 1e6, EN, 3), shown.percent(even.busy_share, EN, 0)
            assert cell["sub"] == f"{tokens}M tokens a month, {busy} busy"
        else:
            assert "sub" not in cell
    cheap = by_hand(api=[{"name": "an API", "input_per_million": 0, "output_per_million": 1e-9}])
    never = break_even(cheap, "rented", "an API")
    assert tco_sheets.break_even_text(never, EN) == "not below 1,000 times today's demand"


def test_what_is_owed_for_reservations_after_the_term_is_said():
    """9 and 13 GPUs for two years more at 2.49 x 8,760: $392,623 and $567,122."""
    held = opened("tco", by_hand(cloud__0__parts__0__commitment="reserved_3yr", owned=[], api=[]))
    told = [block["text"] for block in tco_sheets.options(held.now, EN)["blocks"] if block["type"] == "text"]
    assert told[-1].startswith("Still owed for reservations when the term is over, with tax, and in no total: ")
    assert "rented, speculative: $392,623" in told[-1]
    assert "rented, plain: $567,122" in told[-1]


def test_a_two_way_table_stays_in_what_a_scenario_may_hold():
    held = opened("tco", by_hand(workload__hours_on_share={"value": 0.8, "low": 0.5, "high": 0.9}))
    scenario = held.now.scenario
    for path, figure in scenario.figures().items():
        values = steps(Figure(value=figure.value), scenario.bounds(path))
        assert figure.value in values
        alone = [scenario.bounds(path).fault(value) for value in values]
        assert not any(alone), path
    assert max(steps(Figure(value=0.8), scenario.bounds("workload.hours_on_share"))) == 1
    assert steps(Figure(value=8), scenario.bounds("owned.0.gpus_per_server")) == [4, 7, 8, 10, 13, 16]


def test_years_add_up_and_say_what_they_are_of():
    held = opened("tco", by_hand(years=3))
    held.picks["option"] = "own rack|plain"
    rows = {texts(row)[0]: texts(row) for row in table(sheets(held)["years"], "years")["rows"]}
    option = held.now.made.option("own rack", "plain")
    assert rows["Total"][-1] == shown.money(option.total, "USD", EN)
    assert rows["Energy"][1] == shown.money(float(option.yearly["energy"][0]), "USD", EN)
    assert "API tokens" not in rows


def test_the_curve_of_cost_against_load_is_that_of_the_scenarios_own_requests():
    """0.3 s (plain) and 0.2 s (speculative) of a replica, four at once: 1.2 s and 0.8 s by themselves, and at a fifth
    of the load nobody in twenty waits."""
    held = opened("cost", by_hand(serving__requests_at_once=4))
    for line, alone in zip(load_curve.load_lines(held.now, "rented"), (1.2, 0.8), strict=True):
        assert line.request_s * 4 == pytest.approx(alone)
        by_busy = {round(point.busy_share, 6): point for point in line.points}
        assert by_busy[0.2].p95_s == by_busy[0.2].p50_s == pytest.approx(alone)
        assert by_busy[0.95].p95_s > 2 * alone
        for point in line.points:
            per_million = line.per_replica_hour / (3600 * point.requests_per_second * 200) * 1e6
            assert point.per_million_output_tokens == pytest.approx(per_million)
        alone_cost = held.now.made.option("rented", line.arm).tokens.per_million_output_alone
        assert line.points[line.own].per_million_output_tokens == pytest.approx(alone_cost)


def test_latency_against_load_is_read_off_the_curve_where_one_was_measured():
    curve = {
        arm: [{"busy_share": 0.2, "p95_s": 1}, {"busy_share": 0.6, "p95_s": 3}] for arm in ("plain", "speculative")
    }
    held = opened("cost", by_hand(serving__p95_target_s=2, load_curve=curve))
    for line in load_curve.load_lines(held.now, "rented"):
        at = {round(point.busy_share, 6): point for point in line.points}
        assert (at[0.4].p95_s, at[0.9].p95_s, at[0.4].p50_s) == (pytest.approx(2), 3, None)


def test_the_waterfall_ends_where_the_speculative_bill_is():
    now = opened().now
    for name in ("rented", "own rack"):
        plain, fast = (now.made.option(name, arm).total for arm in ("plain", "speculative"))
        assert plain + sum(delta for _, delta in charts.fall(now, name)) == pytest.approx(fast, abs=0.02)
        figure = charts.waterfall(now, name, TR)
        assert figure.data[0].measure[0] == "absolute"
        assert figure.layout.separators == ",."


def test_no_chart_has_categories_on_an_axis():
    held = opened("tco")
    list(chances.run(held, EN))
    made = {**tabs.all_of(held, PRICES, EN), **tabs.all_of(opened(), PRICES, EN)}
    for name in tabs.PLOTS:
        figure = made[name]["value"]
        for axis in (figure.layout.xaxis, figure.layout.yaxis):
            assert axis.type in ("linear", "log"), name


def test_texts_of_a_scenario_are_no_markup_in_a_chart():
    nasty = "<a href='javascript:alert(1)'>x</a>%{y}"
    held = opened("tco", by_hand(cloud__0__name=nasty, api=[], owned=[]))
    drawn = tco_charts.cash(held.now, EN).to_plotly_json()
    told = json.dumps(drawn)
    assert "<a href" not in told
    assert all("%{y}" not in trace["hovertemplate"] for trace in drawn["data"])


def test_stale_prices_are_told_and_drawn_hollow():
    held = opened()
    today = date(2027, 6, 1)
    rows = cost_rows = tabs.price_sheet.wanted(held, PRICES, today)
    figure = charts.prices(cost_rows, held.now, EN, today)
    assert {trace.marker.symbol.endswith("-open") for trace in figure.data} == {True}
    sheet = tabs.price_sheet.sheet(held, held.now, PRICES, EN, today)
    assert f"{len(rows)} of them were read more than 90 days ago" in sheet["blocks"][0]["text"]
    assert len(figure.layout.shapes) == 1  # what this scenario pays
    assert not charts.prices(cost_rows, opened(scenario=a_loss()).now, EN, today).layout.shapes


def test_a_provider_that_there_is_not_is_all_of_them():
    held = opened()
    everything = len(tabs.price_sheet.wanted(held, PRICES, date(2026, 11, 30)))
    tabs.pick(held, "provider", "AWS")
    assert 0 < len(tabs.price_sheet.wanted(held, PRICES, date(2026, 11, 30))) < everything
    tabs.pick(held, "provider", "<b>")
    assert len(tabs.price_sheet.wanted(held, PRICES, date(2026, 11, 30))) == everything


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("option", "x|plain"),
        ("row", "nothing"),
        ("across", "workload.about"),
        ("fall", "an API"),
        ("against", "no"),
        ("tab", "x"),
        (None, None),
        ("row", 3),
    ],
)
def test_a_pick_that_is_no_choice_changes_no_figure(name, value):
    held, same = opened("tco"), opened("tco")
    tabs.pick(held, name, value)
    ours, theirs = (tabs.rest(h, PRICES, EN) for h in (held, same))
    for sheet in ("years", "two_way", "moved"):
        assert ours[sheet] == theirs[sheet]


def test_a_two_way_table_has_the_scenarios_own_total_marked():
    held = opened("tco")
    tabs.pick(held, "row", RATE)
    rows = table(tabs.rest(held, PRICES, EN)["two_way"], "two_way")["rows"]
    marked = [cell for row in rows for cell in row["cells"][1:] if cell.get("tone") == "here"]
    assert [cell["t"] for cell in marked] == [shown.money(held.now.made.option("rented").total, "USD", EN)]
    tabs.pick(held, "across", RATE)  # the same number twice is no table
    held.picks["row"] = RATE
    again = tabs.rest(held, PRICES, EN)["two_way"]
    assert len({pick["value"] for pick in again["blocks"][0]["picks"]}) == 2


def test_what_moved_is_told_with_its_effect_and_the_term():
    held = opened("tco")
    held.edit({"id": held.drawn, "seq": 1, "edits": {RATE: {"value": 3}, "years": {"value": 2}}, "case": "base"}, EN)
    told = next(b for b in tabs.moved(held, EN)["blocks"] if b["type"] == "list")["items"]
    # 9 GPUs at 2.49 for a year more; 9 x 0.51 x 8,760.
    assert [item["t"] for item in told] == [
        "The term goes from one year to 2 years; that alone raises the total by $196,311.60.",
        "rented: Price of a GPU: on demand goes from 2.49 to 3 (+20.48%); that alone raises the total by $40,208.40.",
    ]
    turkish = tabs.moved(held, TR)
    assert "tek başına toplamı" in json.dumps(turkish, ensure_ascii=False)


def test_scenarios_in_two_currencies_are_not_subtracted():
    held = opened("tco")
    made = actions.compare(held, {"text": dump_scenario(a_loss()), "name": "loss"}, PRICES, EN)
    assert "Compared with “yavaş taslak”" in shelf_of(made)["told"]
    told = [b.get("text", "") for b in tabs.moved(held, EN)["blocks"]]
    assert any("different currencies (TRY and USD)" in text for text in told)


def test_the_head_says_what_the_figures_rest_on_and_what_is_left_out():
    held = opened()
    made = cost_sheets.head(held, EN)["blocks"]
    assert made[0]["text"] == "by hand · 1 year · USD"
    labels = [figure.label for figure in by_hand().figures().values()]
    assert f"{labels.count('assumed')} assumed" in made[2]["text"]
    assert cost_sheets.excluded(held.now.scenario, EN)["blocks"][1]["items"] == [{"t": "What nobody counts"}]
    held.edit({"id": held.drawn, "seq": 1, "edits": {PEAK: {"value": "x"}}, "case": "worst"}, EN)
    told = [b["text"] for b in cost_sheets.head(held, EN)["blocks"]]
    assert told[0].endswith("· worst case")
    assert any(text.startswith("Peak factor: “x” is not a number") for text in told)
    assert EN("faults_stand") in told
