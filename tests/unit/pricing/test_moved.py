"""What moved between two scenarios: only what did, matched by name, with what it alone changes."""

from copy import deepcopy

import pytest
from helpers.scenarios import BY_HAND, scenario

from pricing.export.told_moved import label, refusal, sentences, value_text
from pricing.export.words import Words
from pricing.moved import Moved, NotComparableError, what_moved

EN, TR = Words("en"), Words("tr")
API = {"name": "api", "input_per_million": 1, "output_per_million": 3}
RENTED = deepcopy(BY_HAND["cloud"][0])
OTHER = {"name": "other", "parts": [{"commitment": "on_demand", "per_gpu_hour": 5}]}
YEAR = 8760  # hours; 9 replicas of the speculative arm at 2.49


def told(before, after, words=EN, option="rented"):
    return sentences(what_moved(before, after, option), before, after, words)


def test_the_largest_first_with_its_effect_in_two_languages():
    before, after = scenario(), scenario(workload__peak_factor=4, cloud__0__parts__0__per_gpu_hour=2.0, name="later")
    first, second = what_moved(before, after, "rented")
    assert first == Moved("number", "workload.peak_factor", 2, 4, pytest.approx(8 * 2.49 * YEAR))  # 17 replicas, not 9
    assert second.effect == pytest.approx(-9 * 0.49 * YEAR)
    assert told(before, after) == [
        "Workload: Busiest hour over the mean hour goes from 2 to 4 (+100%); that alone raises the total by "
        "$174,499.20.",
        "rented: Price of a GPU: on demand goes from 2.49 to 2 (-19.68%); that alone lowers the total by $38,631.60.",
    ]
    assert [text.split("; ")[1] for text in told(before, after, TR)] == [
        "tek başına toplamı $174.499,20 artırır.", "tek başına toplamı $38.631,60 azaltır.",
    ]  # fmt: skip
    assert what_moved(before, before, "rented") == []


def test_options_that_changed_places_have_not_moved():
    before = scenario(cloud=[RENTED, OTHER], api=[API])
    after = scenario(cloud=[OTHER, RENTED], api=[API])
    assert what_moved(before, after, "rented") == []
    dearer = scenario(cloud=[OTHER, {**RENTED, "parts": [{"commitment": "on_demand", "per_gpu_hour": 3}]}], api=[API])
    (one,) = what_moved(before, dearer, "rented")
    assert (one.path, one.before, one.after) == ("cloud.0.parts.0.per_gpu_hour", 2.49, 3)
    assert one.effect == pytest.approx(9 * 0.51 * YEAR)


def parts(*made):
    return [{"commitment": c, "per_gpu_hour": price, "fleet_share": share} for c, price, share in made]


def test_parts_that_changed_places_have_not_moved():
    one, other = ("reserved_1yr", 2, 0.6), ("on_demand", 3, 0.4)
    before, after = (scenario(cloud__0__parts=parts(*some)) for some in ((one, other), (other, one)))
    assert what_moved(before, after, "rented") == []


def test_a_commitment_a_term_and_a_mix_are_differences():
    """9 replicas. On 12 of 24 hours: 4 / 0.5 / 0.5 and a spare one are 17, on demand in half of the hours."""
    before = scenario(workload__hours_on_share=0.5)
    reserved = scenario(workload__hours_on_share=0.5, cloud__0__parts__0__commitment="reserved_1yr")
    (one,) = what_moved(before, reserved, "rented")
    assert one == Moved(
        "commitment", "cloud.0.parts.0.commitment", "on_demand", "reserved_1yr", pytest.approx(17 * 2.49 * YEAR / 2)
    )
    assert told(before, reserved) == [
        "rented: the commitment goes from on demand to reserved 1 year; that alone raises the total by $185,405.40."
    ]
    (one,) = what_moved(scenario(), scenario(years=2), "rented")
    assert one == Moved("term", "years", 1, 2, pytest.approx(9 * 2.49 * YEAR))
    # 9 at 6/4: 5.4 and 3.6 are 5 and 4; at 5/5: 4.5 and 4.5 are 5 and 4 too; at 2/8: 1.8 and 7.2 are 2 and 7.
    mixes = [scenario(cloud__0__parts=parts(("spot", 1, a), ("on_demand", 3, 1 - a))) for a in (0.6, 0.5, 0.2)]
    assert [m.effect for m in what_moved(mixes[0], mixes[1], "rented")] == [pytest.approx(0)]
    (one,) = what_moved(mixes[0], mixes[2], "rented")
    assert (one.kind, one.effect) == ("fleet", pytest.approx((3 * 3 - 3) * YEAR))
    assert told(mixes[0], mixes[2])[0].startswith(
        "rented: the mix of the fleet goes from 60% spot + 40% on demand to 20% spot + 80% on demand; that alone raises"
    )


