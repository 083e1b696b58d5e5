"""Check my claim, without a browser: what is typed gets a verdict and its steps, or a sentence at its field."""

import json
import re
from datetime import date

import pytest
from claims_sheets import EN, PRICES, TR, in_the_readers_language, texts, verdict_of, words_of

from app.claims_model import check
from app.claims_tab import detail, fields, form, page
from engine.errors import EngineError
from engine.gpu_specs import load_gpu_specs
from pricing import PriceTable
from pricing.rows import PriceRow

HOSTILE = '${alert(1)} {{x}} <img src=x onerror="alert(2)"> </script>'
CAPPED = {"speedup": "3.5", "k": "5", "mean_acceptance_length": "3.2"}


def checked(words=EN, prices=PRICES, **typed):
    return page.checked(typed, prices, words)


def faults(words=EN, **typed):
    return checked(words, **typed)[0]["faults"]


def test_a_price_and_a_cost_entered_give_the_articles_speed():
    drawn, sheet = checked(usd_per_hour="98.32", usd_per_million="0.18")
    assert drawn["faults"] == {}
    assert "151,728 tokens/s" in words_of(sheet)
    assert "98.32 / (0.18 × 3600) × 1e6" in words_of(sheet)


def test_a_decimal_comma_is_turkish_and_a_decimal_point_is_asked_about():
    drawn, sheet = checked(TR, usd_per_hour="98,32", usd_per_million="0,18")
    assert drawn["faults"] == {}
    assert "151.728 token/s" in words_of(sheet)
    told = faults(TR, usd_per_hour="98.32", usd_per_million="0,18")
    assert list(told) == ["usd_per_hour"]
    assert "Türkçede bir sayının yazılışı değil" in told["usd_per_hour"]


def test_a_claim_beyond_the_acceptance_length_is_contradicted_with_the_limit():
    _, sheet = checked(**CAPPED)
    assert verdict_of(sheet) == "contradicted"
    assert "A speed-up of 3.5x is above the mean acceptance length (3.2x)" in words_of(sheet)
    assert verdict_of(checked(**{**CAPPED, "speedup": "2.1"})[1]) == "plausible"


def test_an_answer_is_turkish_in_all_that_is_not_marked_as_english():
    _, sheet = checked(TR, model="Llama-3.1-70B", gpu="H100 SXM", gpus="8", tokens_per_second="500",
                       plain_tokens_per_second="200", batch="4", k="5", mean_acceptance_length="3,2")  # fmt: skip
    told = "\n".join(in_the_readers_language(sheet))
    assert "2,5x hızlanma" in told
    assert re.findall(r"\b(?:the|is|with|and|tokens|assumed|requests|above|within|pass)\b", told) == []
    (fold,) = [block for block in sheet["blocks"] if block.get("name") == "projection"]
    assert all(item["lang"] == "en" for item in fold["blocks"][0]["items"][1:])


def test_a_blank_form_says_that_nothing_is_claimed():
    assert faults() == {"tokens_per_second": EN("claim_fault_nothing")}
    assert faults(TR, model="  ", speedup="") == {"tokens_per_second": TR("claim_fault_nothing")}


@pytest.mark.parametrize(
    "given", [None, "text", 7, [], [["k", "5"]], {"speedup": 2}, {"speedup": ["2"]}, {"nobody": "1"}]
)
def test_what_no_form_sends_is_a_blank_form(given):
    drawn, _ = page.checked(given, PRICES, EN)
    assert drawn["faults"] == {"tokens_per_second": EN("claim_fault_nothing")}


