"""Draft-head folders: every published form loads as what it is, and what does not fit is refused by name."""

import json
from dataclasses import replace

import pytest
import torch
from helpers.heads import Target, random_head
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from engine.errors import EngineError
from engine.heads import EagleHead, MedusaHeads, load_head, save_head
from engine.heads.formats import vocabulary_digest

pytestmark = pytest.mark.usefixtures("one_thread")

LAYER = {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "vocab_size": 64, "num_hidden_layers": 1,
}  # fmt: skip
EAGLE3 = {**LAYER, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "draft_vocab_size": 40}
MEDUSA = {"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "some/target"}


@pytest.fixture(scope="module")
def target():
    return Target(layers=8)


def layer(prefix, width, seed=0, norms=()):
    torch.manual_seed(seed)
    shapes = {
        "self_attn.q_proj": (32, width), "self_attn.k_proj": (16, width), "self_attn.v_proj": (16, width),
        "self_attn.o_proj": (32, 32), "mlp.gate_proj": (48, 32), "mlp.up_proj": (48, 32), "mlp.down_proj": (32, 48),
        "post_attention_layernorm": (32,), **dict.fromkeys(norms, (32,)),
    }  # fmt: skip
    return {f"{prefix}.{name}.weight": torch.randn(shape) for name, shape in shapes.items()}


def eagle3(prefix="midlayer"):
    """As SafeAILab publishes it, with a vocabulary of two in three of the first ids, as offsets."""
    ids = torch.arange(40) + torch.arange(40).div(2, rounding_mode="floor")  # 0, 1, 3, 4, 6, ...
    t2d = torch.zeros(64, dtype=torch.bool)
    t2d[ids] = True
    return {
        **layer(prefix, 64, norms=("hidden_norm", "input_layernorm")),
        "fc.weight": torch.randn(32, 96), "norm.weight": torch.randn(32), "lm_head.weight": torch.randn(40, 32),
        "d2t": ids - torch.arange(40), "t2d": t2d,
    }  # fmt: skip


def eagle1():
    torch.manual_seed(3)
    return {
        **layer("layers.0", 32),
        "fc.weight": torch.randn(32, 64),
        "fc.bias": torch.randn(32),
        "embed_tokens.weight": torch.randn(64, 32),
    }


def medusa(count=3, rows=64):
    torch.manual_seed(4)
    found = {}
    for i in range(count):
        found |= {f"{i}.0.linear.weight": torch.randn(32, 32), f"{i}.0.linear.bias": torch.randn(32)}
        found[f"{i}.1.weight"] = torch.randn(rows, 32)
    return found


def vllm_medusa():
    torch.manual_seed(5)
    ids = torch.randperm(64)[:20]
    blocks = {f"blocks.{i}.layers.0.weight": torch.randn(32, 32) for i in range(2)}
    rows = {f"lm_heads.{i}.weight": torch.randn(64, 32) for i in range(2)}
    return {**blocks, **rows, "token_map": ids}


VLLM_MEDUSA = {
    "model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": 32, "vocab_size": 64, "num_heads": 2,
    "num_hidden_layers": 1, "truncated_vocab_size": 20,
}  # fmt: skip


def folder(tmp_path, config, tensors, file="model.safetensors"):
    (tmp_path / "config.json").write_text(json.dumps(config))
    if file.endswith(".safetensors"):
        save_file(tensors, tmp_path / file)
    else:
        torch.save(tensors, tmp_path / file)
    return tmp_path


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_published_eagle_3_folder_loads_with_its_offsets_turned_into_ids(tmp_path, target, file):
    tensors = eagle3()
    head = load_head(folder(tmp_path, EAGLE3, tensors, file), target)
    assert isinstance(head, EagleHead)
    assert (head.shape.form, head.taps, head.shape.rope_theta) == ("eagle3", (2, 4, 5), 10000.0)  # of 8 layers
    assert head.draft_to_target.tolist()[:5] == [0, 1, 3, 4, 6]  # i + d2t[i]
    assert torch.equal(head.lm_head.weight, tensors["lm_head.weight"])
    assert torch.equal(head.layer.self_attn.q_proj.weight, tensors["midlayer.self_attn.q_proj.weight"])
    assert torch.equal(head.layer.hidden_norm.weight, tensors["midlayer.hidden_norm.weight"])
    assert head.embed_tokens is None
    assert torch.equal(head.embed(torch.tensor([7])), target.embed(torch.tensor([7])))
    assert not head.shape.norm_before_residual
    assert not any(p.requires_grad for p in head.parameters())


def test_a_published_eagle_1_folder_keeps_its_own_embeddings_and_shares_the_targets_rows(tmp_path, target):
    """F6: what a checkpoint has of its own is never overwritten; what it lacks is the target's."""
    tensors = eagle1()
    head = load_head(folder(tmp_path, {**LAYER, "model_type": "llama"}, tensors, "pytorch_model.bin"), target)
    assert (head.shape.form, head.taps, head.shape.fc_bias, head.shape.input_norm) == ("eagle", (-1,), True, False)
    assert torch.equal(head.embed(torch.tensor([7])), tensors["embed_tokens.weight"][7:8])
    states = torch.randn(2, 32)
    assert torch.allclose(head.logits(states), states @ target.head_rows().T, atol=1e-5)
    assert head.draft_to_target is None


def test_an_eagle_1_folder_with_rows_of_its_own_guesses_by_them(tmp_path, target):
    tensors = {**eagle1(), "lm_head.weight": torch.randn(64, 32)}
    head = load_head(folder(tmp_path, LAYER, tensors), target)
    states = torch.randn(2, 32)
    assert torch.allclose(head.logits(states), states @ tensors["lm_head.weight"].T, atol=1e-5)


def test_the_layers_that_a_config_names_are_read_in_their_order(tmp_path, target):
    config = {**EAGLE3, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [7, 1, 4], "use_aux_hidden_state": True}}
    assert load_head(folder(tmp_path, config, eagle3()), target).taps == (1, 4, 7)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_speculators_eagle3_folders_load(tmp_path, target, name):
    config = {
        "speculators_model_type": "eagle3", "speculators_version": "0.9.0", "draft_vocab_size": 40,
        "norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [1, 3, 5], "target_hidden_size": None,
        "transformer_layer_config": {**LAYER, "model_type": "llama", "rope_parameters": {"rope_theta": 500.0}},
        "speculators_config": {"algorithm": "eagle3"},
    }  # fmt: skip
    head = load_head(
        folder(tmp_path, config, {**eagle3("layers.0"), "verifier_norm.weight": torch.ones(32)}, name), target
    )
    assert (head.taps, head.shape.norm_before_residual, head.shape.rope_theta) == ((1, 3, 5), True, 500.0)


