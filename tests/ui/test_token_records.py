"""One step as the page gets it: flat, safe JSON that tells the kinds of token apart."""

import json
from dataclasses import replace

from fakes import drafted_step, plain_step, tree_step

from app.components.token_view import encode_step


def test_a_step_record_tells_accepted_recovered_and_untested_apart():
    record = json.loads(encode_step(drafted_step(4)))
    assert [e["kind"] for e in record["emitted"]] == ["accepted", "recovered"]
    assert [p["status"] for p in record["proposals"]] == ["accepted", "rejected", "rejected"]
    assert [p["u"] for p in record["proposals"]] == [0.31, 0.92, None]
    assert [p["passed"] for p in record["proposals"]] == [True, False, None]
    assert record["replacement"]["kind"] == "recovered"


def test_a_trees_record_names_parents_and_sources_and_the_accepted_path():
    record = json.loads(encode_step(tree_step(1)))
    assert record["tree"] is True
    assert [p["parent"] for p in record["proposals"]] == [-1, -1, 0, 2, 1, 4]
    assert [p["source"] for p in record["proposals"]] == ["suffix", "recycling", "suffix", *["recycling"] * 3]
    assert [e.get("proposal") for e in record["emitted"]] == [0, 2, None]
    chain = json.loads(encode_step(drafted_step(1)))
    assert chain["tree"] is False
    assert [p["parent"] for p in chain["proposals"]] == [-1, 0, 1]


def test_what_the_target_held_likeliest_is_sent_once_for_all_that_were_proposed_there():
    record = json.loads(encode_step(tree_step(1)))
    assert [a["p"] for a in record["tops"]["-1"]] == [0.7, 0.2]
    assert [a["p"] for a in record["tops"]["2"]] == [0.1]


def test_a_step_record_is_ascii_json_whatever_the_token_holds():
    wild = plain_step(0, "\x00\ud83d</script>${alert(1)}{{x}}`\\u")
    record = encode_step(wild)
    assert record.isascii()
    assert json.loads(record)["emitted"][0]["shown"] == wild.texts[0]


def test_the_verdict_of_a_test_survives_the_rounding_of_its_numbers():
    kept = replace(drafted_step(0).proposals[0], u=0.1234567, accept_probability=0.1234568)
    record = json.loads(encode_step(replace(drafted_step(0), proposals=(kept,))))["proposals"][0]
    assert record["u"] == record["accept"]
    assert record["passed"] is True
