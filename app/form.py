"""What the user chose on the Explore tab, and its check: a form in, `DecodeSettings` or one sentence out."""

from dataclasses import dataclass

from app.catalogue import Words
from engine.drafters.make import TREES
from engine.errors import EngineError
from engine.settings import DecodeSettings

AUTO = "auto"  # a tree as large as the drafter is made for


@dataclass(frozen=True)
class Form:
    """The page's fields as they come: a cleared number field is None."""

    prompt: str
    drafter: str
    k: float | None
    verifier: str
    temperature: float | None
    max_new_tokens: float | None = 128
    top_k: float | None = 0
    top_p: float | None = 1.0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    stop: str = ""
    seed: str = ""
    ignore_eos: bool = False
    weights: str = ""
    k_control: str = "fixed"
    tree: str = AUTO
    confidence_threshold: float | None = 0.4

    def settings(self, words: Words) -> DecodeSettings:
        """Raises EngineError with one sentence for a value that has no meaning."""

        def number(name: str) -> float:
            value = getattr(self, name)
            if value is None:
                raise EngineError(words("field_empty", name=words(name)))
            return float(value)

        def whole(name: str) -> int:
            # Number fields hand over 5.0 for 5; what is not whole is refused, not rounded.
            value = number(name)
            if value != int(value):
                raise EngineError(words("field_whole", name=words(name), value=f"{value:g}"))
            return int(value)

        if not self.prompt.strip():  # a chat template would turn it into a prompt about nothing
            raise EngineError(words("prompt_empty"))
        return DecodeSettings(
            k=whole("k"),
            max_new_tokens=whole("max_new_tokens"),
            temperature=number("temperature"),
            top_k=whole("top_k"),
            top_p=number("top_p"),
            min_p=number("min_p"),
            repetition_penalty=number("repetition_penalty"),
            stop=tuple(line for line in self.stop.split("\n") if line),
            seed=self._seed(words),
            ignore_eos=bool(self.ignore_eos),
            # A drafter of chains has no use for the field, and the page says so beside it.
            tree_nodes=None if self.tree == AUTO or self.drafter not in TREES else int(self.tree),
            k_control=self.k_control,
            confidence_threshold=number("confidence_threshold"),
        )

    def _seed(self, words: Words) -> int | None:
        """A text field: a number field cannot be left empty without reading as 0, which is a seed like any other."""
        text = self.seed.strip()
        if text and not (text.isascii() and text.isdigit()):
            raise EngineError(words("field_whole", name=words("seed"), value=text))
        return int(text) if text else None
