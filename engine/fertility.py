"""Fertility: tokens per word (Rust et al. 2021, arXiv 2012.15613), for two tokenizers on the same two short texts.

A draft that needs more tokens a word than the target writes less text with each of its forwards. Turkish builds long
words from suffixes, and most vocabularies were made for English.
"""

from collections.abc import Callable
from dataclasses import dataclass

TURKISH = """
Sabahın erken saatlerinde limana indiğimizde balıkçılar ağlarını çoktan toplamış, tekneler birer birer dönüyordu.
Rıhtımdaki küçük çay ocağının önünde üç iskemle boştu; oturup şehrin uyanışını seyrettik. Belediyenin yeni
otobüsleri sessizce geçiyor, öğrenciler çantalarını düzeltip durağa koşuyordu. Yaşlı bir öğretmen, gazetesini
katlarken bize döndü ve gülümsedi: "Burada herkes birbirini tanır," dedi, "ama kimse kimsenin acelesini sormaz."
Konuştukça, kentin değiştirilemeyeceğini sandığımız alışkanlıklarının aslında ne kadar yakın zamanda
oluştuğunu öğrendik. Elli yıl önce çarşının yerinde portakal bahçeleri varmış; çocuklar okuldan kaçıp
ağaçların gölgesinde ders çalışırmış. Şimdi o ağaçlardan yalnızca ikisi kalmış, onlar da kütüphanenin
avlusunda özenle korunuyor. Öğleden sonra kütüphaneye gittik. Görevli, bilgisayarların yavaşlığından yakındı,
fakat aradığımız haritaları birkaç dakikada buldu. Akşam vapuruna yetiştiğimizde hava serinlemişti; ışıklar suda
titreşiyor, uzaktan bir ezgi duyuluyordu.
""".strip()

ENGLISH = """
The workshop at the end of our street repairs anything that has a motor, and a few things that do not. Its owner keeps
a notebook in which she writes down every fault, what caused it, and how long the repair took. After twelve years there
are nine volumes on the shelf, and she can usually tell from the sound alone which page to open. Last winter a neighbour
brought in a pump that nobody else would touch. She listened, shook her head, and asked whether it had been moved
recently. It had. A pebble, smaller than a grain of rice, was lodged behind the valve. "Machines are honest," she said
while wiping her hands, "they only fail for reasons." The repair cost less than the coffee we drank while waiting.
""".strip()

TEXTS = {"Turkish": TURKISH, "English": ENGLISH}


@dataclass(frozen=True, slots=True)
class Fertility:
    """One text's. words: its number of words. target, draft: tokens per word. shared: of the target's tokens for this
    text, the share (0 to 1) that the draft's vocabulary has too."""

    language: str
    words: int
    target: float
    draft: float
    shared: float

    def __str__(self) -> str:
        return f"{self.language} {self.target:.1f} tokens per word in the target, {self.draft:.1f} in the draft"


def measure(
    target: Callable[[str], list[int]], draft: Callable[[str], list[int]], known: Callable[[int], bool]
) -> tuple[Fertility, ...]:
    """target, draft: text -> ids, [] where it cannot be spelt. known: does the draft have this token of the target's?
    A text that either cannot spell is left out."""
    found = []
    for language, text in TEXTS.items():
        words, ours, theirs = len(text.split()), target(text), draft(text)
        if ours and theirs:
            shared = sum(map(known, ours)) / len(ours)
            found.append(Fertility(language, words, len(ours) / words, len(theirs) / words, shared))
    return tuple(found)
