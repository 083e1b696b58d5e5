"""What is written beside a trained head: how it was made and how good it is, for people and for machines."""

from datetime import UTC, datetime
from typing import Any

from engine.environment import environment
from engine.runner import Runner
from engine.train.held_out import HeldOut
from engine.train.loop import Trainer
from engine.train.texts import Source


def record(trainer: Trainer, sources: list[Source], command: str, complete: bool) -> dict[str, Any]:
    """JSON-ready, all but what `with_held_out` adds. command: what makes the head again. hours: of training, stops left
    out. complete: False where it was stopped before its end."""
    runner, settings = trainer.teacher.runner, trainer.settings
    kind = "Medusa heads" if settings.method == "medusa" else {"eagle": "EAGLE", "eagle3": "EAGLE-3"}[settings.form]
    return {
        "title": f"{kind} for {runner.name}",
        "target": runner.name,
        "target_architectures": list(getattr(runner.config, "architectures", None) or []),
        "target_layers": runner.num_layers,
        "made_by": command,
        "method": "self-distillation: the target's own law over the draft vocabulary, on its own dialogues and on text",
        "hours": round(trainer.state.seconds / 3600, 3),
        "steps": trainer.state.step,
        "complete": complete,
        "seed": settings.seed,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {**settings.as_dict(), "taps": list(trainer.head.taps)},
        "data": [source.as_dict() for source in sources],
        "environment": made_on(runner),
    }


def with_held_out(training: dict[str, Any], found: HeldOut) -> dict[str, Any]:
    """held_out: a row a position: drafts that reached it, and the share of them that the target took there."""
    rows = zip(found.conditional_acceptance, found.accepted, found.tested, strict=True)
    return {
        **training,
        "mean_acceptance_length": found.mean_acceptance_length,
        "held_out_texts": found.texts,
        "held_out": [
            {"position": i, "conditional_acceptance": share, "accepted": accepted, "tested": tested}
            for i, (share, accepted, tested) in enumerate(rows)
        ],
    }


def made_on(runner: Runner) -> dict[str, Any]:
    told = environment(str(runner.device))
    return {**{name: told[name] for name in ("cpu", "gpu", "threads", "python")}, **told["versions"]}
