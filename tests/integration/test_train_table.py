"""`train-head --method recycling`: the table is the mean of the target's own law, and it is found and used again."""

import json

import pytest
import torch
from helpers.models import tiny_llama

import engine
from engine import DecodeSettings, EngineError
from engine.drafters.recycling import AdjacencyTable, largest
from engine.runner import Runner
from engine.train import recycle, train_table
from engine.train.recycle import adjacency_table

V = 64
TEXTS = [([3, 5, 3, 9, 3, 5, 7, 3], 1), ([5, 5, 9, 3, 60, 5], 3), ([9, 3], 0)]


@pytest.fixture(scope="module")
def pair():
    return engine.Pair.from_models(tiny_llama(vocab=V), None)


def means(model, texts):
    """By the model's own forward, position by position: {token: mean law [V]}."""
    sums = {}
    for ids, start in texts:
        p = torch.softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
        for i in range(start, len(ids)):
            total, count = sums.get(ids[i], (0, 0))
            sums[ids[i]] = total + p[i], count + 1
    return {t: total / count for t, (total, count) in sums.items()}


def test_a_followers_chance_is_the_mean_of_the_targets_probability_wherever_the_token_stood(monkeypatch):
    monkeypatch.setattr(recycle, "COUNTED", V)  # at each place
    model = tiny_llama(vocab=V)
    with torch.inference_mode():
        truth = means(model, TEXTS)
    table = adjacency_table(Runner(model, "tiny", V), TEXTS)
    for token in range(V):
        found = table.of(token)
        if token not in truth:
            assert found == []
            continue
        likeliest = int(truth[token].argmax())
        assert found[0][0] == likeliest
        assert found[0][1] == pytest.approx(float(truth[token][likeliest]), abs=1e-5)
        assert [c for _, c in found] == sorted((c for _, c in found), reverse=True)


def test_a_table_is_made_of_files_saved_with_its_card_and_drafts_for_the_pair_that_names_it(tmp_path, pair):
    generator = torch.Generator().manual_seed(0)
    with open(tmp_path / "data.jsonl", "w") as f:
        for _ in range(40):
            ids = torch.randint(V, (12,), generator=generator).tolist()
            f.write(json.dumps({"prompt_ids": ids[:4], "response_ids": ids[4:], "temperature": 0}) + "\n")
    made = train_table(pair, [tmp_path / "data.jsonl"], tmp_path / "table", seed=1, held_out=0.2)
    assert made["complete"]
    assert made["positions_read"] == 9 * (40 - made["held_out_texts"])  # the answers, and the token before each
    assert made["data"][0]["sha256"] in (tmp_path / "table" / "README.md").read_text()
    named = engine.Pair.from_models(tiny_llama(vocab=V), None, heads={"recycling": str(tmp_path / "table")})
    settings = DecodeSettings(max_new_tokens=8, k=3)
    seeded = engine.generate(named, [3, 5, 9], settings, drafter="recycling")
    cold = engine.generate(pair, [3, 5, 9], settings, drafter="recycling")
    assert seeded.token_ids == cold.token_ids == engine.generate(pair, [3, 5, 9], settings).token_ids
    assert seeded.stats.drafted_steps > cold.stats.drafted_steps  # it knows followers that the run has not seen


def test_a_table_of_another_vocabulary_and_a_file_that_is_none_are_refused_with_a_sentence(tmp_path, pair):
    with pytest.raises(EngineError, match=r"holds no recycling\.safetensors"):
        AdjacencyTable.load(tmp_path, V)
    (tmp_path / "recycling.safetensors").write_bytes(b"no table")
    with pytest.raises(EngineError, match="no adjacency table"):
        AdjacencyTable.load(tmp_path, V)
    table = adjacency_table(pair.target, TEXTS)
    table.save(tmp_path, {})
    with pytest.raises(EngineError, match="made for another"):
        AdjacencyTable.load(tmp_path, V + 1)
    assert AdjacencyTable.load(tmp_path, V).of(3)[0][0] == table.of(3)[0][0]


def test_the_largest_by_groups_are_the_largest():
    rows = torch.randn(5, 49152, generator=torch.Generator().manual_seed(0))
    rows[0, 100:140] = 9.0  # ties within one group
    values, indices = largest(rows, 8)
    assert torch.equal(values, torch.topk(rows, 8).values)
    assert torch.equal(rows.gather(1, indices), values)
    assert all(len(set(row)) == 8 for row in indices.tolist())
