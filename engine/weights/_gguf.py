"""A GGUF file, once, to a folder that `from_pretrained` reads in about two seconds.

Why not `from_pretrained(gguf_file=...)` on every start: it unpacks all blocks again each time, and it wants
the `accelerate` package for nothing that is used here. The tensors below go through transformers' own GGUF
name map and processors, so they are the same bits; a test holds them against its loader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.weights._common import Progress, WeightsError
from engine.weights._gguf_file import elements, field, unpacked_bytes, unpacked_dtype
from engine.weights._gguf_rope import restore_rope
from engine.weights._gguf_tokenizer import end_token_ids, save_tokenizer


def convert(path: Path, reader: Any, out: Path, progress: Progress) -> dict[str, Any]:
    """Write config, weights and tokenizer of the open GGUF `path` into `out`; returns manifest details."""
    import transformers

    total = unpacked_bytes(reader)
    progress("convert", 0, total)
    generation_config: Any = transformers.GenerationConfig  # untyped in transformers

    architecture = field(reader, "general.architecture")
    try:
        config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    except Exception as error:
        raise WeightsError(
            f"{path} has the architecture {architecture!r}, which the installed transformers cannot read "
            "from GGUF; give the model's safetensors folder instead."
        ) from error
    restore_rope(config, reader, path)
    dtype = unpacked_dtype(reader)
    config.dtype = dtype
    tensors = _unpack(path, reader, config, dtype, total, progress)

    progress("save", 0, total)
    from safetensors.torch import save_file

    tokenizer = save_tokenizer(path, reader, out, max_length=config.max_position_embeddings)
    config.name_or_path = path.stem
    config.architectures = config.architectures or [_causal_class(config).__name__]
    config.save_pretrained(out)
    ends = end_token_ids(reader, tokenizer)
    generation_config(
        bos_token_id=config.bos_token_id, eos_token_id=ends or None, pad_token_id=config.pad_token_id
    ).save_pretrained(out)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    progress("save", total, total)
    return {"gguf": path.name, "dtype": dtype, "eos_token_ids": ends}


def _causal_class(config: Any) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM._model_mapping[type(config)]
    except KeyError as error:
        raise WeightsError(
            f"A GGUF file of type {config.model_type!r} is not a decoder-only language model; give one that is."
        ) from error


def _unpack(path: Path, reader: Any, config: Any, dtype: str, total: int, progress: Progress) -> dict[str, Any]:
    """{transformers name: tensor} for every weight of the model, dequantised.

    `load_gguf_checkpoint`'s own loop, with a caller who watches and with nothing left over or left out.
    """
    import numpy as np
    import torch
    from gguf import dequantize
    from transformers import modeling_gguf_pytorch_utils

    loader: Any = modeling_gguf_pytorch_utils  # untyped in transformers
    model_class = _causal_class(config)
    with torch.device("meta"):  # names and shapes only
        model = model_class(config)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    parsed: dict[str, Any] = {"config": config.to_dict(), "tensors": {}}
    processor_class = loader.TENSOR_PROCESSORS.get(field(reader, "general.architecture"), loader.TensorProcessor)
    processor = processor_class(config=parsed["config"])
    try:
        names = loader.get_gguf_hf_weights_map(model, processor)
    except NotImplementedError as error:
        raise WeightsError(
            f"{path} has a layout that the installed transformers and gguf do not map; "
            "give the model's safetensors folder instead."
        ) from error

    tensors: dict[str, Any] = parsed["tensors"]
    unknown: list[str] = []
    done, elements_in_all = 0, elements(reader)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        result = processor.process(weights=values, name=tensor.name, tensor_key_mapping=names, parsed_parameters=parsed)
        target = names.get(result.name) if result.name is not None else None
        if target is not None:
            tensors[target] = torch.from_numpy(np.copy(result.weights)).to(getattr(torch, dtype))
        elif result.name is not None and tensor.name != "rope_freqs.weight":
            unknown.append(tensor.name)
        done += int(tensor.n_elements)
        progress("convert", total * done // elements_in_all, total)

    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if config.tie_word_embeddings else set()
    missing = sorted(set(shapes) - set(tensors) - tied)
    wrong = sorted(name for name, value in tensors.items() if shapes.get(name) != tuple(value.shape))
    if unknown or missing or wrong:
        bad = [*unknown, *missing, *wrong]
        raise WeightsError(
            f"{path} and transformers disagree on {len(bad)} tensors (first: {bad[0]}); "
            "give the model's safetensors folder instead."
        )
    return {name: value.contiguous() for name, value in tensors.items()}
