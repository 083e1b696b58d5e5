"""A scenario in which every kind of option, price, share and label occurs."""

from helpers.scenarios import scenario

HOSTILE = (
    "=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "\t=1", "＝1+1", "a*b?~c", 'quo"te', "<img src=x onerror=alert(1)>",
    "${alert(1)}", "{{x}}", "İstanbul'da ışık", "x" * 80,
)  # fmt: skip

CURVE = {
    "plain": [{"busy_share": 0.9, "p95_s": 5}, {"busy_share": 0.5, "p95_s": 1}],
    "speculative": [
        {"busy_share": 0.5, "p95_s": 0.6}, {"busy_share": 0.7, "p95_s": 1}, {"busy_share": 0.9, "p95_s": 4},
    ],
}  # fmt: skip
CLOUD = {
    "name": "rented", "gpus_per_instance": 8, "storage_per_month": 500, "egress_per_million_requests": 3,
    "support_share": 0.05,
    "parts": [
        {"commitment": "reserved_1yr", "fleet_share": 0.6,
         "per_gpu_hour": {"value": 2.1, "label": "quoted", "source": "a list, 9 Nov 2026", "low": 1.9, "high": 2.6}},
        {"commitment": "spot", "fleet_share": 0.4, "interruption_share": 0.15,
         "per_gpu_hour": {"value": 1.2, "label": "quoted", "source": "price list, 9 Nov 2026"}},
    ],
}  # fmt: skip
OWNED = {
    "name": "own", "gpus_per_server": 8, "price": {"value": 300_000, "low": 250_000, "high": 400_000}, "idle_kw": 2,
    "active_kw": 10, "per_kwh": 0.1, "network_share": 0.12, "install": 5000, "residual_share": 0.25, "life_years": 1.5,
    "colocation_per_kw_month": 180, "staff_fte": 0.5, "per_fte_year": 90_000, "support_share_per_year": 0.03,
    "licence_per_gpu_year": 400,
}  # fmt: skip
API = {
    "name": "api", "output_per_million": 0.6, "cached_input_per_million": 0.075,
    "input_per_million": {"value": 0.15, "label": "quoted", "source": "a vendor's list, 1 Nov 2026"},
}  # fmt: skip


def _mixed(name, size, *parts):
    """A fleet of parts (commitment, price, share); of a spot GPU's hours a fifth is lost."""
    return {"name": name, "gpus_per_instance": size, "parts": [
        {"commitment": kind, "per_gpu_hour": price, "fleet_share": share, "interruption_share": 0.2 * (kind == "spot")}
        for kind, price, share in parts
    ]}  # fmt: skip


# Reserved replicas beside none, one and two kinds by the month, in this order and another.
MIXED = [
    _mixed("one", 1, ("reserved_1yr", 2.0, 0.6), ("on_demand", 3.0, 0.4)),
    _mixed("two", 8, ("on_demand", 3.0, 0.3), ("reserved_1yr", 2.0, 0.45), ("spot", 1.0, 0.25)),
    _mixed("terms", 1, ("on_demand", 3.0, 0.15), ("reserved_1yr", 2.0, 0.25), ("reserved_3yr", 1.5, 0.5),
           ("spot", 1.0, 0.1)),
    _mixed("no other", 2, ("reserved_1yr", 2.0, 0.4), ("reserved_3yr", 1.5, 0.6)),
]  # fmt: skip


def everything(**changes):
    """`scenario` with all of that, and `changes`."""
    whole = {
        "name": "Bank document summaries",
        "about": "Günde 864.000 istek.",
        "currency": "USD",
        "years": 3,
        "cost_of_capital": 0.12,
        "tax_share": {"value": 0.2, "label": "quoted", "source": "VAT, 2026"},
        "workload__requests_per_day": {"value": 864_000, "low": 500_000, "high": 1_200_000},
        "workload__growth_per_year": {"value": 0.3, "low": 0.0, "high": 0.8},
        "workload__cached_input_share": 0.3,
        "workload__hours_on_share": 0.6,
        "serving__plain__output_tokens_per_second": {
            "value": 1000, "label": "measured", "source": "run 1, H100 SXM, 1 Nov 2026", "low": 900, "high": 1050,
        },
        "serving__speculative__output_tokens_per_second": {
            "value": 2000, "label": "projected", "source": "roofline from run 1", "low": 1500, "high": 2200,
        },
        "serving__p95_target_s": 3,
        "load_curve": CURVE,
        "speculation": {
            "engineering_weeks": 6, "per_engineering_week": 5000, "pilot": 20_000, "upkeep_per_month": 1500,
            "capacity_share_taken": 0.05,
        },
        "cloud": [CLOUD],
        "owned": [OWNED],
        "api": [API, {"name": "api without a cached price", "input_per_million": 0.3, "output_per_million": 1.2}],
        "excluded": ["Moving the service between regions", "Training of the model"],
        "best": {"workload.peak_factor": 1.5, "cloud.0.parts.0.per_gpu_hour": 1.9},
        "worst": {"workload.peak_factor": 3, "serving.speculative.output_tokens_per_second": 900},
    }  # fmt: skip
    return scenario(**{**whole, **changes})
