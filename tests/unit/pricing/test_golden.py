"""Values worked out by hand, to the cent; the arithmetic of each stands beside it."""

import pytest
from helpers.scenarios import scenario

from pricing import usd_per_million_tokens
from pricing.break_even import BreakEven, break_even, break_evens
from pricing.finance import irr, monthly_rate, npv, payback_months, payback_weeks
from pricing.service_level import highest_busy_share
from pricing.tco import tco
from pricing.tokens import token_costs


@pytest.mark.parametrize(
    ("per_hour", "tokens_per_second", "busy", "worked"),
    [
        (2.49, 100, 1.0, 6.916667),  # 2.49 / 360,000 x 1e6
        (8 * 2.49, 100, 1.0, 55.333333),  # 19.92 / 360,000 x 1e6
        (2.00, 85, 1.0, 6.535948),  # 2 / 306,000 x 1e6
        (1.50, 2000, 1.0, 0.208333),  # 1.5 / 7.2e6 x 1e6
        (1.69, 1000, 1.0, 0.469444),
        (6.98, 6238, 1.0, 0.310819),  # 6.98 / 22,456,800 x 1e6
        (2.50, 50, 1.0, 13.888889),  # a published calculator says 0.14
        (98.32, 24_800, 1.0, 1.101254),  # 98.32 / 89.28e6 x 1e6
        (55.04, 24_800, 1.0, 0.616487),
        (98.32, 151_728.395, 1.0, 0.18),  # what 0.18 $/1M at 98.32 $/h takes
        (2.49, 100, 0.25, 27.666667),  # a quarter busy: four times as dear
        (3.60, 1000, 0.5, 2.0),
    ],
)
def test_a_million_output_tokens_cost(per_hour, tokens_per_second, busy, worked):
    assert usd_per_million_tokens(per_hour, tokens_per_second, busy) == pytest.approx(worked, abs=5e-7)


# 100 a month for 1,000 requests of 2,000 + 500 cached input and 250 output tokens; a request takes 0.2 + 0.05 + 0.75 s.
SPLIT = token_costs(
    100.0,
    input_s=0.2,
    cached_input_s=0.05,
    output_s=0.75,
    input_tokens=2_000_000,
    cached_input_tokens=500_000,
    output_tokens=250_000,
    requests=1000,
    turns_per_conversation=4,
    english_tokens_per_word=1.3,
    turkish_tokens_per_word=2.6,
)


@pytest.mark.parametrize(
    ("name", "worked"),
    [
        ("per_million_input", 10.0),  # 20 for 2M
        ("per_million_cached_input", 10.0),  # 5 for 0.5M
        ("per_million_output", 300.0),  # 75 for 0.25M
        ("per_million_output_alone", 400.0),  # 100 for 0.25M
        ("blended_per_million", 36.363636),  # 100 for 2.75M
        ("per_request", 0.1),
        ("per_conversation", 0.4),
        ("per_1000_words_english", 0.39),  # 1,300 tokens at 300 a million
        ("per_1000_words_turkish", 0.78),
    ],
)
def test_a_bill_of_100_splits_by_time(name, worked):
    assert getattr(SPLIT, name) == pytest.approx(worked, abs=5e-7)


@pytest.mark.parametrize(
    ("found", "worked"),
    [
        (monthly_rate(0.12682503013196977), 0.01),  # 1.01^12 - 1
        (npv(0.0, [-100, 60, 60]), 20.0),
        (npv(0.12682503013196977, [-100, 50.5, 51.005]), 0.0),  # 50.5 / 1.01 = 50, 51.005 / 1.01^2 = 50
        (irr([-100, *[0] * 11, 110]), 0.10),
        (payback_months([-900, 300, 300, 300, 300]), 3.0),
        (payback_months([-1000, 400, 400, 400]), 2.5),  # 200 left, of 400
        (payback_weeks([-1000, 400, 400, 400]), 10.863095),  # 2.5 x 365 / 12 / 7
        (payback_months([-100, 50.5, 51.005, 51.51505], 0.12682503013196977), 2.0),
        (payback_months([0, 5, 5]), 0.0),
        (payback_months([-100, 120, -50, 40]), 2.75),  # back at 20, down to -30, 30 of the next 40
        # Today's value of a month's money is 0.9 of it, and (10 / 9)^12 a year. -1, 19, -1, 4: back for good a fifth
        # into the third month. Discounted alone -1, 17, 0.8, 4.445: it would be back in the first month, before that.
        (payback_months([-1, 20, -20, 5]), 2.2),
        (payback_months([-1, 20, -20, 5], (10 / 9) ** 12 - 1), 2.2),
        # -10, -4.6, 0.26: 0.54 of the second month's 0.9^2 x 6 = 4.86 and more are left: 4.6 / 4.86.
        (payback_months([-10, 6, 6], (10 / 9) ** 12 - 1), 1.946502),
    ],
)
def test_finance(found, worked):
    assert found == pytest.approx(worked, abs=5e-7)