def test_speculators_eagle_folders_load(tmp_path, target):
    theirs = {"fc.": "fusion_fc.", "layers.0.": "transformer."}
    tensors = {
        next((v + n.removeprefix(k) for k, v in theirs.items() if n.startswith(k)), n): t for n, t in eagle1().items()
    }
    del tensors["embed_tokens.weight"]
    config = {"speculators_model_type": "eagle", "transformer_layer_config": LAYER, "fusion_bias": True}
    head = load_head(folder(tmp_path, config, tensors), target)
    assert torch.equal(head.fc.bias, tensors["fusion_fc.bias"])
    assert head.shape.form == "eagle"


@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_a_published_medusa_folder_loads_with_as_many_heads_as_its_file_has(tmp_path, target, file):
    """The published configs say 2 heads where the files hold 5; the authors' own loader overrides the config."""
    tensors = medusa(5)
    heads = load_head(folder(tmp_path, {**MEDUSA, "medusa_num_heads": 2}, tensors, file), target)
    assert isinstance(heads, MedusaHeads)
    assert (heads.shape.num_heads, heads.shape.shared_head, heads.shape.draft_vocab_size) == (5, False, 64)
    state = torch.randn(32)
    x = state + torch.nn.functional.silu(tensors["4.0.linear.weight"] @ state + tensors["4.0.linear.bias"])
    assert torch.allclose(heads(state)[4], tensors["4.1.weight"] @ x, atol=1e-4)


