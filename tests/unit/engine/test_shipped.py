"""Drafts that come with specscope: found by the target's own numbers, refused for another, and let go of with it."""

import gc
import json
import os
import weakref

import numpy as np
import pytest
import torch
from helpers.models import tiny_llama

import engine
from engine import EngineError, shipped
from engine.drafters.recycling import AdjacencyTable
from engine.heads import EagleHead, EagleShape, save_head

V = 64


def pair_of(seed=0, **extra):
    return engine.Pair.from_models(tiny_llama(vocab=V, seed=seed), None, **extra)


def table(folder, seed=0):
    ids = np.tile(np.arange(8, dtype=np.int32), (V, 1))
    chances = np.full((V, 8), 0.1, dtype=np.float32)
    AdjacencyTable(ids, chances).save(folder, {})
    shipped.write_target(folder, pair_of(seed).target)


def eagle_shape():
    return EagleShape(
        form="eagle3", hidden_size=32, intermediate_size=48, num_heads=4, num_kv_heads=2, head_dim=8, rms_norm_eps=1e-5,
        rope_theta=10000.0, vocab_size=V, draft_vocab_size=V, taps=(0, 1), fc_bias=False, input_norm=True,
        norm_before_residual=False, target_hidden_size=32,
    )  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    shipped._targets.cache_clear()
    yield tmp_path
    shipped._targets.cache_clear()


def test_a_draft_is_found_by_the_targets_numbers_whatever_its_name_and_precision(home):
    table(home / "any_name" / "recycling")
    assert shipped.seed_of(pair_of()) is not None
    half = engine.Pair.from_models(tiny_llama(vocab=V).bfloat16(), None, name="another name")
    assert shipped.seed_of(half) is not None
    assert shipped.seed_of(pair_of(seed=1)) is None  # the same shape, other weights
    assert shipped.shipped(pair_of().target, "eagle") is None


def test_a_folder_that_was_made_for_another_target_is_refused_with_a_sentence(tmp_path):
    table(tmp_path / "mine", seed=1)
    named = pair_of(heads={"recycling": str(tmp_path / "mine")})
    with pytest.raises(EngineError, match="made for another target"):
        engine.generate(named, [1, 2], drafter="recycling")
    (tmp_path / "mine" / "target.json").write_text("[]")
    with pytest.raises(EngineError, match="cannot be read"):
        engine.generate(named, [1, 2], drafter="recycling")


def test_a_folder_that_is_written_again_is_read_again(tmp_path):
    table(tmp_path)
    pair = pair_of(heads={"recycling": str(tmp_path)})
    first = shipped.seed_of(pair)
    assert shipped.seed_of(pair) is first
    ids = np.tile(np.arange(8, 16, dtype=np.int32), (V, 1))
    path = AdjacencyTable(ids, np.full((V, 8), 0.1)).save(tmp_path, {})
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))
    assert shipped.seed_of(pair).of(0)[0][0] == 8


@pytest.mark.parametrize(
    ("ids", "chances"),
    [
        (np.full((V, 2), -1), np.full((V, 2), 0.5)),
        (np.full((V, 2), V), np.full((V, 2), 0.5)),
        (np.full((V, 2), 3), np.full((V, 2), 0.5)),  # one follower twice: it would be offered twice
        (np.tile([1, 2], (V, 1)), np.full((V, 2), 1.5)),
        (np.tile([1, 2], (V, 1)), np.full((V, 2), np.nan)),
    ],
    ids=["below", "past", "twice", "above one", "nan"],
)
def test_a_table_that_would_end_a_run_is_refused_when_it_is_read(tmp_path, ids, chances):
    from safetensors.numpy import save_file

    save_file(
        {"followers": ids.astype(np.int32), "chances": chances.astype(np.float16)}, tmp_path / "recycling.safetensors"
    )
    with pytest.raises(EngineError, match="make it again"):
        AdjacencyTable.load(tmp_path, V)


def test_a_head_that_shares_the_targets_rows_does_not_keep_the_target(tmp_path):
    pair = pair_of()
    torch.manual_seed(0)
    save_head(EagleHead(eagle_shape(), embed=pair.target.embed, head=pair.target.head_rows()), tmp_path, {"title": "t"})
    named = pair_of(heads={"eagle": str(tmp_path)})
    done = engine.generate(named, [1, 2, 3], engine.DecodeSettings(max_new_tokens=6), drafter="eagle")
    assert done.stats.proposed > 0
    target = weakref.ref(named.target)
    del named, done
    gc.collect()
    assert target() is None


def test_what_comes_with_specscope_says_what_it_is_for_and_how_it_was_made():
    folders = [path.parent for path in shipped.FOLDER.glob("*/*/target.json")]
    assert {f.name for f in folders} >= {"recycling", "eagle", "medusa"}
    for folder in folders:
        assert sum(path.stat().st_size for path in folder.glob("*")) < 12e6
        card = json.loads((folder / "training.json").read_text())
        assert card["made_by"].startswith("specscope train-head")
        assert card["data"]
        assert card["held_out"]
        assert card["hours"] > 0
        assert (folder / "README.md").read_text()


def test_a_tree_of_one_token_and_chains_take_turns_on_one_head(tmp_path):
    """Each is recorded for itself: one reads with a mask, the other without."""
    pair = pair_of()
    torch.manual_seed(0)
    save_head(EagleHead(eagle_shape(), embed=pair.target.embed, head=pair.target.head_rows()), tmp_path, {"title": "t"})
    named = pair_of(heads={"eagle": str(tmp_path)}, quantization="none")
    plain = engine.generate(named, [1, 2, 3], engine.DecodeSettings(max_new_tokens=12)).token_ids
    for nodes in (1, 0, 1, 16):
        settings = engine.DecodeSettings(max_new_tokens=12, k=3, tree_nodes=nodes)
        assert engine.generate(named, [1, 2, 3], settings, drafter="eagle").token_ids == plain


def test_a_head_is_never_saved_over_a_model_that_specscope_did_not_put_there(tmp_path):
    pair = pair_of()
    torch.manual_seed(0)
    head = EagleHead(eagle_shape(), embed=pair.target.embed, head=pair.target.head_rows())
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(EngineError, match="would be written over"):
        save_head(head, tmp_path, {"title": "t"})
    assert (tmp_path / "config.json").read_text() == '{"model_type": "llama"}'
    save_head(head, tmp_path / "new", {"title": "t"})
    save_head(head, tmp_path / "new", {"title": "t"})  # over one of its own it may be