@pytest.mark.parametrize(
    ("typed", "place", "told"),
    [
        ({"speedup": "fast"}, "speedup", "“fast” is not a number"),
        ({"speedup": "0"}, "speedup", "above 0"),
        ({"speedup": "-2"}, "speedup", "above 0, not -2"),
        ({"speedup": "2", "gpus": "1.5"}, "gpus", "whole number, not 1.5"),
        ({"speedup": "2", "k": "65"}, "k", "No more than 64"),
        ({"speedup": "9" * 40}, "speedup", "No more than"),
        ({"speedup": "0." + "0" * 50 + "1"}, "speedup", "No less than 0.000000001"),
        ({"speedup": "2", "busy_share": "3"}, "busy_share", "from 0 to 1"),
        ({"speedup": "2", "gpu": "Abacus"}, "gpu", "“Abacus” is no GPU"),
        ({"speedup": "2", "precision": "fp1"}, "precision", "“fp1” is no precision"),
        ({"speedup": "2", "model": "Nothing-9B"}, "model", "“Nothing-9B” is no model"),
        ({"speedup": "2", "draft": "Nothing-9B"}, "draft", "is no model"),
        ({"speedup": "2", "draft_acceptance_rate": "0.6"}, "k", "says nothing without K"),
        ({"speedup": "2", "cost_ratio": "0.1"}, "k", "says nothing without K"),
        ({"speedup": "7", "k": "5"}, "speedup", "K + 1 = 6 tokens at most, so no speed-up is 7"),
        ({**CAPPED, "mean_acceptance_length": "6.5"}, "mean_acceptance_length", "K + 1 = 6"),
        ({**CAPPED, "mean_acceptance_length": "0.5"}, "mean_acceptance_length", "own token at least"),
        ({**CAPPED, "draft_acceptance_rate": "0.4"}, "draft_acceptance_rate", "not both"),
    ],
)
def test_what_cannot_be_is_told_at_its_field_in_either_language(typed, place, told):
    drawn, sheet = checked(**typed)
    assert list(drawn["faults"]) == [place]
    assert told in drawn["faults"][place]
    assert drawn["typed"] == typed
    assert texts(sheet) == [EN("claim_faulty")]
    turkish = {name: re.sub(r"^([\d]+)\.(\d+)$", r"\1,\2", text) for name, text in typed.items()}
    in_turkish = faults(TR, **turkish)
    assert list(in_turkish) == [place]
    assert in_turkish[place] != drawn["faults"][place]


def test_all_faulty_fields_are_told_at_once():
    assert set(faults(speedup="x", gpus="y", gpu="z", model="w")) == {"speedup", "gpus", "gpu", "model"}


def test_what_the_engine_cannot_work_out_is_told_of_the_whole_form(monkeypatch):
    def refuse(*args, **kwargs):
        raise EngineError("no such machine")

    monkeypatch.setattr(page, "check", refuse)
    drawn, sheet = checked(speedup="2")
    assert drawn["faults"] == {"": "no such machine"}
    assert drawn["typed"] == {"speedup": "2"}
    assert texts(sheet) == [EN("claim_faulty")]


def test_figures_that_do_not_belong_together_are_a_verdict_and_no_fault():
    drawn, sheet = checked(tokens_per_second="100", plain_tokens_per_second="50", speedup="3")
    assert drawn["faults"] == {}
    assert verdict_of(sheet) == "contradicted"
    assert "100 tokens/s" in words_of(sheet)  # 50 x 3 = 150, not 100
    assert "do not belong together" in words_of(sheet)


@pytest.mark.parametrize("path", ["/etc/passwd", "~", "..", ".", "app", "/srv/config.json", "x/config.json", "a\nb"])
def test_no_file_of_the_server_is_read_for_a_visitor(path, monkeypatch):
    monkeypatch.setattr("engine.model_shapes._from_file", lambda file: pytest.fail(f"{file} was read"))
    assert list(faults(speedup="2", model=path)) == ["model"]


def test_a_models_name_is_known_with_its_owner_too():
    drawn, sheet = checked(speedup="2", model="meta-llama/Llama-3.1-70B-Instruct", gpu="H100 SXM")
    assert drawn["faults"] == {}
    assert "Llama-3.1-70B-Instruct on H100 SXM" in words_of(sheet)


