"""What must hold of every total cost of ownership, whatever the numbers."""

import pytest
from helpers.finance import by_hand
from helpers.scenarios import scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing.bill import LINES, dealt_out, run
from pricing.break_even import break_even_requests_per_day
from pricing.columns import column
from pricing.tco import BEHIND, tco

OWN = {"name": "own", "gpus_per_server": 8, "price": 300_000, "idle_kw": 2, "active_kw": 10, "per_kwh": 0.1}
API = {"name": "api", "input_per_million": 0.5, "output_per_million": 1.5}
SOME = st.floats(min_value=0.01, max_value=100)


@st.composite
def scenarios(draw):
    return scenario(
        years=draw(st.integers(1, 5)),
        cost_of_capital=draw(st.floats(0, 0.5)),
        tax_share=draw(st.floats(0, 0.3)),
        workload__requests_per_day=draw(st.floats(1, 1e7)),
        workload__growth_per_year=draw(st.floats(-0.5, 2)),
        workload__peak_factor=draw(st.floats(1, 10)),
        workload__cached_input_share=draw(st.floats(0, 1)),
        workload__hours_on_share=draw(st.floats(0.1, 1)),
        serving__plain__output_tokens_per_second=draw(st.floats(10, 1e5)),
        speculation__pilot=draw(st.floats(0, 1e5)),
        speculation__upkeep_per_month=draw(st.floats(0, 1e4)),
        cloud__0__parts__0__per_gpu_hour=draw(SOME),
        owned=[{**OWN, "life_years": draw(st.floats(0.5, 6)), "residual_share": draw(st.floats(0, 1))}],
        api=[API],
    )


@settings(max_examples=40)
@given(scenarios())
def test_parts_add_up_to_the_bill(made):
    for option in tco(made).options:
        lines = option.monthly[[*LINES, *BEHIND]]
        assert lines.to_numpy().sum() == pytest.approx(option.total, rel=1e-9, abs=1e-6)
        assert option.monthly["total"].sum() == pytest.approx(sum(option.flows), rel=1e-9, abs=1e-6)
        assert option.yearly["total"].sum() == pytest.approx(option.total, rel=1e-9, abs=1e-6)
        assert len(option.monthly) == 12 * made.years
        assert len(option.yearly) == made.years
        cost, months = option.tokens, option.monthly
        parts = (
            (cost.per_million_input or 0) * months["input_tokens"].sum()
            + (cost.per_million_cached_input or 0) * months["cached_input_tokens"].sum()
            + (cost.per_million_output or 0) * months["output_tokens"].sum()
        )
        assert parts / 1e6 == pytest.approx(option.total, rel=1e-9)


@settings(max_examples=40)
@given(scenarios(), st.floats(1.01, 10))
def test_a_faster_machine_never_costs_more(made, times):
    faster = made.with_values(
        {"serving.plain.output_tokens_per_second": made.serving.plain.output_tokens_per_second.value * times}
    )
    before, after = (tco(s).option("rented", "plain") for s in (made, faster))
    assert after.total <= before.total + 1e-6


@settings(max_examples=40)
@given(scenarios())
def test_what_is_worth_less_later_is_not_back_sooner(made):
    for choice in (*tco(made).speculation, *tco(made).choices):
        if choice.discounted_payback_weeks is not None:
            assert choice.payback_weeks is not None
            assert choice.payback_weeks <= choice.discounted_payback_weeks
        if choice.payback_weeks == 0:
            assert choice.saving >= 0


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=20),
)
def test_parts_of_a_fleet_are_whole_and_add_up_to_it(weights, replicas):
    shares = [column([weight / sum(weights)] * 2) for weight in weights]
    fleet = column(replicas).reshape(1, -1) + column([0.0, 1.0])  # two draws, a month each
    dealt = dealt_out(fleet, shares)
    assert (sum(dealt) == fleet).all()
    for share, part in zip(shares, dealt, strict=True):
        assert (part % 1 == 0).all()
        assert (abs(part - fleet * share) < 1).all()


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([1, 1, 12, 36])), min_size=1, max_size=5),
    st.integers(0, 300),
    st.floats(0.9, 1.0),
)
def test_nothing_is_rented_by_the_month_while_a_reserved_replica_idles(kinds, most, kept):
    weights, terms = zip(*kinds, strict=True)
    shares = [column([weight / sum(weights)]) for weight in weights]
    fleet = column([round(most * kept**month) for month in range(60)]).reshape(1, -1)
    running = run(fleet, shares, list(terms))
    reserved = sum((part for part, term in zip(running, terms, strict=True) if term > 1), 0 * fleet)
    monthly = sum((part for part, term in zip(running, terms, strict=True) if term == 1), 0 * fleet)
    assert (reserved + monthly >= fleet).all()
    assert (monthly * (reserved + monthly - fleet) == 0).all()
    for part, term in zip(running, terms, strict=True):
        assert (part % 1 == 0).all()
        rented: list[float] = []
        for month, held in enumerate(part[0].tolist() if term > 1 else []):
            rented.append(held - sum(rented[max(0, month - term + 1) :]))
            assert rented[-1] >= 0, "given back before its term ends"


