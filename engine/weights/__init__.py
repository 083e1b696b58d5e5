"""Where weights come from: the embedded package, a hub id, a local folder, a GGUF file.

Whatever the source, `resolve` gives a local folder with config.json, safetensors and tokenizer files, ready
for `AutoModelForCausalLM.from_pretrained(path)`. Importing this loads neither torch nor transformers.
"""

from engine.weights._catalogue import fetch, is_cached, list_models, path, resolve
from engine.weights._common import PRESETS, ModelEntry, Preset, Progress, WeightsError
from engine.weights._gguf_source import gguf_file
from engine.weights._store import cache_dir

__all__ = [
    "PRESETS",
    "ModelEntry",
    "Preset",
    "Progress",
    "WeightsError",
    "cache_dir",
    "fetch",
    "gguf_file",
    "is_cached",
    "list_models",
    "path",
    "resolve",
]
