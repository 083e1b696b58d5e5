"""What a model's config says, read field by field: numbers that are numbers, and a model that is what is projected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Models whose parameters the formula counts right: each is held to transformers' own in the tests.
COUNTED = frozenset({
    "bitnet", "cohere", "cohere2", "cwm", "diffllama", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "flex_olmo",
    "gemma", "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe", "gpt_oss", "granite", "granitemoe", "granitemoeshared",
    "helium", "hunyuan_v1_dense", "hyperclovax", "internlm3", "llama", "llama4_text", "minimax_m2", "ministral",
    "ministral3", "mistral", "mixtral", "olmo", "olmo2", "olmo3", "olmoe", "phi3", "phimoe",
    "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "solar_open", "stablelm", "vaultgemma",
})  # fmt: skip
# Models that it does not: two matrices where it counts three, experts under names of their own, layers unlike each
# other. A family that is in neither list is taken by its fields, if all that speak of experts are fields it reads.
_NOT_COUNTED = frozenset({
    "afmoe", "apertus", "arcee", "aria_text", "biogpt", "bloom", "codegen", "cohere_compass_text", "deepseek_v4",
    "doge", "dots1", "exaone_moe", "falcon", "fuyu", "gemma4", "gemma4_text", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gptj", "hrm_text", "jais2", "jetmoe", "laguna", "mimo_v2_flash", "minimax_m3_vl_text",
    "modernbert-decoder", "mpt", "nanochat", "nemotron", "opt", "persimmon", "phi", "starcoder2", "xglm",
})  # fmt: skip
_READ_OF_EXPERTS = frozenset({
    "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok", "moe_k",
    "moe_intermediate_size", "n_shared_experts", "moe_num_shared_experts", "shared_expert_intermediate_size",
    "moe_layers", "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval", "interleave_moe_layer_step",
})  # fmt: skip
# Of those that it counts, the ones that share an embedding between input and output where their config does not say.
_TIED = ("cohere", "ernie4_5", "gemma", "smollm3", "vaultgemma")
# Models that read a whole text or hand one on to another, in case their config names no architecture.
_NO_DECODER = frozenset({
    "albert", "bart", "bert", "bigbird", "blenderbot", "clip", "deberta", "deberta-v2", "distilbert", "electra",
    "ernie", "fnet", "funnel", "led", "longformer", "longt5", "m2m_100", "marian", "mbart", "modernbert", "mpnet",
    "mt5", "mvp", "nllb-moe", "pegasus", "plbart", "prophetnet", "roberta", "roformer", "switch_transformers", "t5",
    "umt5", "vit", "whisper", "xlm", "xlm-roberta", "xlnet",
})  # fmt: skip
_RECURRENT = frozenset({
    "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "mamba",
    "mamba2", "minimax", "nemotron_h", "plamo2", "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2",
})  # fmt: skip
_RECURRENT_LAYERS = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv"})
# Fields that only models with a running state have.
_RECURRENT_FIELDS = ("state_size", "d_state", "attn_layer_period", "lru_width", "hybrid_override_pattern")
_RECURRENT_WORDS = ("mamba_", "ssm_", "linear_num_", "linear_conv_")
# Layers that differ in size from one another; one layer's size times their number is not theirs.
_UNEVEN_FIELDS = ("block_configs", "num_key_value_heads_per_layer")
_PARTS = ("vision_config", "audio_config", "encoder")
_DECODES = ("ForCausalLM", "LMHeadModel")
# No size in any model comes near; beyond it there is a slip, and numbers that no float holds.
_MOST = 10**9
MOST_LAYERS = 10_000


class ConfigReader:
    """Fields of a config, be it an object or a dict; a multimodal config is read through its text part. All that is
    wrong is a ValueError with a sentence."""

    def __init__(self, config: Any) -> None:
        self._whole = self._config = config
        self._config = self.value("text_config") or config

    def value(self, name: str, default: Any = None) -> Any:
        return _value(self._config, name, default)

    def first(self, *names: str, default: int = 0, least: int = 0, most: int = _MOST) -> int:
        """The first of `names` that is set: families use different words for one thing."""
        found = next((name for name in names if self.value(name) is not None), None)
        return default if found is None else self._whole_number(found, least, most)

    def need(self, *names: str, most: int = _MOST) -> int:
        if all(self.value(name) is None for name in names):
            raise ValueError(f"the model config has no {' or '.join(names)}")
        return self.first(*names, least=1, most=most)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{name} in the model config is {_shown(value)}, where true or false belongs")
        return default if value is None else value

    def tied(self) -> bool:
        """Whether input and output share an embedding; some configs leave unsaid that they do."""
        return self.flag("tie_word_embeddings", default=str(self.value("model_type")).startswith(_TIED))

    def listed(self, name: str) -> Iterable[Any]:
        value = self.value(name)
        if value is not None and not isinstance(value, list | tuple):
            raise ValueError(f"{name} in the model config is {_shown(value)}, where a list belongs")
        return value or ()

    def head_dim(self, hidden: int, heads: int) -> int:
        """The config's own, else the heads' equal share of the hidden size."""
        if self.value("head_dim") is None and hidden % heads:
            raise ValueError(
                f"hidden_size {hidden} is not divisible by num_attention_heads {heads} and the model config has no "
                "head_dim; mend the one that is wrong"
            )
        return self.first("head_dim", default=hidden // heads, least=1)

    def key_heads(self, heads: int) -> int:
        found = self.first("num_key_value_heads", default=heads, least=1)
        if heads % found:
            raise ValueError(
                f"num_key_value_heads {found} does not divide num_attention_heads {heads}; each key head serves "
                "equally many query heads"
            )
        return found

    def refuse_what_is_not_covered(self, counted: bool) -> None:
        """counted: no parameter count is known, so all has to be as the formula has it."""
        kind = self._kind()
        named = kind or "this model"
        if self.value("kv_lora_rank") is not None:
            raise ValueError(f"{named} compresses its KV (MLA), which is not covered")
        strange = {word for word in self.listed("layer_types") if isinstance(word, str) and word in _RECURRENT_LAYERS}
        fields = [name for name in self._names() if name in _RECURRENT_FIELDS or name.startswith(_RECURRENT_WORDS)]
        if strange or kind in _RECURRENT or any(self.value(name) is not None for name in fields):
            found = ", ".join(sorted(strange)) or "a recurrent state"
            raise ValueError(f"{named} has {found}, which is not covered")
        if counted:
            self._refuse_what_is_no_decoder()
            uneven = next((name for name in _UNEVEN_FIELDS if self.value(name) is not None), None)
            if uneven is not None:
                raise ValueError(f"{named} has layers of different sizes ({uneven}), which is not covered")
            unread = [] if kind in COUNTED else [name for name in self._names() if self._is_unread_size(name)]
            if kind in _NOT_COUNTED or unread:
                why = f" ({unread[0]} is not read)" if unread else ""
                raise ValueError(
                    f"the parameters of {named} cannot be counted from its config{why}; where they are known, "
                    "ModelShape.from_config takes them as n_params"
                )

    def _is_unread_size(self, name: str) -> bool:
        """Whether a field may say how many experts there are, or how large, in words that are not read here."""
        value = self.value(name)
        speaks = "expert" in name or name.startswith("moe_")
        return speaks and name not in _READ_OF_EXPERTS and type(value) is int and value > 1

    def expert_layers(self, layers: int) -> int:
        """How many layers have routed experts; the others are dense."""
        named = self.value("moe_layers")
        if named is not None:
            return len({layer for layer in self._layers("moe_layers") if 0 <= layer < layers})
        first = self.first("first_k_dense_replace", "moe_layer_start_index")
        last = self.first("moe_layer_end_index", default=layers - 1) if self._says_where_experts_end() else layers - 1
        every = self.first("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1, least=1)
        dense = self._layers("mlp_only_layers")
        return sum(first <= i <= last and (i + 1) % every == 0 and i not in dense for i in range(layers))

    def _layers(self, name: str) -> set[int]:
        for layer in self.listed(name):
            if isinstance(layer, bool) or not isinstance(layer, int):
                raise ValueError(f"{name} in the model config holds {_shown(layer)}, where a layer's number belongs")
        return set(self.listed(name))

    def _kind(self) -> str:
        kind = self.value("model_type")
        if kind is not None and not isinstance(kind, str):
            raise ValueError(f"model_type in the model config is {_shown(kind)}, where a text belongs")
        return kind or ""

    def _says_where_experts_end(self) -> bool:
        end = self.value("moe_layer_end_index")
        return end is not None and end != -1  # Ernie's way to say: to the last

    def shared_experts(self) -> int:
        """Of the routed ones' width, in each layer that has those; Llama 4 has one that its config does not mention."""
        unsaid = 1 if self.value("model_type") == "llama4_text" else 0
        return self.first("n_shared_experts", "moe_num_shared_experts", default=unsaid)

    def attention_params(self, heads: int, kv_heads: int, head_dim: int, hidden: int) -> int:
        kind = self.value("model_type", "")
        queries, keys = heads * head_dim, kv_heads * head_dim
        params = 2 * hidden * queries + 2 * hidden * keys
        if kind in ("qwen2", "qwen2_moe"):  # biases on q, k, v that the config does not mention
            params += queries + 2 * keys
        elif self.flag("attention_bias"):
            params += queries + 2 * keys + hidden
        if kind in ("qwen3", "qwen3_moe"):  # a norm on each query and key head
            params += 2 * head_dim
        return params

    def _whole_number(self, name: str, least: int, most: int) -> int:
        value = self.value(name)
        whole = not isinstance(value, bool) and isinstance(value, int | float) and value == value // 1
        if not whole:
            raise ValueError(f"{name} in the model config is {_shown(value)}, where a whole number belongs")
        if not least <= value <= most:
            raise ValueError(f"{name} in the model config is {_shown(value)}, outside {least} to {most:,}")
        return int(value)

    def _refuse_what_is_no_decoder(self) -> None:
        whole = self._whole
        kind = self.value("model_type") or _value(whole, "model_type") or ""
        part = next((name for name in _PARTS if _value(whole, name) is not None), None)
        if part is not None:
            raise ValueError(
                f"{_value(whole, 'model_type') or 'this model'} holds more than a text model ({part}), which is not "
                "covered; give the config of its text model alone, or that model's name"
            )
        architectures = [name for name in self._architectures() if isinstance(name, str)]
        decodes = not architectures or any(name.endswith(_DECODES) for name in architectures)
        both = _value(whole, "is_encoder_decoder") is True or self.value("is_encoder_decoder") is True
        if both or not decodes or kind in _NO_DECODER:
            told = _shown_kind(str(architectures[0] if architectures else kind or "this model"))
            raise ValueError(
                f"{told} is no decoder-only model, so there is no decoding to project; give a model that continues a "
                "text (its architecture ends in ForCausalLM)"
            )

    def _architectures(self) -> Iterable[Any]:
        """Of the whole; its text part's where it names none."""
        own = _value(self._whole, "architectures")
        if own is not None and not isinstance(own, list | tuple):
            raise ValueError(f"architectures in the model config is {_shown(own)}, where a list belongs")
        return own or self.listed("architectures")

    def _names(self) -> list[str]:
        held = self._config if isinstance(self._config, Mapping) else getattr(self._config, "__dict__", {})
        return [name for name in held if isinstance(name, str)]


def _value(config: Any, name: str, default: Any = None) -> Any:
    return config.get(name, default) if isinstance(config, Mapping) else getattr(config, name, default)


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**15:  # Python refuses to write out very long ones
        return "a number of too many digits"
    return _shown_kind("true" if value is True else "false" if value is False else repr(value))


def _shown_kind(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
