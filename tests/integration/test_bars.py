"""What the project promises of itself and can be asserted: counts and memory. Speed is `python tests/bars.py`."""

import subprocess
import sys
from pathlib import Path

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


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads resident memory from /proc")
def test_two_hundred_generations_leave_resident_memory_where_it_was():
    script = (
        "import engine\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1])\n"
        "pair = engine.load_pair('embedded', quantization='int8')\n"
        "prompts = ['Hello', 'Say it twice: red green blue, red green blue', 'Why?', 'Count to ten']\n"
        "settings = engine.DecodeSettings(max_new_tokens=6)\n"
        "seen = []\n"
        "for n in range(200):\n"
        "    engine.generate(pair, prompts[n % 4], settings, 'prompt_lookup' if n % 2 else 'none')\n"
        "    seen.append(resident())\n"
        "print(max(seen[:10]), max(seen[10:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=1200, check=True)
    first, later = map(int, done.stdout.split())
    assert later <= 1.02 * first


def test_a_generation_in_float32_stays_below_2_5_gb_of_resident_memory():
    script = (
        "import engine, resource\n"
        "pair = engine.load_pair('embedded')\n"
        "engine.generate(pair, 'Why is the sky blue?', engine.DecodeSettings(max_new_tokens=32), 'prompt_lookup')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=1200, check=True)
    kilobytes = int(done.stdout) if sys.platform != "darwin" else int(done.stdout) / 1024
    assert kilobytes <= 2.5e6
