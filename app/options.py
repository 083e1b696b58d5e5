"""Options that several commands share, each worded once."""

from pathlib import Path
from typing import Annotated

import typer

PairOption = Annotated[str | None, typer.Option("--pair", help="A preset by name; see `specscope models list`.")]
TargetOption = Annotated[
    str | None, typer.Option(help="Target: a hub id, a folder or a .gguf file, in place of --pair.")
]
DraftOption = Annotated[str | None, typer.Option(help="Draft model, the same kinds of source.")]
DrafterOption = Annotated[
    str | None,
    typer.Option(
        help="none, prompt_lookup, suffix, recycling, composite, model, early_exit, eagle or medusa. Default: model "
        "when there is a draft, else prompt_lookup."
    ),
]
VerifierOption = Annotated[
    str,
    typer.Option(help="rejection, block or match keep the target's own output law; typical is LOSSY: it does not."),
]
KOption = Annotated[int, typer.Option("--k", help="Draft tokens a step; a tree's depth; the most, with --k-control.")]
TreeOption = Annotated[
    int | None,
    typer.Option("--tree-nodes", help="Tokens of a drafted tree; 0 drafts chains. Default: what suits the drafter."),
]
ControlOption = Annotated[
    str,
    typer.Option(
        help="fixed; heuristic: by the last step's acceptance; confidence: until the draft is unsure; cost: what "
        "measured step times and acceptance say is quickest."
    ),
]
ThresholdOption = Annotated[float, typer.Option(help="With --k-control confidence: below this chance drafting stops.")]
HeadOption = Annotated[
    list[str] | None,
    typer.Option(metavar="METHOD=FOLDER", help="A trained head, as eagle=./my_head; may be given several times."),
]
TemperatureOption = Annotated[float, typer.Option(help="0 is greedy.")]
TokensOption = Annotated[int, typer.Option("--max-new-tokens", help="The longest output, in tokens.")]
SeedOption = Annotated[int | None, typer.Option(help="Same seed, same text. Default: drawn, and recorded.")]
SuiteOption = Annotated[str, typer.Option(help="A shipped prompt suite.")]
DataOption = Annotated[Path | None, typer.Option(help='Your own prompts: one {"category", "prompt"} object a line.')]
CategoryOption = Annotated[list[str] | None, typer.Option(help="Only this category; may be given several times.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
DtypeOption = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
QuantizationOption = Annotated[
    str | None,
    typer.Option(
        help="How weights are held: none; int8 or int4 on a CPU; fp8 on a GPU. Default: none; int8 for the page."
    ),
]
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the checkpoint.")]
SaveOption = Annotated[bool, typer.Option("--save/--no-save", help="Keep the run; see `specscope runs`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]
