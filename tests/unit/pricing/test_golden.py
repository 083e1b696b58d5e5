"""Values worked out by hand, to the cent; the arithmetic of each stands beside it."""

import pytest
from helpers.scenarios import scenario

from pricing import usd_per_million_tokens
from pricing.demand import busy_share, concurrency
from pricing.finance import (
    annuity,
    break_even_busy_share,
    break_even_tokens_per_month,
    irr,
    monthly_rate,
    npv,
    payback_months,
    payback_weeks,
)
from pricing.load import highest_busy_share
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
        (annuity(1000, 0.0, 4), 250.0),
        (annuity(1000, 0.10, 2), 576.190476),  # 1000 x 0.1 / (1 - 1 / 1.21)
        (break_even_tokens_per_month(320, 3.0), 106_666_666.666667),
        (break_even_tokens_per_month(320, 3.0, 1.0), 160_000_000.0),
        (break_even_busy_share(1.2, 3.0), 0.4),
        (busy_share(10, 0.3, 6), 0.5),
        (concurrency(10, 1.5), 15.0),
    ],
)
def test_finance(found, worked):
    assert found == pytest.approx(worked, abs=5e-7)


@pytest.mark.parametrize("found", [irr([-100, -1]), irr([1, 2]), payback_months([-10, 1, 1])])
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
        # Half reserved around the clock at 2, half on demand in half of the hours at 3; 25 replicas: 13 and 13.
        (
            "rented, plain",
            {
                "workload__hours_on_share": 0.5,
                "cloud__0__parts": [
                    {"commitment": "reserved_1yr", "per_gpu_hour": 2.0, "fleet_share": 0.5},
                    {"commitment": "on_demand", "per_gpu_hour": 3.0, "fleet_share": 0.5},
                ],
            },
            398_580.00,  # 13 x 2 x 8,760 + 13 x 3 x 4,380
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