@settings(max_examples=60)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=2), st.integers(0, 300), st.floats(1.0, 1.1))
def test_where_demand_does_not_fall_all_parts_keep_their_shares(weights, least, times):
    """Of two; of three and more, rounding may take a replica from one while the fleet grows."""
    shares = [column([weight / sum(weights)]) for weight in weights]
    fleet = column([round(least * times**month) for month in range(60)]).reshape(1, -1)
    for part, due in zip(run(fleet, shares, [12, 1][: len(weights)]), dealt_out(fleet, shares), strict=True):
        assert (part == due).all()


@settings(max_examples=60)
@given(st.sampled_from(["reserved_1yr", "reserved_3yr", "on_demand"]), st.integers(1, 5), st.floats(-0.9, 3))
def test_what_is_committed_never_shrinks_in_its_term(commitment, years, growth):
    made = scenario(years=years, workload__growth_per_year=growth, cloud__0__parts__0__commitment=commitment)
    months = tco(made).option("rented", "plain").monthly
    term = made.cloud[0].parts[0].term_months
    assert (months["gpus"] >= months["replicas"]).all()
    for month in range(len(months)):
        if month % term:
            assert months["gpus"][month] >= months["gpus"][month - 1] or term == 1


@settings(max_examples=40)
@given(scenarios())
def test_the_fleet_keeps_up_with_its_busiest_hour(made):
    for option in tco(made).options:
        if option.kind != "api":
            at_work = option.monthly["at_work"] * made.workload.peak_factor.value
            free = option.monthly["replicas"] - made.serving.spare_replicas.value
            assert (at_work <= free * made.serving.busy_limit.value * (1 + 1e-6) + 1e-6).all()


def test_cost_per_token_falls_as_speed_rises_until_one_replica_does_it():
    costs = [
        tco(scenario(serving__plain__output_tokens_per_second=speed)).option("rented", "plain").tokens
        for speed in (100, 300, 1000, 3000, 10_000)
    ]
    outputs = [cost.per_million_output for cost in costs]
    assert outputs == sorted(outputs, reverse=True)


def test_a_slower_draft_is_shown_as_a_loss():
    (choice,) = tco(scenario(serving__speculative__output_tokens_per_second=500)).speculation
    assert choice.saving < 0
    assert choice.saving_share < 0
    assert choice.npv < 0
    assert choice.payback_weeks is None
    assert choice.irr is None


def test_speculation_pays_its_own_way_back():
    """Plain 13 replicas, speculative 9: 4 x 2.49 x 730 = 7,270.80 a month against 29,083.20 once: 4 months."""
    (choice,) = tco(scenario(speculation__pilot=29_083.20)).speculation
    assert choice.payback_weeks == pytest.approx(4 * 365 / 12 / 7)
    assert choice.discounted_payback_weeks == pytest.approx(choice.payback_weeks)  # money costs nothing here
    # At 10 % a month twelve payments of 1 are worth (1 - 1 / 1.1^12) / 0.1 = 6.8136918: 49,540.9903 for 7,270.80. A
    # year of 10 % a month is 1.1^12 - 1 = 2.1384284.
    (longer,) = tco(scenario(speculation__pilot=49_540.9903)).speculation
    assert longer.irr == pytest.approx(2.1384284, abs=1e-6)
    dear = tco(scenario(speculation__pilot=29_083.20, cost_of_capital=0.3)).speculation[0]
    assert dear.discounted_payback_weeks > choice.payback_weeks