@pytest.mark.parametrize("found", [
    irr([-100, -1]), irr([1, 2]), payback_months([-10, 1, 1]),
    payback_months([10, -6, -6], (10 / 9) ** 12 - 1),  # 10 - 5.4 - 4.86 < 0, and 10 - 12 too
    payback_months([10, -6, -5], (10 / 9) ** 12 - 1),  # 0.55 at its value today, but a loss of 1
])  # fmt: skip
def test_what_never_comes_back_has_no_figure(found):
    assert found is None


@pytest.mark.parametrize(
    ("target_s", "worked"),
    [(1.0, 0.4), (1.5, 0.5), (2.0, 0.6), (4.0, 0.7), (9.0, 0.8), (0.5, None)],
)
def test_the_busiest_that_keeps_p95(target_s, worked):
    points = [(0.4, 1.0), (0.6, 2.0), (0.8, 6.0)]
    assert highest_busy_share(points, target_s) == (None if worked is None else pytest.approx(worked))


def totals(**changes):
    return {option.title: option.total for option in tco(scenario(**changes)).options}


OWN = {"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1, "pue": 1.5}


@pytest.mark.parametrize(
    ("option", "changes", "worked"),
    [
        ("rented, plain", {}, 283_561.20),  # 13 x 2.49 x 8,760
        ("rented, speculative", {}, 196_311.60),  # 9 x 2.49 x 8,760
        ("rented, plain", {"tax_share": 0.2}, 340_273.44),
        # On 12 of 24 hours 20 requests/s come, 40 in the peak: 12 / 0.5 + 1 = 25 replicas, half of the hours billed.
        ("rented, plain", {"workload__hours_on_share": 0.5}, 272_655.00),  # 25 x 2.49 x 4,380
        # Half of the input cached and a cached token at a tenth: 0.055 + 0.2 = 0.255 s; 5.1 / 0.5 -> 11, and 1.
        ("rented, plain", {"workload__cached_input_share": 0.5}, 261_748.80),  # 12 x 2.49 x 8,760
        ("rented, plain", {"cloud__0__support_share": 0.1}, 311_917.32),
        ("rented, plain", {"cloud__0__egress_per_million_requests": 10}, 286_714.80),  # 315.36M requests: 3,153.60
        ("rented, plain", {"cloud__0__storage_per_month": 100}, 284_761.20),
        ("rented, plain", {"cloud__0__gpus_per_instance": 8}, 348_998.40),  # 16 GPUs
        ("rented, plain", {"serving__gpus_per_replica": 2}, 567_122.40),
        ("rented, plain", {"serving__spare_replicas": 0}, 261_748.80),  # 12
        # Spot for everything, a fifth lost: 13 / 0.8 = 16.25 -> 17 at 1.00.
        (
            "rented, plain",
            {"cloud__0__parts": [{"commitment": "spot", "per_gpu_hour": 1.0, "interruption_share": 0.2}]},
            148_920.00,
        ),
        # Half reserved around the clock at 2, half on demand in half of the hours at 3; 25 replicas: 13 and 12.
        (
            "rented, plain",
            {
                "workload__hours_on_share": 0.5,
                "cloud__0__parts": [
                    {"commitment": "reserved_1yr", "per_gpu_hour": 2.0, "fleet_share": 0.5},
                    {"commitment": "on_demand", "per_gpu_hour": 3.0, "fleet_share": 0.5},
                ],
            },
            385_440.00,  # 13 x 2 x 8,760 + 12 x 3 x 4,380
        ),
        # 5 weeks at 4,000, 10,000 of pilot, 500 a month; a tenth slower: 0.1 + 200 / 1800 = 0.2111 s, 9 + 1 replicas.
        (
            "rented, speculative",
            {
                "speculation": {
                    "engineering_weeks": 5,
                    "per_engineering_week": 4000,
                    "pilot": 10_000,
                    "upkeep_per_month": 500,
                    "capacity_share_taken": 0.1,
                }
            },
            254_124.00,  # 10 x 2.49 x 8,760 + 36,000
        ),
        # 315.36M requests: 315,360M tokens in at 1 a million, 63,072M out at 3.
        ("api", {"api": [{"name": "api", "input_per_million": 1, "output_per_million": 3}]}, 504_576.00),
        (
            "api",
            {
                "workload__cached_input_share": 0.5,
                "api": [
                    {
                        "name": "api",
                        "input_per_million": 1,
                        "cached_input_per_million": 0.1,
                        "output_per_million": 3,
                    }
                ],
            },
            362_664.00,  # 157,680M at 1, 157,680M at 0.1, 63,072M at 3
        ),
        # Two servers (13 of 16 GPUs). 3 of 16 GPUs busy: 2 + 8 x 3 / 16 = 3.5 kW, x 1.5 x 8,760 h x 0.1 = 4,599 each.
        ("own, plain", {"owned": [OWN]}, 159_198.00),  # worth 3/4 after 1 of 4 years: 600,000 - 450,000 + 9,198
        # Sold at the end of a life of one year for a fifth.
        ("own, plain", {"owned": [{**OWN, "life_years": 1, "residual_share": 0.2}]}, 489_198.00),
        ("own, plain", {"owned": [{**OWN, "life_years": 1}]}, 609_198.00),
        (
            "own, plain",
            {"owned": [{**OWN, "life_years": 1, "network_share": 0.1, "install": 5000, "staff_fte": 0.5,
                        "per_fte_year": 80_000, "support_share_per_year": 0.05, "licence_per_gpu_year": 1000,
                        "colocation_per_kw_month": 200}]},
            # 609,198 + 60,000 + 10,000 + 40,000 + 30,000 + 16,000 + 2 x 10 x 200 x 12 = 48,000
            813_198.00,
        ),
    ],
)  # fmt: skip
def test_a_years_total(option, changes, worked):
    assert totals(**changes)[option] == pytest.approx(worked, abs=0.005)


def parts(*told, **changes):
    """A fleet of parts (commitment, price, share), and what else is other."""
    made = [{"commitment": c, "per_gpu_hour": price, "fleet_share": share} for c, price, share in told]
    for part in made:
        if part["commitment"] == "spot":
            part["interruption_share"] = 0.2
    return {"cloud__0__parts": made, **changes}


# 86,400 requests a day are one a second: 0.3 (or 0.2) replicas at work, 0.6 (0.4) in the peak, 1.2 (0.8) half busy.
SMALL = {"workload__requests_per_day": 86_400}
# Halving each year; 12, 11.33, 10.69, 10.09, 9.52, 8.99, 8.49, 8.01, 7.56, 7.14, 6.74, 6.36 replicas of the first year
# are 113 whole ones, and 12 spare.
FALLING = {"workload__growth_per_year": -0.5}


@pytest.mark.parametrize(
    ("option", "changes", "worked"),
    [
        # 3 replicas (2 and a spare one) 60/40: 1.8 and 1.2, so 1 and 1, and one more for the 0.8: 2 x 2 + 1 x 3.
        ("rented, plain", parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), **SMALL), 61_320.00),  # 7 x 8,760
        # 2 replicas: 1.2 and 0.8, so 1 and 1.
        ("rented, speculative", parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), **SMALL), 43_800.00),
        # 1.5, 0.75, 0.75: 1, 0, 0 and one each for the two largest remainders: 2 + 3 + 4.
        (
            "rented, plain",
            parts(("on_demand", 2, 0.5), ("on_demand", 3, 0.25), ("on_demand", 4, 0.25), **SMALL),
            78_840.00,  # 9 x 8,760
        ),
        # 1.5 and 1.5: of equal remainders the first.
        ("rented, plain", parts(("on_demand", 2, 0.5), ("on_demand", 3, 0.5), **SMALL), 61_320.00),
        # 2 and 1; of the spot one 1 / 0.8 = 1.25, so 2 are rented: 2 x 3 + 2 x 1.
        ("rented, plain", parts(("on_demand", 3, 0.6), ("spot", 1, 0.4), **SMALL), 70_080.00),
        # 2 and 1 replicas on instances of 8 GPUs: 8 x 2 + 8 x 3.
        (
            "rented, plain",
            parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), **SMALL, cloud__0__gpus_per_instance=8),
            350_400.00,  # 40 x 8,760
        ),
        # On demand and in capacity blocks falling demand is followed, 125 GPU-months; a reserved one is kept, 156.
        ("rented, plain", parts(("on_demand", 2, 1), **FALLING), 182_500.00),  # 125 x 2 x 730
        ("rented, plain", parts(("capacity_block", 2, 1), **FALLING), 182_500.00),
        ("rented, plain", parts(("reserved_1yr", 2, 1), **FALLING), 227_760.00),  # 13 x 12 x 2 x 730
        ("rented, plain", parts(("reserved_unstated", 2, 1), **FALLING), 227_760.00),
        # After a year half of it is renewed: 6 and a spare one. Of three years all 13 are kept.
        ("rented, plain", parts(("reserved_1yr", 2, 1), years=2, **FALLING), 350_400.00),  # (13 + 7) x 2 x 8,760
        ("rented, plain", parts(("reserved_3yr", 2, 1), years=2, **FALLING), 455_520.00),  # 13 x 2 x 17,520
        # 8 of 13 replicas reserved and 5 on demand, which run what is left over: of 13, 13, 12, 12, 11, 10, 10, 10, 9,
        # 9, 8, 8 are 5, 5, 4, 4, 3, 2, 2, 2, 1, 1, 0, 0: 29 months.
        (
            "rented, plain",
            parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), **FALLING),
            203_670.00,  # 8 x 2 x 8,760 + 29 x 3 x 730
        ),
        # In the second year of 7 (4.2 and 2.8) 4 are reserved, and 3, 2 and 1 for four months each are on demand.
        (
            "rented, plain",
            parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), years=2, **FALLING),
            326_310.00,  # 203,670 + 4 x 2 x 8,760 + 24 x 3 x 730
        ),
        # 8 GPUs of an instance are reserved, and 8 on demand for ten months: in the last two 8 replicas are all.
        (
            "rented, plain",
            parts(("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4), cloud__0__gpus_per_instance=8, **FALLING),
            315_360.00,  # 8 x 2 x 8,760 + 8 x 10 x 3 x 730
        ),
        # Of 13 6, 4 and 3, of 12 6, 4 and 2, of 11 6, 3 and 2. Of 10, 9 and 8 would be 5, 4 and 4 reserved: 6 are, and
        # 4, 3, 2 are left over, dealt out 3 to 2 as 2 and 2, 2 and 1, 1 and 1. On demand 4, 4, 4, 4, 3, 2, 2, 2, 2, 2,
        # 1, 1; spot, by 1 / 0.8 more, 4, 4, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2.
        (
            "rented, plain",
            parts(("reserved_1yr", 2, 0.5), ("on_demand", 3, 0.3), ("spot", 1, 0.2), **FALLING),
            197_830.00,  # 6 x 2 x 8,760 + 31 x 3 x 730 + 34 x 1 x 730
        ),
        # 7 for three years, 3 for one, whatever stands first, and 3, 3, 2, 2, 1 on demand. After a year 7 are needed
        # and 7 still paid for: nothing else is rented.
        (
            "rented, plain",
            parts(("on_demand", 3, 0.25), ("reserved_1yr", 2, 0.25), ("reserved_3yr", 1.5, 0.5), years=2, **FALLING),
            260_610.00,  # 7 x 1.5 x 17,520 + 3 x 2 x 8,760 + 11 x 3 x 730
        ),
        # Tax on all but staff: 813,198 of the year above less 40,000.
        (
            "own, plain",
            {"tax_share": 0.2,
             "owned": [{**OWN, "life_years": 1, "network_share": 0.1, "install": 5000, "staff_fte": 0.5,
                        "per_fte_year": 80_000, "support_share_per_year": 0.05, "licence_per_gpu_year": 1000,
                        "colocation_per_kw_month": 200}]},
            967_837.60,  # 813,198 + 0.2 x 773,198
        ),
        # Of speculation's own costs on the pilot alone: 10 x 2.49 x 8,760 = 218,124; 20,000 of weeks, 6,000 of upkeep.
        (
            "rented, speculative",
            {
                "tax_share": 0.2,
                "speculation": {
                    "engineering_weeks": 5, "per_engineering_week": 4000, "pilot": 10_000, "upkeep_per_month": 500,
                    "capacity_share_taken": 0.1,
                },
            },
            299_748.80,  # 1.2 x 228,124 + 26,000
        ),
    ],
)  # fmt: skip
def test_whole_parts_terms_and_taxes(option, changes, worked):
    assert totals(**changes)[option] == pytest.approx(worked, abs=0.005)