def test_a_vllm_medusa_folder_loads_and_takes_its_map_out_of_whole_rows(tmp_path, target):
    tensors = vllm_medusa()
    heads = load_head(folder(tmp_path, VLLM_MEDUSA, tensors), target)
    assert heads.draft_to_target.tolist() == tensors["token_map"].tolist()
    assert torch.equal(heads.lm_heads[1].weight, tensors["lm_heads.1.weight"][tensors["token_map"]])
    assert float(heads.blocks[0][0].linear.bias.abs().max()) == 0.0


def test_vllm_medusa_heads_that_read_one_set_of_rows_share_it(tmp_path, target):
    tensors = vllm_medusa()
    del tensors["lm_heads.1.weight"], tensors["lm_heads.0.weight"]
    config = {**VLLM_MEDUSA, "original_lm_head": True}
    shared = load_head(folder(tmp_path, config, tensors), target)
    states = torch.randn(32)
    rows = target.head_rows(tensors["token_map"])
    assert torch.allclose(shared(states)[1], rows @ shared.states(states)[1], atol=1e-4)
    own = {**tensors, "lm_head.weight": torch.randn(20, 32)}
    heads = load_head(folder(tmp_path, config, own), target)
    assert torch.allclose(heads(states)[1], own["lm_head.weight"] @ heads.states(states)[1], atol=1e-4)
    saved = load_head(save_head(heads, tmp_path / "again", {}, "float32"), target)  # its own rows stay its own
    assert torch.equal(saved(states), heads(states))


def without(name):
    return lambda t: t.pop(name)


def put(name, tensor):
    return lambda t: t.__setitem__(name, tensor)


def offsets(at, value):
    return lambda t: t["d2t"].__setitem__(at, value)