def test_servers_are_bought_as_demand_grows_and_again_when_they_are_old():
    """Doubling each year: 6, 8.49.. replicas' work; capex only in months in which one more is needed or one is old."""
    made = scenario(years=3, workload__growth_per_year=1.0, owned=[{**OWN, "life_years": 2}])
    months = tco(made).option("own", "plain").monthly
    servers = months["gpus"] / 8
    bought = months["capex"] / 300_000
    new = servers.diff().fillna(servers.iloc[0])
    old = new.shift(24).fillna(0)
    assert (bought - new - old).abs().max() < 1e-9
    assert new.sum() > new.iloc[0]


def test_a_growing_fleet_keeps_p95_read_off_its_own_curve():
    curve = {
        "plain": [{"busy_share": 0.5, "p95_s": 1}, {"busy_share": 0.9, "p95_s": 5}],
        "speculative": [{"busy_share": 0.5, "p95_s": 0.6}, {"busy_share": 0.9, "p95_s": 3}],
    }
    made = tco(scenario(load_curve=curve, serving__p95_target_s=3))
    # plain: 3 s lies half-way, 0.7 busy: 6 / 0.7 -> 9, and 1; speculative: 0.9 busy: 4 / 0.9 -> 5, and 1
    assert made.option("rented", "plain").monthly["replicas"].tolist() == [10.0] * 12
    assert made.option("rented").monthly["replicas"].tolist() == [6.0] * 12
    with pytest.raises(ValueError, match="raise the target or use faster machines"):
        tco(scenario(load_curve=curve, serving__p95_target_s=0.8))


def test_the_least_demand_still_takes_a_replica():
    (month, *_) = (
        tco(scenario(workload__requests_per_day=1e-6, serving__spare_replicas=0)).option("rented").monthly["replicas"]
    )
    assert month == 1


def test_break_even_is_where_the_two_cost_the_same():
    made = scenario(api=[API], serving__spare_replicas=0, serving__busy_limit=0.5)
    found = break_even_requests_per_day(made, "rented", "api")
    assert found is not None
    dear, cheap = (tco(made.with_values({"workload.requests_per_day": found * scale})) for scale in (0.5, 1.5))
    assert dear.option("rented").total > dear.option("api").total
    assert cheap.option("rented").total < cheap.option("api").total
    free = scenario(api=[{**API, "output_per_million": 1e-9, "input_per_million": 0}])
    assert break_even_requests_per_day(free, "rented", "api") is None


def test_every_option_is_weighed_against_every_other():
    made = tco(scenario(owned=[OWN], api=[API]))
    pairs = {(choice.option, choice.instead_of): choice for choice in made.choices}
    assert len(pairs) == 6
    for (a, b), choice in pairs.items():
        assert choice.saving == pytest.approx(-pairs[b, a].saving)
        assert choice.npv == pytest.approx(-pairs[b, a].npv)
    with pytest.raises(KeyError, match="there are"):
        made.option("nothing")


def test_a_slower_machine_than_its_speeds_say_is_slower_both_ways():
    """At half of its speeds: 0.6 and 0.4 s a request; 20 a second in the peak hour, half busy, one spare."""
    made = tco(scenario(serving__speed_factor=0.5))
    replicas = [made.option("rented", arm).monthly["replicas"].iloc[0] for arm in ("plain", "speculative")]
    assert replicas == [25, 17]


def test_an_option_stands_for_its_cheaper_way_of_decoding_in_place_of_others():
    # In the rack by hand a draft is a loss, on rented machines a gain.
    made = tco(by_hand())
    own, rented = made.option("own rack", "plain"), made.option("rented", "speculative")
    assert own.npv_of_cost < made.option("own rack", "speculative").npv_of_cost
    assert {choice.option for choice in made.choices} == {"own rack, plain", "rented, speculative", "an API"}
    (found,) = [c for c in made.choices if (c.option, c.instead_of) == ("own rack, plain", "rented, speculative")]
    assert found.npv == pytest.approx(rented.npv_of_cost - own.npv_of_cost)
