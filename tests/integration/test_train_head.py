"""`specscope train-head` on a tiny random target in a folder: it trains, saves, reloads and says the same again."""

import json
import shutil
import sys

import pytest
import torch
from helpers.models import tiny_llama
from helpers.tokenizers import CHATML, byte_tokenizer
from safetensors import safe_open
from typer.testing import CliRunner

import engine.train.loop
from app import cli
from engine.errors import EngineError
from engine.heads import load_head
from engine.train import TrainSettings, evaluate, train_head
from engine.train.make import taps_of
from engine.train.target import load_target
from engine.train.teacher import Teacher
from engine.train.texts import cut, read_texts, split
from engine.train.train import _identity

pytestmark = pytest.mark.usefixtures("one_thread")
VOCAB = 258  # bytes and two special tokens
QUICK = ["--dtype", "float32", "--draft-vocab", "200", "--epochs", "2", "--unroll", "3", "--batch-tokens", "256"]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with a random Llama of four layers, and its own greedy dialogues as a file."""
    folder = tmp_path_factory.mktemp("target")
    model = tiny_llama(vocab=VOCAB, layers=4, eos_token_id=257)
    model.save_pretrained(folder / "tiny")
    byte_tokenizer(template=CHATML).save_pretrained(folder / "tiny")
    generator, rows = torch.Generator().manual_seed(0), []
    for _ in range(80):
        prompt = torch.randint(0, 256, (5,), generator=generator).tolist()
        ids = list(prompt)
        for _ in range(20):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        rows.append({"prompt_ids": prompt, "response_ids": ids[5:], "temperature": 0})
    data = folder / "dialogues.jsonl"
    data.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return folder / "tiny", data


def invoke(*args):
    """The command as a shell gives it: the card repeats what was typed."""
    words = ["train-head", *(str(a) for a in args)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["specscope", *words])
        return CliRunner().invoke(cli.app, words, env={"COLUMNS": "200"})


def trained(target, out, *args):
    folder, data = target
    result = invoke("--target", folder, "--data", data, "--out", out, "--json", *QUICK, *args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def held_out_again(target, out, settings):
    """What a reader of the folder measures, with the lines that the seed holds out."""
    pair = load_target(str(target[0]), dtype="float32")
    texts, _ = read_texts([target[1]], pair.tokenizer, pair.target.vocab_size)
    _, held = split(cut(texts, settings["max_length"]), settings["held_out"], settings["seed"])
    head = load_head(out, pair.target, pair.tokenizer)
    return evaluate(pair.target, head, held, max(5, settings["unroll"]), settings["batch_tokens"])


@pytest.mark.parametrize(
    "kind", [["eagle"], ["eagle", "--form", "eagle"], ["medusa"]], ids=["eagle3", "eagle1", "medusa"]
)
def test_a_trained_head_is_saved_and_says_the_same_when_it_is_loaded_again(kind, target, tmp_path):
    made = trained(target, tmp_path, "--method", *kind)
    assert made["complete"]
    again = held_out_again(target, tmp_path, made["settings"])
    assert [row["accepted"] for row in made["held_out"]] == list(again.accepted)
    assert [row["tested"] for row in made["held_out"]] == list(again.tested)
    assert made["mean_acceptance_length"] == again.mean_acceptance_length
    assert made["held_out"][0]["tested"] > 0
    if kind == ["medusa"]:
        head = load_head(tmp_path, load_target(str(target[0]), dtype="float32").target)
        first = made["held_out"][0]
        assert len(head.shape.accuracy) == 3
        assert head.shape.accuracy[0][0] == pytest.approx(first["accepted"] / first["tested"], abs=0.05)


def test_training_makes_a_head_that_guesses_more_than_it_began_with(target, tmp_path):
    pair = load_target(str(target[0]), dtype="float32")
    settings = TrainSettings(draft_vocab=0, epochs=20, unroll=2, batch_tokens=256, evaluate_every=20, warmup=4, lr=5e-3)
    seen = []
    made = train_head(pair, [target[1]], tmp_path, settings, watch=lambda now: seen.append(now.loss))
    assert seen[-1] < 0.9 * seen[0]
    history = json.loads((tmp_path / "training.json").read_text())["history"]
    assert made["mean_acceptance_length"] >= history[0]["mean_acceptance_length"]


def test_how_it_was_made_stands_in_the_file_and_on_the_card(target, tmp_path):
    made = trained(target, tmp_path, "--method", "eagle", "--seed", "7")
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        kept = json.loads(file.metadata()["specscope"])
        assert not {"embed_tokens.weight", "lm_head.weight"} & set(file.keys())
    assert kept["seed"] == 7
    assert kept["made_by"].startswith("specscope train-head --target ")
    assert kept["made_by"].endswith("--seed 7")
    assert kept["environment"]["torch"] == torch.__version__
    assert kept["hours"] >= 0
    assert kept["data"][0]["name"] == "dialogues.jsonl"
    assert len(kept["data"][0]["sha256"]) == 64
    assert kept["held_out"] == made["held_out"]
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    for told in (kept["made_by"], kept["data"][0]["sha256"], "conditional_acceptance", "hours"):
        assert told in card


@pytest.mark.parametrize("method", ["eagle", "medusa"])
def test_a_training_that_was_stopped_ends_as_one_that_was_not(method, target, tmp_path):
    pair = load_target(str(target[0]), dtype="float32")
    settings = TrainSettings(method=method, draft_vocab=0, epochs=2, unroll=2, batch_tokens=256, evaluate_every=3)

    class Stop:
        def __init__(self, after):
            self.left = after

        def is_set(self):
            self.left -= 1
            return self.left < 0

    whole = train_head(pair, [target[1]], tmp_path / "whole", settings)
    for after in (2, 5):
        part = train_head(pair, [target[1]], tmp_path / "parts", settings, cancel=Stop(after))
        assert not part["complete"]
    done = train_head(pair, [target[1]], tmp_path / "parts", settings)
    assert done["complete"]
    assert done["steps"] == whole["steps"]
    one, other = (load_head(tmp_path / name, pair.target).state_dict() for name in ("whole", "parts"))
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-3, atol=1e-4)
    assert done["held_out"] == whole["held_out"]


def test_a_finished_training_is_not_done_again(target, tmp_path):
    first = trained(target, tmp_path, "--method", "eagle")
    again = trained(target, tmp_path, "--method", "eagle")
    assert (again["steps"], again["held_out"]) == (first["steps"], first["held_out"])
    fresh = trained(target, tmp_path, "--method", "eagle", "--fresh")
    assert fresh["held_out"] == first["held_out"]


def test_a_time_limit_leaves_a_head_and_a_checkpoint(target, tmp_path):
    made = trained(target, tmp_path, "--method", "eagle", "--minutes", "0.0001")
    assert not made["complete"]
    assert (tmp_path / "model.safetensors").is_file()
    assert trained(target, tmp_path, "--method", "eagle")["complete"]


def test_training_ends_early_where_nothing_is_gained(target, tmp_path, monkeypatch):
    pair = load_target(str(target[0]), dtype="float32")
    settings = TrainSettings(draft_vocab=0, epochs=9, unroll=2, batch_tokens=256, evaluate_every=1, patience=2)
    score = engine.train.loop.score
    first = []

    def never_better(*args):
        first.append(score(*args))
        return first[0]

    monkeypatch.setattr(engine.train.loop, "score", never_better)
    made = train_head(pair, [target[1]], tmp_path, settings)
    assert (made["steps"], made["complete"]) == (3, True)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr("engine.train.self_generate.ROWS", 4)
    monkeypatch.setattr("engine.train.self_generate.ANSWER", 12)


def test_the_target_can_write_its_own_data_and_goes_on_where_it_was_stopped(target, tmp_path, short):
    kept = trained_alone = None
    for name in ("whole", "parts"):
        out = tmp_path / name
        if name == "parts":
            out.mkdir()
            lines = kept.read_bytes().split(b"\n")
            (out / "dialogues.jsonl").write_bytes(b"\n".join(lines[:5]) + b"\n" + lines[5][:9])  # one batch and a half
            shutil.copy(kept.with_name("dialogues.target.json"), out)
        result = invoke(
            "--target", target[0], "--self-generate", 24, "--out", out, "--method", "medusa", "--json", *QUICK
        )
        assert result.exit_code == 0, result.output
        kept = out / "dialogues.jsonl"
        trained_alone = json.loads(result.stdout)
    assert kept.read_bytes() == (tmp_path / "whole" / "dialogues.jsonl").read_bytes()
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(rows) == 24
    assert trained_alone["data"][0]["texts"] <= 24
    pair = load_target(str(target[0]), dtype="float32")
    for row in rows[:6]:
        assert 1 <= len(row["response_ids"]) <= 12
        if row["temperature"] == 0:  # what it wrote is what it likes best
            ids = row["prompt_ids"] + row["response_ids"]
            best = Teacher(pair.target, (-1,)).read([ids]).best[0].tolist()
            assert best[len(row["prompt_ids"]) - 1 : -1] == row["response_ids"]


@pytest.fixture(scope="module")
def other_target(tmp_path_factory):
    """Of the same shape and with the same tokenizer, but other weights."""
    folder = tmp_path_factory.mktemp("other")
    tiny_llama(vocab=VOCAB, layers=4, seed=9, eos_token_id=257).save_pretrained(folder)
    byte_tokenizer(template=CHATML).save_pretrained(folder)
    return folder


def writing(target, out, *args, method="recycling"):
    return invoke("--target", target, "--self-generate", 24, "--out", out, "--method", method, "--json", "--dtype",
                  "float32", *args)  # fmt: skip


def test_dialogues_that_another_target_wrote_are_not_gone_on_with(target, other_target, short, tmp_path):
    assert writing(target[0], tmp_path).exit_code == 0
    kept = tmp_path / "dialogues.jsonl"
    lines = kept.read_bytes().split(b"\n")
    kept.write_bytes(b"\n".join(lines[:5]))  # stopped on the way
    before = kept.read_bytes()
    for method in ("recycling", "medusa"):
        refused = writing(other_target, tmp_path, method=method)
        said = " ".join(refused.stderr.split())
        assert refused.exit_code == 2
        assert f"{kept.name} was written by another target than" in said
        assert "give --fresh to write it anew, or another --out" in said
        assert kept.read_bytes() == before, "what is refused is not touched"
    assert writing(target[0], tmp_path).exit_code == 0, "its own target goes on"
    assert kept.read_bytes() == b"\n".join(lines)


def test_fresh_lets_the_new_target_write_the_dialogues_and_sign_them(target, other_target, short, tmp_path):
    for folder in (target[0], other_target):
        made = writing(folder, tmp_path, "--fresh")
        assert made.exit_code == 0, made.output
    assert writing(other_target, tmp_path).exit_code == 0
    assert writing(target[0], tmp_path).exit_code == 2


def test_dialogues_that_nobody_signed_are_refused_and_can_be_given_as_data(target, short, tmp_path):
    out = tmp_path / "out"
    assert writing(target[0], out).exit_code == 0
    (out / "dialogues.target.json").unlink()
    refused = writing(target[0], out)
    assert refused.exit_code == 2
    assert "does not say which target wrote it" in " ".join(refused.stderr.split())
    given = invoke("--target", target[0], "--data", out / "dialogues.jsonl", "--out", out, "--method", "recycling",
                   "--json", "--dtype", "float32")  # fmt: skip
    assert given.exit_code == 0, given.output


def test_a_training_can_begin_as_another_head_with_another_vocabulary(target, tmp_path):
    first = trained(target, tmp_path / "first", "--method", "eagle")
    pair = load_target(str(target[0]), dtype="float32")
    settings = TrainSettings(draft_vocab=220, epochs=1, unroll=3, batch_tokens=256, lr=1e-9, weight_decay=0.0)
    train_head(pair, [target[1]], tmp_path / "second", settings, start=tmp_path / "first")
    one, other = (load_head(tmp_path / name, pair.target) for name in ("first", "second"))
    assert (one.shape.draft_vocab_size, other.shape.draft_vocab_size) == (200, 220)
    for name, weight in one.state_dict().items():
        torch.testing.assert_close(weight, other.state_dict()[name], rtol=1e-3, atol=1e-4)
    assert first["complete"]
    with pytest.raises(EngineError, match="another shape"):
        train_head(
            pair, [target[1]], tmp_path / "third", TrainSettings(method="medusa", draft_vocab=0),
            start=tmp_path / "first",
        )  # fmt: skip


def test_plain_text_is_data_too(target, tmp_path):
    prose = tmp_path / "prose.txt"
    prose.write_text("\n\n".join(f"Paragraph {i} says nothing new, and says it slowly." for i in range(60)))
    made = trained(target, tmp_path / "out", "--method", "medusa", "--data", prose)
    assert [source["name"] for source in made["data"]] == ["dialogues.jsonl", "prose.txt"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--method", "hydra"], "unknown method"),
        (["--method", "eagle", "--form", "eagle2"], "unknown form"),
        (["--method", "eagle", "--lr", "0"], "lr must be"),
        (["--method", "eagle", "--minutes", "0"], "above 0 minutes"),
        (["--method", "eagle", "--draft-vocab", "999"], "larger than the target's 258"),
        (["--method", "eagle", "--data", "absent.jsonl"], "not a file"),
        (["--method", "eagle", "--device", "tpu"], "unknown device"),
        (["--method", "eagle", "--taps", "0,9"], "cannot read the input of layer 9"),
        (["--method", "eagle", "--taps", "low"], "--taps takes numbers of layers"),
    ],
)
def test_bad_input_is_one_sentence(args, said, target, tmp_path):
    result = invoke("--target", target[0], "--data", target[1], "--out", tmp_path, *args)
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"prompt_ids": [1, 2]}\n', "line 1 of bad.jsonl is no dialogue"),
        ('{"prompt_ids": [1, 999], "response_ids": [3]}\n', "token 999"),
        ("", "holds no text"),
    ],
)
def test_data_that_is_none_is_refused_with_the_line(line, said, target, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(line)
    result = invoke("--target", target[0], "--data", bad, "--out", tmp_path / "out", "--method", "eagle")
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")


def test_without_data_it_says_what_to_give(target, tmp_path):
    result = invoke("--target", target[0], "--out", tmp_path, "--method", "eagle")
    assert result.exit_code == 2
    assert "--self-generate" in result.stderr


def test_another_training_in_the_same_folder_is_refused(target, tmp_path):
    trained(target, tmp_path, "--method", "eagle", "--minutes", "0.0001")
    result = invoke(
        "--target", target[0], "--data", target[1], "--out", tmp_path, *QUICK, "--method", "eagle", "--lr", "0.5"
    )
    assert result.exit_code == 2
    assert "--fresh" in result.stderr


def test_a_training_is_known_by_its_target_data_and_settings(target):
    pair = load_target(str(target[0]), dtype="float32")
    settings = TrainSettings()
    teacher = Teacher(pair.target, taps_of(settings, pair.target))
    _, sources = read_texts([target[1]], pair.tokenizer, VOCAB)
    assert _identity(settings, teacher, sources) == _identity(settings, teacher, sources)
    assert _identity(settings, teacher, sources) != _identity(TrainSettings(seed=1), teacher, sources)
    assert _identity(settings, teacher, sources) != _identity(settings, teacher, [])
