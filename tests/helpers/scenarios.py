"""A scenario small enough to work out by hand."""

from copy import deepcopy

from pricing.scenario_file import scenario_from

# 864,000 requests a day are 10 a second. A plain request takes 1000 / 10000 + 200 / 1000 = 0.3 s of a replica, a
# speculative one 0.1 + 200 / 2000 = 0.2 s. In the peak hour 20 requests/s keep 6 (or 4) replicas at work; each may be
# busy half of its time, and one is spare: 13 (or 9).
BY_HAND = {
    "name": "by hand",
    "currency": "USD",
    "years": 1,
    "cost_of_capital": 0,
    "workload": {
        "requests_per_day": 864_000,
        "input_tokens": 1000,
        "output_tokens": 200,
        "peak_factor": 2,
        "turns_per_conversation": 5,
        "english_tokens_per_word": 1.3,
        "turkish_tokens_per_word": 2.6,
    },
    "serving": {
        "model": "a model",
        "gpu": "H100 SXM",
        "gpus_per_replica": 1,
        "busy_limit": 0.5,
        "plain": {"input_tokens_per_second": 10_000, "output_tokens_per_second": 1000},
        "speculative": {"input_tokens_per_second": 10_000, "output_tokens_per_second": 2000},
    },
    "cloud": [{"name": "rented", "parts": [{"commitment": "on_demand", "per_gpu_hour": 2.49}]}],
}


def scenario(**changes):
    """BY_HAND with entries changed by their path, `a__b` for a.b; a list replaces a list."""
    given = deepcopy(BY_HAND)
    for path, value in changes.items():
        *way, last = path.split("__")
        at = given
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        at[int(last) if isinstance(at, list) else last] = deepcopy(value)  # what is changed next is not the caller's
    return scenario_from(given)