def test_a_part_more_is_a_mix_and_its_price_is_not_a_move():
    """9 replicas on demand at 2.49; then 5 of them (4.5 and 4.5: the first has one more) and 4 of spot at 1."""
    after = scenario(cloud__0__parts=parts(("on_demand", 2.49, 0.5), ("spot", 1, 0.5)))
    (one,) = what_moved(scenario(), after, "rented")
    assert (one.kind, one.effect) == ("fleet", pytest.approx(-4 * 1.49 * YEAR))
    dearer = scenario(cloud__0__parts=parts(("on_demand", 3, 0.5), ("spot", 1, 0.5)))
    assert {m.kind: m.effect for m in what_moved(scenario(), dearer, "rented")} == {
        "fleet": pytest.approx(-4 * 1.49 * YEAR), "number": pytest.approx(9 * 0.51 * YEAR),
    }  # fmt: skip


def test_options_come_and_go_by_their_name():
    before, after = scenario(api=[API]), scenario(cloud=[RENTED, OTHER], name="more")
    assert {(m.path, m.before, m.after) for m in what_moved(before, after, "rented")} == {
        ("api.0", "api", None), ("cloud.1", None, "other"),
    }  # fmt: skip
    assert set(told(before, after)) == {"api is only in by hand.", "other is only in more."}
    with pytest.raises(ValueError, match="more has no option called api; it has rented, other"):
        what_moved(before, after, "api")


def test_a_number_that_came_and_a_curve_and_a_model():
    before = scenario(api=[API], workload__cached_input_share=0.5)
    after = scenario(api=[{**API, "cached_input_per_million": 0.1}], workload__cached_input_share=0.5)
    (one,) = what_moved(before, after, "api")
    # 157,680M cached tokens at 0.1 in place of 1.
    assert one == Moved("number", "api.0.cached_input_per_million", None, 0.1, pytest.approx(-141_912))
    assert "goes from nothing to 0.1; that alone lowers" in told(before, after, option="api")[0]
    curve = {arm: [{"busy_share": 0.25, "p95_s": 1}] for arm in ("plain", "speculative")}
    read = scenario(load_curve=curve, serving__p95_target_s=1)
    found = {m.kind: m for m in what_moved(scenario(), read, "rented")}
    assert found["curve"].effect == pytest.approx(8 * 2.49 * YEAR)  # 4 / 0.25 and a spare one
    model = scenario(serving__model="another")
    assert told(scenario(), model) == ["The model goes from a model to another."]


def test_two_currencies_are_refused_in_one_sentence():
    before, after = scenario(), scenario(currency="TRY", name="in lira")
    with pytest.raises(
        NotComparableError, match="by hand is in USD and in lira in TRY; their totals cannot be compared"
    ):
        what_moved(before, after, "rented")
    error = NotComparableError(before, after)
    assert "(USD and TRY)" in refusal(error, EN)
    assert "(USD ve TRY)" in refusal(error, TR)


def test_what_cannot_be_served_by_itself_has_no_effect():
    curve = {arm: [{"busy_share": 0.25, "p95_s": 1}] for arm in ("plain", "speculative")}
    before = scenario(load_curve=curve, serving__p95_target_s=1)
    faster = {arm: [{"busy_share": 0.25, "p95_s": 0.2}] for arm in ("plain", "speculative")}
    after = scenario(load_curve=faster, serving__p95_target_s=0.3, workload__peak_factor=4)
    found = {m.path: m.effect for m in what_moved(before, after, "rented")}
    assert found["serving.p95_target_s"] is None
    assert found["workload.peak_factor"] == pytest.approx(16 * 2.49 * YEAR)
    assert "cannot be told" in " ".join(told(before, after))


def test_each_is_named_and_written_as_in_its_sentence():
    before, after = scenario(), scenario(cost_of_capital=0.2, years=3)
    for moved, sentence in zip(what_moved(before, after, "rented"), told(before, after), strict=True):
        assert label(moved, before, after, EN) in sentence
        assert value_text(moved, moved.after, before, after, EN) in sentence
