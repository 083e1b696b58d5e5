"""Shared prefixes are read once: a radix tree over token ids whose edges hold the keys and values of their tokens.

A system prompt that many requests begin with is computed by the first and copied by the rest (RadixAttention, Zheng
et al. 2024, section 3; there blocks are shared in place, here a row of its own gets a copy).
"""

import threading
import weakref
from collections.abc import Iterator, Sequence

import torch

from engine.cache import Segment, SlotCache
from engine.errors import EngineError
from engine.runner import Runner

DEFAULT_BYTES = 2**30


class _Node:
    """ids: the tokens of the edge that leads here; segment: their keys and values, of the same length."""

    __slots__ = ("children", "ids", "parent", "segment", "used")

    def __init__(self, ids: tuple[int, ...], segment: Segment | None, parent: "_Node | None", used: int) -> None:
        self.ids, self.segment, self.parent, self.used = ids, segment, parent, used
        self.children: dict[int, _Node] = {}


class PrefixCache:
    """Keys and values of prompts that were read, for later prompts that begin alike.

    Off unless you pass one: what one user's prompt has left makes another's first token come sooner, so whoever can
    time answers can tell that somebody has sent that very beginning. Share one among those who may know that of each
    other. It belongs to the first target that uses it, since keys mean nothing to other weights. max_bytes bounds it;
    what was not used for longest goes first, leaf by leaf. `freeze` it once it holds a public system prompt, and no
    user's prompt is ever kept. Any number of threads may use it.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes < 1:
            raise EngineError(f"max_bytes must be a whole number of at least 1, not {max_bytes!r}")
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._root = _Node((), None, None, 0)
        self._owner: weakref.ref[Runner] | None = None
        self._owner_name = ""
        self._clock = 0
        self._bytes = 0
        self._frozen = False

    def freeze(self) -> None:
        """Keep what is held and remember nothing more."""
        self._frozen = True

    def check(self, runner: Runner) -> None:
        """Raises EngineError when this cache belongs to another runner."""
        with self._lock:
            if self._owner is None:
                self._owner, self._owner_name = weakref.ref(runner), runner.name
            if self._owner() is not runner:
                raise EngineError(
                    f"this prefix cache holds keys of {self._owner_name} as it was loaded then, which mean nothing to "
                    f"{runner.name}; make a PrefixCache for each loaded target"
                )

    @torch.inference_mode()
    def reuse(self, runner: Runner, prompt: Sequence[int], cache: SlotCache) -> int:
        """Appends to the first row of `cache` what is known of `prompt` behind what the row holds. The prompt's last
        token is always left to be read, since the logits behind it are not kept. Returns the tokens copied."""
        self.check(runner)
        have = cache.lengths[0]
        with self._lock:
            path = self._match(prompt, len(prompt) - 1)
        at = 0
        for segment, length in path:  # segments are never written to, so they may be copied outside the lock
            if at + length > have:
                cache.append(segment, max(have - at, 0), length)
            at += length
        return cache.lengths[0] - have

    @torch.inference_mode()
    def insert(self, runner: Runner, ids: Sequence[int], cache: SlotCache) -> None:
        """Remembers `ids`, whose keys are the first len(ids) positions of the first row of `cache`; not once frozen."""
        self.check(runner)
        if self._frozen:
            return
        with self._lock:
            node, at = self._root, 0
            while at < len(ids) and (child := node.children.get(ids[at])) is not None:
                same = common_prefix(child.ids, ids, at)
                if same < len(child.ids):
                    if at + same == len(ids):
                        self._touch(child)
                        return  # all of it is known
                    child = self._split(child, same)
                node, at = child, at + same
            self._touch(node)
            if at < len(ids):
                self._add(node, at, ids, cache)

    def _add(self, node: _Node, at: int, ids: Sequence[int], cache: SlotCache) -> None:
        one = cache.segment(at, at + 1).nbytes
        # What leads here stays; the rest of the tree may have to go.
        end = min(len(ids), self.max_bytes // one)
        if end <= at:
            return
        kept = {id(n) for n in _up(node)}
        while self._bytes + (end - at) * one > self.max_bytes:
            oldest = min((n for n in self._leaves() if id(n) not in kept), key=lambda n: n.used, default=None)
            if oldest is None:
                return
            self._remove(oldest)
        self._clock += 1
        made = _Node(tuple(ids[at:end]), cache.segment(at, end), node, self._clock)
        node.children[ids[at]] = made
        self._bytes += made.segment.nbytes if made.segment else 0

    def clear(self) -> None:
        with self._lock:
            self._root, self._bytes = _Node((), None, None, 0), 0

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values held; never above max_bytes."""
        return self._bytes

    @property
    def tokens(self) -> int:
        """Token positions held."""
        with self._lock:
            return sum(len(n.ids) for n in self._nodes())

    def known(self, ids: Sequence[int]) -> int:
        """How many of the first of `ids` are held."""
        with self._lock:
            return sum(length for _, length in self._match(ids, len(ids)))

    def _match(self, ids: Sequence[int], limit: int) -> list[tuple[Segment, int]]:
        """Segments along the longest known beginning of ids[:limit], each with how many of its tokens agree."""
        path: list[tuple[Segment, int]] = []
        node, at = self._root, 0
        while at < limit and (child := node.children.get(ids[at])) is not None:
            same = min(common_prefix(child.ids, ids, at), limit - at)
            assert child.segment is not None
            path.append((child.segment, same))
            node, at = child, at + same
            if same < len(child.ids):
                break
        self._touch(node)
        return path

    def _split(self, node: _Node, at: int) -> _Node:
        """The edge to `node` in two; returns the node in its middle."""
        assert node.segment is not None
        assert node.parent is not None
        middle = _Node(node.ids[:at], node.segment.cut(0, at), node.parent, node.used)
        node.parent.children[node.ids[0]] = middle
        node.ids, node.segment, node.parent = node.ids[at:], node.segment.cut(at, len(node.ids)), middle
        middle.children[node.ids[0]] = node
        return middle

    def _touch(self, node: _Node) -> None:
        self._clock += 1
        for n in _up(node):
            n.used = self._clock

    def _remove(self, leaf: _Node) -> None:
        assert leaf.segment is not None
        assert leaf.parent is not None
        del leaf.parent.children[leaf.ids[0]]
        self._bytes -= leaf.segment.nbytes

    def _nodes(self) -> Iterator[_Node]:
        todo = list(self._root.children.values())
        while todo:
            node = todo.pop()
            todo += node.children.values()
            yield node

    def _leaves(self) -> Iterator[_Node]:
        return (n for n in self._nodes() if not n.children)


def _up(node: _Node | None) -> Iterator[_Node]:
    while node is not None:
        yield node
        node = node.parent


def common_prefix(one: Sequence[int], other: Sequence[int], at: int = 0) -> int:
    """How many tokens of `one` agree with `other` from `at` on."""
    pairs = enumerate(zip(one, other[at : at + len(one)], strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other) - at))
