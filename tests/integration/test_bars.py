"""What the project promises of itself and can be asserted: counts and memory. Speed is `python tests/bars.py`."""

import subprocess
import sys

import pytest

import engine

pytestmark = pytest.mark.weights


def test_prompt_lookup_emits_1_6_tokens_a_target_forward_on_the_copy_edit_prompts(embedded_pair):
    runs = [
        engine.generate(embedded_pair, p.prompt, engine.DecodeSettings(k=5, max_new_tokens=64), "prompt_lookup")
        for p in engine.load_suite("default")
        if p.category == "copy-edit"
    ]
    tokens, forwards = (sum(getattr(r.stats, n) for r in runs) for n in ("output_tokens", "target_forwards"))
    assert tokens / forwards >= 1.6


def test_a_generation_in_float32_stays_below_2_5_gb_of_resident_memory():
    script = (
        "import engine, resource\n"
        "pair = engine.load_pair('embedded')\n"
        "engine.generate(pair, 'Why is the sky blue?', engine.DecodeSettings(max_new_tokens=32), 'prompt_lookup')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    kilobytes = int(done.stdout) if sys.platform != "darwin" else int(done.stdout) / 1024
    assert kilobytes <= 2.5e6
