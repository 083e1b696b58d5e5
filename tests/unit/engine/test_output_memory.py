"""Earlier outputs: bounded, each tenant's own, and read once for all of a tenant's runs."""

import random
import threading

import pytest

from engine import EngineError, memory
from engine.drafters.automaton import ROOT, Match
from engine.memory import OutputMemory


def knows(store, tenant, ids):
    """Whether a run that begins now could draft the last of `ids` behind the others."""
    for text in store.snapshot(tenant):
        match = text.step(text.step(Match(ROOT, 0), ids[0]), ids[1])
        if match.length == 2 and ids[2] in {token for token, *_ in text.followers(match)}:
            return True
    return False


def test_outputs_come_back_in_the_order_they_were_given():
    store = OutputMemory()
    store.add("ada", [1, 2, 3])
    store.add("ada", (4, 5))
    assert store.outputs("ada") == [(1, 2, 3), (4, 5)]


def test_no_tenant_sees_what_another_said():
    store = OutputMemory()
    store.add("ada", [1, 2, 3])
    store.add("alan", [4, 5, 6])
    store.add("", [7, 8, 9])
    assert store.outputs("ada") == [(1, 2, 3)]
    assert store.outputs("alan") == [(4, 5, 6)]
    assert store.outputs("nobody") == []
    assert store.snapshot("nobody") == ()
    said = {"ada": [1, 2, 3], "alan": [4, 5, 6], "": [7, 8, 9], "Ada": None, "ada ": None}
    for tenant in said:
        for owner, ids in said.items():
            if ids is not None:
                assert knows(store, tenant, ids) is (tenant == owner)


def test_the_oldest_outputs_go_when_there_are_too_many_tokens():
    store = OutputMemory(max_tokens=10)
    for first in range(0, 60, 4):
        store.add("ada", range(first, first + 4))
        assert sum(map(len, store.outputs("ada"))) <= 10
    assert store.outputs("ada") == [(52, 53, 54, 55), (56, 57, 58, 59)]


def test_the_oldest_outputs_go_when_there_are_too_many():
    store = OutputMemory(max_outputs=2)
    for token in range(5):
        store.add("ada", [token])
    assert store.outputs("ada") == [(3,), (4,)]


def test_one_tenants_flood_leaves_the_others_theirs():
    store = OutputMemory(max_tokens=10)
    store.add("alan", [1, 2, 3])
    for _ in range(100):
        store.add("ada", range(10))
    assert store.outputs("alan") == [(1, 2, 3)]


def test_an_output_longer_than_all_that_is_kept_leaves_its_end():
    store = OutputMemory(max_tokens=3)
    store.add("ada", range(10))
    assert store.outputs("ada") == [(7, 8, 9)]


def test_the_tenant_that_was_not_used_for_longest_goes_first():
    store = OutputMemory(max_tenants=2)
    store.add("ada", [1])
    store.add("alan", [2])
    assert store.outputs("ada") == [(1,)]  # used again
    store.add("grace", [3])
    assert [store.outputs(t) for t in ("ada", "alan", "grace")] == [[(1,)], [], [(3,)]]


def test_forgetting_a_tenant_leaves_nothing_of_it():
    store = OutputMemory()
    store.add("ada", [1, 2, 3])
    store.forget("ada")
    store.forget("nobody")
    assert store.outputs("ada") == []
    assert store.snapshot("ada") == ()


def test_an_output_of_nothing_is_not_kept():
    store = OutputMemory()
    store.add("ada", [])
    assert store.outputs("ada") == []
    assert store.snapshot("ada") == ()


@pytest.mark.parametrize("name", ["max_tokens", "max_outputs", "max_tenants"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "9"])
def test_a_limit_that_is_no_whole_number_is_refused(name, value):
    with pytest.raises(EngineError, match=f"{name} must be a whole number of at least 1"):
        OutputMemory(**{name: value})


@pytest.mark.parametrize("tenant", [None, 3, b"ada"])
def test_a_tenant_without_a_name_is_refused(tenant):
    store = OutputMemory()
    for use in (lambda: store.add(tenant, [1]), lambda: store.outputs(tenant), lambda: store.snapshot(tenant)):
        with pytest.raises(EngineError, match="named by a string"):
            use()


def test_ids_below_zero_are_refused():
    with pytest.raises(EngineError, match="whole numbers of at least 0"):
        OutputMemory().add("ada", [3, -1, 4])


def test_runs_that_begin_meanwhile_share_one_automaton_that_grows_no_more():
    store = OutputMemory()
    store.add("ada", [1, 2, 3])
    first = store.snapshot("ada")
    sizes = [len(text) for text in first]
    assert store.snapshot("ada")[0] is first[0]
    store.add("ada", [4, 5, 6])
    assert [len(text) for text in first] == sizes
    assert store.snapshot("ada")[0] is not first[0]


def test_a_run_that_begins_knows_the_latest_output_and_not_those_that_went_long_ago():
    store = OutputMemory(max_outputs=20)
    for n in range(200):
        store.add("ada", [3 * n, 3 * n + 1, 3 * n + 2])
        assert knows(store, "ada", [3 * n, 3 * n + 1, 3 * n + 2])
        kept = {ids[0] for ids in store.outputs("ada")}
        known = [i for i in range(n + 1) if knows(store, "ada", [3 * i, 3 * i + 1, 3 * i + 2])]
        assert all(i in known for i in range(n + 1) if 3 * i in kept)
        assert len(known) <= 23  # an eighth more


def test_a_long_output_that_went_is_not_drafted_from_however_short_the_one_in_its_place():
    store = OutputMemory(max_outputs=1)
    store.add("ada", range(100))
    assert knows(store, "ada", [1, 2, 3])
    store.add("ada", [200, 201, 202])
    assert knows(store, "ada", [200, 201, 202])
    assert not knows(store, "ada", [1, 2, 3])


def test_the_whole_memory_is_not_read_again_for_each_run(monkeypatch):
    read = []

    def counted(outputs):
        made = automaton(outputs)
        read.append(len(made))
        return made

    automaton = memory._automaton
    monkeypatch.setattr(memory, "_automaton", counted)
    store, rng = OutputMemory(max_tokens=20_000), random.Random(0)
    for _ in range(300):
        store.add("ada", [rng.randrange(1000) for _ in range(100)])
        store.snapshot("ada")
        store.snapshot("ada")
    # 300 runs over up to 200 outputs of 101 tokens: each reading all would be about four million.
    assert sum(read) < 700_000
    assert max(read) <= 20_000 + 200


def test_two_outputs_do_not_run_into_each_other():
    store = OutputMemory()
    store.add("ada", [1, 2])
    store.add("ada", [3, 4])
    assert not knows(store, "ada", [1, 2, 3])


def test_many_threads_may_add_and_read_at_once():
    store, failures = OutputMemory(max_tokens=500), []

    def work(tenant):
        try:
            rng = random.Random(tenant)
            for _ in range(150):
                store.add(str(tenant % 2), [10 * (tenant % 2) + rng.randrange(10) for _ in range(rng.randint(1, 20))])
                for text in store.snapshot(str(tenant % 2)):
                    assert len(text)
                for ids in store.outputs(str(tenant % 2)):
                    assert {i // 10 for i in ids} == {tenant % 2}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for tenant in "01":
        assert sum(map(len, store.outputs(tenant))) <= 500
