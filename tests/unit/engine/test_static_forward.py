"""The static form of a fused forward, which CUDA graphs are captured from, says what the eager form says: for all
lengths within its bucket, level or ragged, whatever stale slots hold."""

import pytest
import torch
import transformers as tf

from engine.cache import SlotCache
from engine.fused import FusedDecoder
from engine.linear import PlainLinear

V, END = 64, 128
pytestmark = pytest.mark.usefixtures("one_thread")


def tiny(kind="Llama", kv_heads=2, **extra):
    config = getattr(tf, f"{kind}Config")(
        vocab_size=V, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=kv_heads, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None, **extra,
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(tf, f"{kind}ForCausalLM")(config).eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(weight, 0.5, 0.3)
    return model


MODELS = {
    "grouped": tiny,
    "ungrouped": lambda: tiny(kv_heads=4),
    "one_key_head": lambda: tiny(kv_heads=1),
    "bias": lambda: tiny("Qwen2"),
    "query_key_norm": lambda: tiny("Qwen3", head_dim=16),
}


@pytest.fixture(scope="module", params=MODELS)
def fused(request):
    with torch.inference_mode():
        return FusedDecoder(MODELS[request.param](), PlainLinear, release=False)


def filled(fused, lengths, garbage=0.0, seed=0):
    """A cache whose rows have read `lengths` random tokens, with room for END positions; what is stale is garbage."""
    ids = torch.randint(V, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    cache = SlotCache(fused.num_layers, len(lengths))
    cache.reserve(END)
    if max(lengths):
        fused.forward(ids, cache, 1)
        cache.advance(max(lengths))
    for row, length in enumerate(lengths):
        cache.rollback(length, row)
        stack = fused.stack(cache)
        stack[:, row, :, length:] = garbage
    return cache


def static(fused, ids, lengths, cache, end=END):
    return fused.forward_static(ids, lengths, fused.stack(cache), end, fused.rotations_to(end))


CASES = [([5], 1), ([5], 4), ([7, 7, 7], 1), ([7, 7], 5), ([3, 11, 0, 7], 1), ([3, 11, 0, 7], 4), ([0], 3)]


@pytest.mark.parametrize(("lengths", "width"), CASES, ids=str)
@pytest.mark.parametrize("garbage", [0.0, 1e4], ids=["clean", "garbage"])
@torch.inference_mode()
def test_a_static_forward_over_a_bucket_is_the_eager_one(fused, lengths, width, garbage):
    eager, other = filled(fused, lengths, garbage), filled(fused, lengths, garbage)
    ids = torch.randint(V, (len(lengths), width), generator=torch.Generator().manual_seed(9))
    expected = fused.forward(ids, eager, width)
    found = static(fused, ids, torch.tensor(lengths), other)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for row, length in enumerate(lengths):  # and it left the same keys and values, and touched no others
        kept, written = fused.stack(other)[:, row], fused.stack(eager)[:, row]
        torch.testing.assert_close(kept[:, :, : length + width], written[:, :, : length + width], atol=1e-5, rtol=1e-4)
        assert (kept[:, :, length + width :] == garbage).all()


@torch.inference_mode()
def test_one_static_forward_serves_all_lengths_of_its_bucket_in_place(fused):
    """As a graph does: the same tensors, overwritten; here the function runs again in the graph's stead."""
    ids, lengths = torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    for at in ([0, 0], [1, 9], [90, 4], [END - 3, END - 3]):
        eager, other = filled(fused, at), filled(fused, at)
        fresh = torch.randint(V, (2, 3), generator=torch.Generator().manual_seed(at[0]))
        ids.copy_(fresh)
        lengths.copy_(torch.tensor(at))
        found = static(fused, ids, lengths, other)
        torch.testing.assert_close(found, fused.forward(fresh, eager, 3), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_a_larger_bucket_says_the_same_and_a_table_of_rotations_grows_with_it(fused):
    cache = filled(fused, [5, 8])
    cache.reserve(1024)
    ids, lengths = torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 8])
    near = static(fused, ids, lengths, cache, 128)
    far = static(fused, ids, lengths, cache, 1024)
    assert fused.rotations.shape[0] >= 1024
    torch.testing.assert_close(near, far, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_stale_slots_must_be_finite_which_is_why_buffers_start_as_zeros(fused):
    """The power of the test above: a NaN behind the mask does come through."""
    cache = filled(fused, [5], float("nan"))
    found = static(fused, torch.tensor([[1]]), torch.tensor([5]), cache)
    assert not torch.isfinite(found).all()