@pytest.mark.parametrize(
    ("changes", "worked", "owed"),
    [
        # 13 for three years, in a scenario of one: 24 months are left.
        (parts(("reserved_3yr", 2, 1)), 227_760.00, 455_520.00),  # 13 x 2 x 730 x 24
        (parts(("reserved_3yr", 2, 1), tax_share=0.2), 273_312.00, 546_624.00),
        # Support is a share of what is rented, for as long as it is.
        (parts(("reserved_3yr", 2, 1), cloud__0__support_share=0.1), 250_536.00, 501_072.00),
        (parts(("reserved_1yr", 2, 1)), 227_760.00, 0.0),
        (parts(("on_demand", 2, 1)), 227_760.00, 0.0),
        # 1.99 replicas grow by 1 % a year past 2 after 12 x ln(2 / 1.99) / ln(1.01) = 6.04 months: 3 for 7 months, 4
        # for 5. The fourth runs on for 7 months.
        (
            parts(("reserved_1yr", 2, 1), workload__requests_per_day=143_280, workload__growth_per_year=0.01),
            59_860.00,  # (3 x 12 + 5) x 2 x 730
            10_220.00,  # 7 x 2 x 730
        ),
    ],
)
def test_what_is_owed_after_the_term_is_in_no_total(changes, worked, owed):
    option = tco(scenario(**changes)).option("rented", "plain")
    assert option.total == pytest.approx(worked, abs=0.005)
    assert option.beyond_term == pytest.approx(owed, abs=0.005)