@pytest.mark.parametrize(
    ("config", "make", "change", "says"),
    [
        (EAGLE3, eagle3, without("midlayer.hidden_norm.weight"), "layers.0.hidden_norm.weight is missing"),
        (EAGLE3, eagle3, without("norm.weight"), "norm.weight is missing"),
        (EAGLE3, eagle3, put("midlayer.self_attn.q_norm.weight", torch.ones(8)), "nothing is known of .*q_norm"),
        (EAGLE3, eagle3, put("layers.1.mlp.up_proj.weight", torch.ones(8)), "nothing is known of .*layers.1.mlp"),
        (EAGLE3, eagle3, put("fc.weight", torch.ones(32, 90)), r"fc.weight has the shape \[32, 90\] where \[32, 96\]"),
        (EAGLE3, eagle3, put("norm.weight", torch.full((32,), float("nan"))), "norm.weight holds NaN"),
        (EAGLE3, eagle3, without("d2t"), "guesses 40 of 64 ids and lacks the map d2t"),  # F4
        (EAGLE3, eagle3, offsets(3, 61), "sends 3 to 64, and the target's ids are below 64"),
        (EAGLE3, eagle3, offsets(3, -4), "sends 3 to -1"),
        (EAGLE3, eagle3, offsets(1, -1), "sends 2 ids to 0"),
        (EAGLE3, eagle3, put("d2t", torch.zeros(39, dtype=torch.long)), "map has the shape"),
        (EAGLE3, eagle3, put("d2t", torch.zeros(40)), "d2t must be a row of whole numbers"),
        (EAGLE3, eagle3, put("t2d", torch.ones(64, dtype=torch.bool)), "d2t and t2d, do not agree"),
        ({**EAGLE3, "num_hidden_layers": 2}, eagle3, None, "has 2 layers"),
        ({**EAGLE3, "hidden_act": "gelu"}, eagle3, None, "'gelu'"),
        ({**EAGLE3, "vocab_size": 128}, eagle3, None, "vocabulary of 128 tokens, and a tiny llama has 64"),
        ({**EAGLE3, "vocab_size": 60}, eagle3, None, "vocabulary of 60 tokens"),
        ({**EAGLE3, "target_hidden_size": 48}, eagle3, None, "hold 48 numbers, and those of a tiny llama hold 32"),
        ({**EAGLE3, "hidden_size": 16}, eagle3, None, "hold 16 numbers"),
        ({**EAGLE3, "hidden_size": "wide"}, eagle3, None, "'wide' for hidden_size"),
        ({**EAGLE3, "eagle_aux_hidden_state_layer_ids": [2, 4, 8]}, eagle3, None, "layers 0 to 7"),
        ({**EAGLE3, "eagle_aux_hidden_state_layer_ids": [2, 2, 4]}, eagle3, None, "layers 0 to 7"),
        ({**EAGLE3, "norm_output": True}, eagle3, None, "norm_output are not run here"),
        ({**EAGLE3, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, eagle3, None, "'llama3'"),
        ({**EAGLE3, "model_type": "mamba"}, eagle3, None, "'mamba' is no kind of draft head"),
        ({"model_type": "bert"}, lambda: {"x": torch.ones(1)}, None, "'bert' is no kind of draft head"),
        ({**EAGLE3, "specscope": {"target_layers": 30}}, eagle3, None, "target of 30 layers, and a tiny llama has 8"),
        (LAYER, eagle1, without("fc.weight"), "fc.weight is missing"),
        (
            LAYER,
            eagle1,
            put("embed_tokens.weight", torch.ones(60, 32)),
            r"embed_tokens.weight has the shape \[60, 32\]",
        ),
        (
            LAYER,
            eagle1,
            put("layers.0.input_layernorm.weight", torch.ones(32)),
            "nothing is known of .*input_layernorm",
        ),
        ({"speculators_model_type": "dflash"}, eagle3, None, "'dflash' are not run here"),
        ({"speculators_model_type": "eagle3"}, eagle3, None, "lacks transformer_layer_config"),
        (MEDUSA, medusa, without("1.0.linear.weight"), "blocks.1.0.linear.weight is missing"),
        (MEDUSA, medusa, without("2.1.weight"), "lm_heads.2.weight is missing"),
        ({**MEDUSA, "medusa_num_heads": 4}, medusa, None, "blocks.3.0.linear.weight is missing"),
        ({**MEDUSA, "medusa_num_layers": 2}, medusa, None, "has 1 blocks, and its config.json says 2"),
        (MEDUSA, lambda: medusa(rows=70), None, "vocabulary of 70 tokens"),
        ({**MEDUSA, "hidden_size": 48}, medusa, None, "hold 48 numbers"),
        (MEDUSA, medusa, put("extra.weight", torch.ones(2)), "nothing is known of its tensor extra.weight"),
        (VLLM_MEDUSA, vllm_medusa, without("token_map"), "guesses 20 of 64 ids and lacks the map token_map"),
        (VLLM_MEDUSA, vllm_medusa, put("token_map", torch.zeros(20, dtype=torch.long)), "sends 20 ids to 0"),
        (VLLM_MEDUSA, vllm_medusa, put("token_map", torch.arange(45, 65)), "sends 19 to 64"),
        (VLLM_MEDUSA, vllm_medusa, put("blocks.0.layers.0.bias", torch.ones(31)), "linear.bias has the shape"),
        (VLLM_MEDUSA, vllm_medusa, put("lm_heads.0.weight", torch.tensor(1.0)), "no draft head has"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence_that_names_it(tmp_path, target, config, make, change, says):
    tensors = make()
    if change:
        change(tensors)
    with pytest.raises(EngineError, match=says) as refused:
        load_head(folder(tmp_path, config, tensors), target)
    assert "\n" not in str(refused.value)


INT8 = torch.ones(32, dtype=torch.int8)


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("config", "make", "tensor", "wrong"),
    [
        (EAGLE3, eagle3, "norm.weight", INT8),
        (EAGLE3, eagle3, "norm.weight", torch.ones(32, dtype=torch.bool)),
        (EAGLE3, eagle3, "norm.weight", torch.ones(32, dtype=torch.complex64)),
        (EAGLE3, eagle3, "norm.weight", torch.ones(32).to(torch.float8_e4m3fn)),
        (EAGLE3, eagle3, "lm_head.weight", torch.ones(40, 32, dtype=torch.int64)),
        (LAYER, eagle1, "fc.bias", INT8),
        (LAYER, eagle1, "embed_tokens.weight", torch.ones(64, 32, dtype=torch.uint8)),
        (VLLM_MEDUSA, vllm_medusa, "lm_heads.0.weight", torch.ones(64, 32, dtype=torch.int8)),
    ],
)
def test_weights_that_are_no_floating_point_numbers_are_refused_by_name(
    tmp_path, target, config, make, tensor, wrong, file
):
    kind = str(wrong.dtype).removeprefix("torch.")
    with pytest.raises(EngineError, match=f"the tensor {tensor} holds {kind} numbers.*not quantised") as refused:
        load_head(folder(tmp_path, config, {**make(), tensor: wrong}, file), target)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_any_floating_point_dtype_load(tmp_path, target, dtype):
    tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in eagle3().items()}
    assert load_head(folder(tmp_path, EAGLE3, tensors), target).fc.weight.dtype == target.dtype


def as_dtype(name, dtype):
    return lambda t: t.update({name: t[name].to(dtype)})


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_id_maps_of_any_whole_numbers_load(tmp_path, target, dtype):
    for config, make, names in ((EAGLE3, eagle3, ("d2t", "t2d")), (VLLM_MEDUSA, vllm_medusa, ("token_map",))):
        tensors, maps = make(), []
        maps.append(load_head(folder(tmp_path, config, tensors), target).draft_to_target.tolist())
        for name in names:
            as_dtype(name, dtype)(tensors)
        maps.append(load_head(folder(tmp_path, config, tensors), target).draft_to_target.tolist())
        assert maps[0] == maps[1]


@pytest.mark.parametrize(
    ("config", "make", "change", "says"),
    [
        (EAGLE3, eagle3, as_dtype("d2t", torch.complex64), "d2t must be a row of whole numbers"),
        (EAGLE3, eagle3, as_dtype("d2t", torch.bool), "d2t must be a row of whole numbers"),
        (EAGLE3, eagle3, as_dtype("t2d", torch.float32), "t2d must say of each of the target's ids true or false"),
        (EAGLE3, eagle3, as_dtype("t2d", torch.complex64), "t2d must say of each"),
        (EAGLE3, eagle3, lambda t: t.update(t2d=t["t2d"].to(torch.int8) * 7), "t2d must say of each"),
        (VLLM_MEDUSA, vllm_medusa, as_dtype("token_map", torch.float32), "must hold whole numbers, not float32"),
        (VLLM_MEDUSA, vllm_medusa, as_dtype("token_map", torch.complex64), "must hold whole numbers, not complex64"),
        (VLLM_MEDUSA, vllm_medusa, as_dtype("token_map", torch.bool), "must hold whole numbers, not bool"),
        (
            {**VLLM_MEDUSA, "truncated_vocab_size": 64},
            vllm_medusa,
            put("token_map", torch.arange(64) + 1),
            "sends 63 to 64, and the target's ids are below 64",
        ),
    ],
)
def test_an_id_map_that_is_none_is_refused_with_a_sentence(tmp_path, target, config, make, change, says):
    tensors = make()
    change(tensors)
    with pytest.raises(EngineError, match=says) as refused:
        load_head(folder(tmp_path, config, tensors), target)
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_none_or_holds_no_weights_is_refused(tmp_path, target):
    with pytest.raises(EngineError, match="is no folder"):
        load_head(tmp_path / "nowhere", target)
    with pytest.raises(EngineError, match=r"config\.json cannot be read"):
        load_head(tmp_path, target)
    (tmp_path / "config.json").write_text(json.dumps(EAGLE3))
    with pytest.raises(EngineError, match="holds no weights"):
        load_head(tmp_path, target)
    (tmp_path / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(EngineError, match="no whole safetensors file"):
        load_head(tmp_path, target)


class Payload:
    def __reduce__(self):
        return (print, ("run",))


def test_nothing_in_a_pickle_is_run(tmp_path, target, capsys):
    folder(tmp_path, EAGLE3, {"fc.weight": Payload()}, "pytorch_model.bin")
    with pytest.raises(EngineError, match="file of tensors alone"):
        load_head(tmp_path, target)
    assert capsys.readouterr().out == ""


def test_weights_in_several_files_load_by_their_index(tmp_path, target):
    tensors = eagle3()
    (tmp_path / "config.json").write_text(json.dumps(EAGLE3))
    halves = [dict([*tensors.items()][::2]), dict([*tensors.items()][1::2])]
    for i, half in enumerate(halves):
        save_file(half, tmp_path / f"part-{i}.safetensors")
    where = {name: f"part-{i}.safetensors" for i, half in enumerate(halves) for name in half}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    assert torch.equal(load_head(tmp_path, target).fc.weight, tensors["fc.weight"])
    index.write_text(json.dumps({"weight_map": {"fc.weight": "../elsewhere.safetensors"}}))
    with pytest.raises(EngineError, match="outside the folder"):
        load_head(tmp_path, target)


def test_a_padded_vocabulary_is_the_targets_too(tmp_path):
    """F1: the config counts the embedding's rows, the tokenizer fewer."""
    padded = Target(vocab=50, padded=14, layers=8)
    assert load_head(folder(tmp_path, EAGLE3, eagle3()), padded).shape.vocab_size == 64


@pytest.mark.parametrize(
    "form",
    [
        {"form": "eagle3", "draft_vocab": 40, "norm_before_residual": True},
        {"form": "eagle3", "own_rows": True},
        {"form": "eagle"},
        {"form": "eagle", "draft_vocab": 40, "fc_bias": True, "own_embeddings": True},
    ],
)
def test_a_saved_eagle_head_reads_back_as_the_same_head(tmp_path, form):
    target = Target()
    head = random_head(target, **form)
    again = load_head(save_head(head, tmp_path / "saved", {"target_layers": 6}, "float32"), target)
    assert again.shape == replace(head.shape, target_hidden_size=32)
    embedded, states, positions = torch.randn(1, 5, 32), torch.randn(1, 5, 32), torch.arange(5)[None]
    one, other = (h(embedded, states, positions)[0] for h in (head, again))
    assert torch.equal(one, other)
    assert torch.allclose(head.logits(one), again.logits(one), atol=1e-6)
    assert torch.equal(head.targets(torch.arange(40)), again.targets(torch.arange(40)))
    assert torch.equal(head.embed(torch.arange(9)), again.embed(torch.arange(9)))


def test_what_is_shared_with_the_target_is_saved_only_when_asked_for_and_the_config_says_so(tmp_path):
    target = Target()
    head = random_head(target, draft_vocab=40)
    lean, whole = save_head(head, tmp_path / "lean", {}), save_head(head, tmp_path / "whole", {}, complete=True)
    lean_names, names = ({*load_file(p / "model.safetensors")} for p in (lean, whole))
    assert names - lean_names == {"embed_tokens.weight", "lm_head.weight"}
    ours = [json.loads((p / "config.json").read_text())["specscope"]["shared_with_target"] for p in (lean, whole)]
    assert ours == [["embed_tokens.weight", "lm_head.weight"], []]
    states = torch.randn(2, 32)
    assert torch.allclose(load_head(whole, target).logits(states), head.logits(states), atol=1e-2)
    assert load_head(whole, target).lm_head is not None


def test_a_saved_eagle_3_head_is_in_the_form_of_the_speculators_library(tmp_path):
    head = random_head(Target(), draft_vocab=40)
    path = save_head(head, tmp_path, {"target": "some/target", "k": 4, "seed": 7}, "bfloat16")
    config = json.loads((path / "config.json").read_text())
    assert config["speculators_model_type"] == config["speculators_config"]["algorithm"] == "eagle3"
    assert config["speculators_config"]["proposal_methods"] == [{"proposal_type": "greedy", "speculative_tokens": 4}]
    assert config["speculators_config"]["verifier"]["name_or_path"] == "some/target"
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 3, 5]
    assert config["transformer_layer_config"]["vocab_size"] == 64
    with safe_open(path / "model.safetensors", framework="pt") as held:
        assert json.loads(held.metadata()["specscope"])["seed"] == 7
        assert held.get_tensor("fc.weight").dtype == torch.bfloat16
        assert held.get_tensor("t2d").sum() == 40
        ids = held.get_tensor("d2t") + torch.arange(40)
    assert torch.equal(ids, head.draft_to_target)


def test_saved_medusa_heads_read_back_with_their_measured_accuracy(tmp_path, target):
    source = folder(tmp_path, MEDUSA, medusa(), "medusa_lm_head.pt")
    heads = load_head(source, target)
    object.__setattr__(heads.shape, "accuracy", ((0.5, 0.1), (0.3, 0.1), (0.2,)))
    path = save_head(heads, tmp_path / "saved", {}, "float32")
    again = load_head(path, target)
    assert again.shape == heads.shape
    states = torch.randn(4, 32)
    assert torch.equal(again(states), heads(states))
    names = {*load_file(path / "model.safetensors")}
    assert {"blocks.0.layers.0.weight", "blocks.0.layers.0.bias", "lm_heads.2.weight"} <= names
    config = json.loads((path / "config.json").read_text())
    assert (config["model_type"], config["num_heads"], config["medusa_fc_bias"]) == ("medusa", 3, True)


def test_the_model_card_holds_all_that_was_said_of_the_head(tmp_path):
    card = {"title": "A head", "target": "some/target", "command": "specscope train-head a|b", "hours": 0.25,
            "held_out": [{"position": 0, "accuracy": 0.512345}, {"position": 1, "accuracy": 0.25}],
            "versions": {"torch": "2.13.0"}}  # fmt: skip
    text = (save_head(random_head(Target()), tmp_path, card) / "README.md").read_text()
    assert text.startswith("# A head\n")
    for said in ("some/target", "train-head a\\|b", "hours: 0.25", "| 0 | 0.5123 |", "torch: 2.13.0", "embed_tokens"):
        assert said in text


def test_a_card_that_was_written_elsewhere_stands_as_it_is(tmp_path):
    for card in ("# Mine\n", {"readme": "# Mine\n", "seed": 3}):
        path = save_head(random_head(Target()), tmp_path, card)
        assert (path / "README.md").read_text() == "# Mine\n"
        assert "readme" not in json.loads((path / "config.json").read_text())["specscope"]


def test_a_card_that_json_cannot_hold_and_weights_that_half_precision_cannot_are_refused(tmp_path):
    head = random_head(Target())
    for card in ({"data": object()}, {"loss": float("nan")}):
        with pytest.raises(EngineError, match="plain JSON"):
            save_head(head, tmp_path, card)
    with pytest.raises(EngineError, match="unknown dtype 'int3'"):
        save_head(head, tmp_path, {}, "int3")
    with torch.no_grad():
        head.fc.weight[0, 0] = 1e6
    with pytest.raises(EngineError, match="does not fit into"):
        save_head(head, tmp_path, {}, "float16")


class Words:
    def __init__(self, *words):
        self.words = words

    def get_vocab(self):
        return {word: i for i, word in enumerate(self.words)}


def test_a_head_that_was_trained_with_another_tokenizer_is_refused(tmp_path):
    """F2: the same number of tokens, two of them swapped."""
    target, ours = Target(), Words("a", "b", "c")
    path = save_head(random_head(target), tmp_path, {"vocabulary_sha256": vocabulary_digest(ours)})
    assert load_head(path, target, ours)
    assert load_head(path, target)
    with pytest.raises(EngineError, match="another tokenizer"):
        load_head(path, target, Words("a", "c", "b"))


def test_a_head_of_the_embedded_targets_size_stays_under_12_mb(tmp_path):
    """576 wide, 3 taps, 8192 ids, as the shipped one; nothing of the target's 49152 rows is in the file."""
    from engine.heads import EagleShape

    shape = EagleShape("eagle3", 576, 1536, 9, 3, 64, 49152, 8192, (2, 15, 27), rope_theta=1e5)
    head = EagleHead(shape, lambda ids: ids, torch.zeros(8192, 576), torch.arange(8192) * 6)
    path = save_head(head, tmp_path, {})
    assert (path / "model.safetensors").stat().st_size < 12e6