def test_a_share_may_be_a_percentage():
    share, percent = (form.read({**CAPPED, "mean_acceptance_length": "", "draft_acceptance_rate": text}, PRICES, EN)
                      for text in ("0.44", "44%"))  # fmt: skip
    assert share.claim.draft_acceptance_rate == pytest.approx(0.44)
    assert percent.claim.draft_acceptance_rate == pytest.approx(0.44)
    # and in the Turkish order
    turkish = {"speedup": "3,5", "k": "5", "draft_acceptance_rate": "%44"}
    assert form.read(turkish, PRICES, TR).claim.draft_acceptance_rate == pytest.approx(0.44)


def a_price(per_hour, provider="X", gpu="H100 SXM", mem=80, **more):
    return PriceRow(**{"provider": provider, "instance": "i", "gpu": gpu, "gpu_count": 8, "gpu_mem_gb": mem,
                       "currency": "USD", "per_hour": per_hour, "commitment": "on_demand", "as_of": date(2026, 1, 1),
                       "evidence": "A", "source_url": "https://example.org/p", **more})  # fmt: skip


def test_a_price_left_blank_is_the_cheapest_of_that_gpu_and_named():
    table = PriceTable.of(
        [a_price(32, "Dear"), a_price(16, "Cheap"), a_price(9, "Other", "L40S", 48),
         a_price(8, "Past", valid_until=date(2026, 2, 1)), a_price(12, "Foreign", currency="EUR")], "t.csv",
    )  # fmt: skip
    typed = {"gpu": "H100 SXM", "gpus": "4", "tokens_per_second": "1000"}
    entered = form.read(typed, table, EN, date(2026, 6, 1))
    assert entered.claim.usd_per_hour == pytest.approx(4 * 16 / 8)
    assert "Cheap" in entered.price_told(EN)
    assert "4 × $2.000 = $8.000 an hour" in entered.price_told(EN)
    sheet = detail.own(check(entered.claim), entered, EN)
    assert "https://example.org/p" in words_of(sheet)
    # 8 / (1000 x 3600) x 1e6 = 2.222
    assert "2.222 USD/1M" in words_of(sheet)


def test_a_price_is_taken_only_where_one_is_needed():
    typed = {"gpu": "H100 SXM", "tokens_per_second": "1000"}
    assert form.read({**typed, "usd_per_hour": "3"}, PRICES, EN).price is None
    # speed and cost give the price themselves: another one would only contradict them
    assert form.read({**typed, "usd_per_million": "1"}, PRICES, EN).price is None
    assert form.read({"gpu": "H100 SXM", "speedup": "2"}, PRICES, EN).price is None
    assert form.read({"tokens_per_second": "1000"}, PRICES, EN).price is None
    assert form.read(typed, PriceTable.of([], "t.csv"), EN).price is None


@pytest.mark.parametrize("words", [EN, TR], ids=["en", "tr"])
def test_the_examples_can_be_checked_as_they_are(words):
    for one in form.drawn(words)["examples"]:
        assert page.checked(one["typed"], PRICES, words)[0]["faults"] == {}


def test_every_gpu_of_the_table_can_be_chosen():
    for gpu in load_gpu_specs():
        assert faults(gpu=gpu, speedup="2", model="Llama-3.1-8B") == {}


@pytest.mark.parametrize("name", [n for n, f in fields.FIELDS.items() if f.kind in ("number", "count", "share")])
@pytest.mark.parametrize("text", ["1", "0." + "0" * 50 + "1", "999999999999999", "64", "1,000", "inf", "1e9", "٣"])
def test_any_number_in_any_field_gets_an_answer(name, text):
    typed = {"model": "Llama-3.1-8B", "gpu": "H100 SXM", "speedup": "2", name: text}
    drawn, answer = checked(**typed)
    assert json.loads(json.dumps(answer, allow_nan=False))["blocks"] or drawn["faults"]


def test_hostile_text_is_kept_as_it_was_typed_and_cut_where_it_is_long():
    drawn, _ = checked(model=HOSTILE, gpu=HOSTILE, speedup=HOSTILE * 9, k="\ud800")
    assert drawn["typed"]["model"] == HOSTILE[:80]
    assert len(drawn["typed"]["speedup"]) == form.LONGEST
    json.dumps(drawn, ensure_ascii=False).encode("utf-8")