def test_an_hour_of_all_that_is_paid_for_is_busy_so_much():
    """3 of 13 replicas are at work; on 16 GPUs of two instances, 3 of 16; 13 are kept while 2.83 have work, later."""
    month = tco(scenario()).option("rented", "plain").monthly
    assert month["busy_share"][0] == pytest.approx(3 / 13)
    month = tco(scenario(cloud__0__gpus_per_instance=8)).option("rented", "plain").monthly
    assert month["busy_share"][0] == pytest.approx(3 / 16)
    month = tco(scenario(**parts(("reserved_1yr", 2, 1), **FALLING))).option("rented", "plain").monthly
    assert month["busy_share"][1] == pytest.approx(3 * 0.5 ** (1 / 12) / 13)


def test_break_even_in_requests_tokens_and_busy_share():
    """A request costs 1,000 x 0.5 + 200 x 1.5 a million = 0.0008, one a day for a year 0.292. A replica costs
    2.49 x 8,760 = 21,812.40 and serves up to 108,000 requests a day (0.2 s, twice that in the peak, half busy). Three
    cost as much as 3 x 21,812.40 / 0.292 = 224,100 requests a day; four are cheaper from their first request on. From
    one more on it costs less."""
    made = scenario(
        serving__spare_replicas=0, api=[{"name": "api", "input_per_million": 0.5, "output_per_million": 1.5}]
    )
    (found,) = break_evens(made)
    assert (found.option, found.instead_of) == ("rented", "api")
    assert found.requests_per_day == 224_101
    assert found.tokens_per_month == pytest.approx(8_179_686_500)  # 224,101 x 365 / 12 x 1,200
    assert found.busy_share == pytest.approx(0.1729174, abs=5e-8)  # 224,101 / 86,400 x 0.2 = 0.5187523 of 3


def test_break_even_never_and_always():
    """A token at nothing is never dearer; at 1,000 a million a replica's year is dearer than 1 request a day."""
    free = scenario(api=[{"name": "api", "input_per_million": 0, "output_per_million": 1e-9}])
    dear = scenario(api=[{"name": "api", "input_per_million": 1000, "output_per_million": 1000}])
    assert break_even(free, "rented", "api") == BreakEven("rented", "api", None, None, None)
    assert break_even(dear, "rented", "api") == BreakEven("rented", "api", 0, 0, None)
    with pytest.raises(ValueError, match="no option is called nobody; there are rented, api"):
        break_even(free, "nobody", "api")
