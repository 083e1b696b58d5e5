"""Scenarios for the finance tabs: one small enough to work out by hand, with every kind of option in it, and one in
which speculation is a loss; as files, as those that ship are."""

from helpers.scenarios import scenario
from pricing.scenario_file import save_scenario

OWN = {
    "name": "own rack", "gpus_per_server": 8, "price": {"value": 300_000, "low": 250_000, "high": 400_000},
    "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1,
}  # fmt: skip
API = {
    "name": "an API", "input_per_million": 0.5,
    "output_per_million": {"value": 1.5, "label": "quoted", "source": "its price page, 2026-11-30"},
}  # fmt: skip


def by_hand(**changes):
    """13 replicas plain and 9 speculative at 2.49 $/h: 13 x 2.49 x 730 = 23,630.10 and 16,359.30 a month."""
    given = {
        "about": "Worked out by hand.",
        "excluded": ["What nobody counts"],
        "workload__requests_per_day": {
            "value": 864_000, "low": 400_000, "high": 1_500_000, "label": "measured", "source": "a log of October",
        },
        "serving__speculative__output_tokens_per_second": {
            "value": 2000, "low": 800, "high": 2500, "label": "projected", "source": "a roofline",
        },
        "cloud__0__parts__0__per_gpu_hour": {
            "value": 2.49, "low": 2, "high": 3, "label": "quoted", "source": "a price page, 2026-11-30",
        },
        "speculation__pilot": 29_083.20,
        "owned": [OWN],
        "api": [API],
        "best": {"workload.peak_factor": 1.5},
        "worst": {"workload.peak_factor": 4},
        **changes,
    }  # fmt: skip
    return scenario(**given)


def a_loss(**changes):
    """Speculation at half the speed, in lira, with nothing beside one rented fleet."""
    given = {
        "name": "yavaş taslak",
        "currency": "TRY",
        "serving__speculative__output_tokens_per_second": 500,
        "cloud__0__parts__0__per_gpu_hour": 100,
        **changes,
    }
    return scenario(**given)


def ship(folder):
    """Both as files in `folder`; "by_hand" comes first."""
    save_scenario(by_hand(), folder / "by_hand.toml")
    save_scenario(a_loss(), folder / "loss.toml")
