"""What a run store promises, whichever database is behind it. A subclass gives the fixture `url`: a fresh store."""

import json
import multiprocessing
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest
from sqlalchemy import func, select

from engine import EngineError
from engine.runs import RunStore, hardware_hash, rows, schema
from engine.trace import Proposal, Replacement, Step, TokenText, Trace

HERE = {
    "python": "3.11.7", "machine": "x86_64", "cpu": "A CPU", "cpu_count": 2, "gpu": None, "threads": 2,
    "versions": {"specscope": "0.1.0", "torch": "2.13.0"},
}  # fmt: skip
RUN = {"settings": {"k": 5}, "pair": {"name": "embedded", "device": "cpu"}, "environment": HERE}
# U+0000, a lone surrogate, Turkish, an emoji with joiners, quotes, what LIKE and JSON take for their own.
NASTY = "a\0b \ud83d lone, ığüşöç İ, 👩‍💻, 𝔘, \"quoted\" 'single' \\back %_ \x1b[31m"
# Forked, so that a child costs no new start of torch; each opens the store anew.
processes = multiprocessing.get_context("fork")


def counts(store):
    """(runs, measurements, traces) in the tables, also those that no run leads to."""
    with store._db.read() as c:
        return tuple(
            c.scalar(select(func.count()).select_from(t)) for t in (schema.runs, schema.measurements, schema.traces)
        )


def film(text="x"):
    token = TokenText(7, text, "C4 9F", False)
    step = Step(0, (7,), (text,), (token,), (Proposal(token, 0.1, 1.0, None, 0.1, "rejected"),),
                Replacement("recovered", token, 1e-300), "short", 3, 0.1, 0.2, 0.3)  # fmt: skip
    return Trace((step,), (1, 2), text, {"k": 5}, "d", "rejection", {}, "length", "2026-01-01", (text,), HERE)


def at_once(target, *argument_lists):
    """Run one process for each list of arguments, all released together; what each put into its pipe, in order."""
    gate, pipes, children = processes.Barrier(len(argument_lists)), [], []

    def child(pipe, arguments):
        gate.wait(600)
        try:
            pipe.send(target(*arguments))
        except BaseException as error:
            pipe.send(error)

    for arguments in argument_lists:
        ours, theirs = processes.Pipe()
        children.append(processes.Process(target=child, args=(theirs, arguments)))
        children[-1].start()
        pipes.append(ours)
    found = []
    for pipe in pipes:
        assert pipe.poll(600), "a process hangs"
        found.append(pipe.recv())
    for one in children:
        one.join(600)
    assert not [e for e in found if isinstance(e, BaseException)], found
    return found


def killed_inside(work, meanwhile=lambda: None):
    """Run `work(ready)` in a process of its own and kill it, without notice, once it calls `ready()` and `meanwhile`,
    whose result is returned, has been done here."""
    ours, theirs = processes.Pipe()

    def child():
        def ready():
            theirs.send("ready")
            signal.pause()

        work(ready)

    one = processes.Process(target=child)
    one.start()
    try:
        assert ours.poll(600), "the writer never came so far"
        found = meanwhile()
    finally:
        os.kill(one.pid, signal.SIGKILL)
        one.join(600)
    assert one.exitcode == -signal.SIGKILL
    return found


class RunStoreContract:
    @pytest.fixture
    def store(self, url):
        return RunStore(url)

    # -- what goes in comes out

    def test_a_saved_run_comes_back_as_it_was(self, store, url):
        document = {"text": NASTY, "n": 2**70, "x": 0.1, "tiny": 5e-324, "none": None, NASTY: [True, [], {}]}
        before = datetime.now(UTC)
        kept = store.save("bench", label=NASTY, stats={"alpha": 0.5}, document=document, **RUN)
        again = RunStore(url).find(kept.id)
        assert again == kept
        assert (again.kind, again.label, again.status) == ("bench", NASTY, "complete")
        assert (again.settings, again.pair, again.environment) == (RUN["settings"], RUN["pair"], HERE)
        assert again.versions == {"python": "3.11.7", "specscope": "0.1.0", "torch": "2.13.0"}
        assert again.specscope_version == "0.1.0"
        assert again.hardware == hardware_hash(HERE)
        assert again.stats == {"alpha": 0.5}
        assert store.document(kept.id) == document
        assert before <= again.created_at <= again.finished_at <= datetime.now(UTC)
        assert again.created_at.utcoffset() == timedelta(0)

    def test_measurements_and_traces_come_back_whatever_their_names_hold(self, store):
        run = store.begin("sweep", **RUN)
        assert store.put(run.id, NASTY, {"p": NASTY})
        assert store.put(run.id, "second", [1, None])
        assert store.add_trace(run.id, NASTY, film(NASTY))
        assert list(store.measurements(run.id).items()) == [(NASTY, {"p": NASTY}), ("second", [1, None])]
        assert store.traces(run.id) == [NASTY]
        assert Trace.from_json(json.dumps(store.trace(run.id, NASTY))) == film(NASTY)
        with pytest.raises(EngineError, match="has no trace 'other'"):
            store.trace(run.id, "other")

    def test_a_run_is_saved_with_its_measurements_and_traces_at_once(self, store):
        run = store.save("generate", measurements={"a": 1, "b": 2}, traces={"trace": film()}, **RUN)
        assert store.measurements(run.id) == {"a": 1, "b": 2}
        assert store.traces(run.id) == ["trace"]

    def test_the_export_holds_everything_as_strict_json(self, store):
        run = store.begin("sweep", label="x", **RUN)
        store.put(run.id, "k=1", {"x": 1})
        store.add_trace(run.id, "t", film())
        store.finish(run.id, document={"arms": []}, stats={"best": 3})
        whole = json.loads(json.dumps(store.export(run.id), allow_nan=False))
        assert whole["schema"] == "specscope.run_export"
        assert whole["run"]["id"] == run.id
        assert whole["run"]["status"] == "complete"
        assert datetime.fromisoformat(whole["run"]["created_at"]) == run.created_at
        assert whole["document"] == {"arms": []}
        assert whole["measurements"] == {"k=1": {"x": 1}}
        assert whole["traces"]["t"] == film().as_dict()

    def test_a_reader_sees_the_store_as_it_was_at_its_first_query(self, store, url):
        run = store.save("bench", measurements={"a": 1}, **RUN)
        with store._db.read() as connection:
            assert connection.scalar(select(func.count()).select_from(schema.runs)) == 1
            RunStore(url).delete([run.id])
            assert connection.scalar(select(func.count()).select_from(schema.measurements)) == 1
        assert counts(store) == (0, 0, 0)

    # -- what is refused, and that nothing of it is kept

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            (float("nan"), "NaN or an infinity"),
            ([float("inf")], "NaN or an infinity"),
            ({1, 2}, "not JSON serializable"),
            (b"bytes", "not JSON serializable"),
        ],
    )
    def test_what_json_cannot_say_is_refused_by_name_and_nothing_is_kept(self, store, value, says):
        run = store.begin("sweep", **RUN)
        before = counts(store)
        with pytest.raises(EngineError, match=rf"measurement 'k=1' cannot .*{says}"):
            store.put(run.id, "k=1", {"x": value})
        with pytest.raises(EngineError, match=rf"the document cannot .*{says}"):
            store.finish(run.id, document={"x": value})
        with pytest.raises(EngineError, match=rf"trace 't' cannot .*{says}"):
            store.save("generate", traces={"t": {"x": value}}, **RUN)
        with pytest.raises(EngineError, match=rf"the settings cannot .*{says}"):
            store.begin("sweep", **{**RUN, "settings": {"x": value}})
        assert counts(store) == before
        assert store.find(run.id).status == "running"

    def test_what_holds_itself_or_is_nested_too_deeply_is_refused(self, store):
        loop, deep = [], []
        loop.append(loop)
        for _ in range(100_000):
            deep = [deep]
        for value, says in ((loop, "holds itself"), (deep, "nested too deeply")):
            with pytest.raises(EngineError, match=says):
                store.save("bench", document={"x": value}, **RUN)
        while deep:  # dropped level by level: freeing it at once would end the interpreter
            deep = deep[0]

    @pytest.mark.parametrize("key", ["", "x" * 201, None])
    def test_a_key_that_is_empty_too_long_or_no_text_is_refused(self, store, key):
        run = store.begin("sweep", **RUN)
        with pytest.raises(EngineError, match="the key of a measurement must be"):
            store.put(run.id, key, 1)

    def test_the_longest_key_of_the_widest_characters_is_stored(self, store):
        run = store.begin("sweep", **RUN)
        assert store.put(run.id, "👩" * 200, 1)
        assert store.measurements(run.id) == {"👩" * 200: 1}

    def test_unknown_kinds_and_endings_are_refused_with_the_choices(self, store):
        with pytest.raises(EngineError, match="unknown kind of run 'swep': choose from generate, bench, sweep, peers"):
            store.begin("swep", **RUN)
        with pytest.raises(EngineError, match="unknown kind of run 'x'"):
            store.runs("x")
        with pytest.raises(EngineError, match="unknown ending of a run 'running': choose from complete, stopped, fail"):
            store.save("bench", status="running", **RUN)

    def test_of_an_unknown_run_nothing_can_be_asked(self, store):
        asked = (store.find, store.document, store.measurements, store.traces, store.export, store.finish,
                 lambda r: store.put(r, "k", 1), lambda r: store.add_trace(r, "t", {}), lambda r: store.trace(r, "t"),
                 lambda r: store.delete([r]))  # fmt: skip
        for ask in asked:
            with pytest.raises(EngineError, match="there is no run '20260101-000000-aaaaaa' in the store"):
                ask("20260101-000000-aaaaaa")

    # -- a run that grows, is cut short and is taken up again

    def test_the_first_write_under_a_key_wins(self, store):
        run = store.begin("sweep", **RUN)
        assert store.put(run.id, "k=1", "first") is True
        assert store.put(run.id, "k=1", "second") is False
        assert store.add_trace(run.id, "t", {"n": 1}) is True
        assert store.add_trace(run.id, "t", {"n": 2}) is False
        assert store.measurements(run.id) == {"k=1": "first"}
        assert store.trace(run.id, "t") == {"n": 1}

    def test_a_put_tells_that_the_run_is_alive(self, store):
        run = store.begin("sweep", **RUN)
        store.put(run.id, "k=1", 1)
        assert store.find(run.id).updated_at > run.updated_at

    @pytest.mark.parametrize("status", ["complete", "failed"])
    def test_a_run_that_has_ended_takes_nothing_more(self, store, status):
        run = store.begin("sweep", key=1, **RUN)
        store.finish(run.id, status)
        for more in (lambda: store.put(run.id, "k", 1), lambda: store.add_trace(run.id, "t", {}),
                     lambda: store.finish(run.id, "stopped")):  # fmt: skip
            with pytest.raises(EngineError, match=f"is {status}, so nothing can be added"):
                more()
        assert store.begin("sweep", key=1, **RUN).id != run.id

    def test_a_stopped_run_is_taken_up_with_its_points_and_its_own_settings(self, store, url):
        first = store.begin("sweep", key={"grid": [1, 2]}, **{**RUN, "settings": {"seed": 11}})
        store.put(first.id, "k=1", 1)
        assert store.finish(first.id, "stopped").finished_at is not None
        again = RunStore(url).begin("sweep", key={"grid": [1, 2]}, **{**RUN, "settings": {"seed": 12}})
        assert (again.id, again.status, again.finished_at) == (first.id, "running", None)
        assert again.settings == {"seed": 11}
        assert store.measurements(again.id) == {"k=1": 1}
        store.put(again.id, "k=2", 2)
        assert store.finish(again.id, document={"done": True}).status == "complete"

    def test_only_the_very_same_configuration_is_taken_up(self, store):
        first = store.begin("sweep", key={"a": 1, "b": 2}, **RUN)
        assert store.begin("sweep", key={"b": 2, "a": 1}, **RUN).id == first.id, "the order of keys says nothing"
        others = [
            store.begin("sweep", key={"a": 1, "b": 3}, **RUN),
            store.begin("peers", key={"a": 1, "b": 2}, **RUN),
            store.begin("sweep", key={"a": 1, "b": 2}, **{**RUN, "pair": {"name": "other"}}),
            *(
                store.begin("sweep", key={"a": 1, "b": 2}, **{**RUN, "environment": {**HERE, **change}})
                for change in ({"gpu": "H100"}, {"cpu": "B"}, {"threads": 1}, {"versions": {"torch": "2.14"}})
            ),
            store.begin("sweep", **RUN),
            store.begin("sweep", **RUN),
        ]
        assert len({first.id, *(run.id for run in others)}) == 1 + len(others)

    # -- several processes

    def test_four_processes_make_one_new_store_at_once_and_lose_none_of_their_runs(self, url):
        def work(name):
            store = RunStore(url)
            for n in range(25):
                store.save("bench", label=f"{name}.{n}", measurements={"a": n}, **RUN)

        at_once(work, ("a",), ("b",), ("c",), ("d",))
        found = RunStore(url).runs()
        assert {run.label for run in found} == {f"{name}.{n}" for name in "abcd" for n in range(25)}
        assert len({run.id for run in found}) == 100
        assert counts(RunStore(url)) == (100, 100, 0)

    def test_processes_that_begin_one_key_at_once_share_the_run_and_store_each_point_once(self, store, url):
        def work(name):
            mine = RunStore(url)
            run = mine.begin("sweep", key="shared", **RUN)
            return run.id, [n for n in range(10) if mine.put(run.id, f"k={n}", [name, n])]

        found = at_once(work, ("a",), ("b",), ("c",), ("d",))
        (run_id,) = {run for run, _ in found}
        assert sorted(n for _, mine in found for n in mine) == list(range(10)), "each point was stored by one process"
        winners = {n: name for name, (_, mine) in zip("abcd", found, strict=True) for n in mine}
        assert store.measurements(run_id) == {f"k={n}": [winners[n], n] for n in range(10)}

    def test_a_run_that_is_just_being_ended_is_not_taken_up_by_another(self, store, url):
        run = store.begin("sweep", key=1, **RUN)
        begun = []
        other = threading.Thread(target=lambda: begun.append(RunStore(url).begin("sweep", key=1, **RUN)))
        with store._db.write() as connection:
            rows.lock_open(connection, run.id)
            ended = schema.runs.update().where(schema.runs.c.id == run.id).values(rows.ending("complete", None, None))
            connection.execute(ended)
            other.start()
            other.join(0.5)
            assert not begun, "the other waits for the end to be written"
        other.join(600)
        assert begun[0].id != run.id
        assert store.find(run.id).status == "complete"

    def test_a_writer_that_is_killed_leaves_nothing_half_and_no_lock(self, store, url):
        def work(ready):
            with RunStore(url)._db.write(lock=5) as connection:
                values = rows.run_values("bench", "half", *RUN.values(), None) | rows.ending("complete", {}, {})
                rows.insert_run(connection, values)
                ready()

        killed_inside(work)
        assert store.runs() == []
        store.save("bench", **RUN)
        with store._db.write(lock=5):
            pass
        assert counts(store) == (1, 0, 0)

    def test_a_sweep_that_is_killed_keeps_its_points_is_not_complete_and_goes_on(self, store, url):
        def work(ready):
            mine = RunStore(url)
            run = mine.begin("sweep", key="grid", **RUN)
            mine.put(run.id, "k=1", 1)
            mine.put(run.id, "k=2", 2)
            ready()

        killed_inside(work)
        (left,) = store.runs()
        assert left.status == "running"
        assert left.finished_at is None
        again = store.begin("sweep", key="grid", **RUN)
        assert again.id == left.id
        assert store.measurements(again.id) == {"k=1": 1, "k=2": 2}

    def test_of_a_run_that_a_living_process_is_at_another_is_told_and_a_killed_ones_is_taken_up_at_once(self, url):
        def work(ready):
            mine = RunStore(url)
            run = mine.begin("sweep", key="grid", others="refuse", **{**RUN, "settings": {"seed": 1}})
            mine.put(run.id, "k=1", 1)
            ready()

        def meanwhile():
            store = RunStore(url)
            (held,) = store.runs()
            said = (
                rf"another sweep with these options seems to be running since 20.* UTC \(process \d+, run {held.id}\)"
            )
            with pytest.raises(EngineError, match=f"{said}; wait for it, or use --fresh"):
                store.begin("sweep", key="grid", others="refuse", **RUN)
            assert store.begin("sweep", key="other", others="refuse", **RUN).id != held.id
            beside = store.begin("sweep", key="grid", others="pass", **RUN)
            assert beside.id != held.id
            store.finish(beside.id, "failed")
            assert store.begin("sweep", key="grid", **RUN).id == held.id, "shared when nothing else is asked for"
            return held

        held = killed_inside(work, meanwhile)
        again = RunStore(url).begin("sweep", key="grid", others="refuse", **{**RUN, "settings": {"seed": 2}})
        assert again.id == held.id
        assert again.settings["seed"] == 1
        assert again.settings["process"]["pid"] == os.getpid()
        assert RunStore(url).begin("sweep", key="grid", others="refuse", **RUN).id == held.id, "its own process goes on"

    # -- finding and deleting

    def test_a_run_is_found_by_the_start_of_its_id_or_by_its_last_letters(self, store):
        run = store.save("bench", **RUN)
        for part in (run.id, run.id[:3], run.id[:-1], run.id[-6:], run.id.upper(), f" {run.id} "):
            assert store.find(part).id == run.id

    def test_a_part_that_fits_several_runs_is_refused_with_their_ids(self, store):
        ids = [store.save("bench", **RUN).id for _ in range(2)]
        with pytest.raises(EngineError, match="could be several runs") as refused:
            store.find("2")
        assert all(i in str(refused.value) for i in ids)
        ids += [store.save("bench", **RUN).id for _ in range(8)]
        with pytest.raises(EngineError, match="and others; give more of the id"):
            store.find("2")

    @pytest.mark.parametrize("part", ["", " ", "%", "2%", "_", "2_", "\0", "'", "\ud83d", "zzz", "-"])
    def test_a_part_that_fits_no_run_is_refused_and_no_sign_stands_for_others(self, store, part):
        store.save("bench", **RUN)
        with pytest.raises(EngineError, match="there is no run"):
            store.find(part)

    def test_deleting_takes_all_that_hangs_on_a_run_and_nothing_else(self, store):
        gone, left = (store.save("bench", measurements={"a": 1}, traces={"t": {}}, **RUN) for _ in range(2))
        assert store.delete([gone.id, gone.id]) == 1
        assert counts(store) == (1, 1, 1)
        assert store.measurements(left.id) == {"a": 1}

    def test_when_one_of_several_is_unknown_none_is_deleted(self, store):
        run = store.save("bench", **RUN)
        with pytest.raises(EngineError, match="there is no run"):
            store.delete([run.id, "20260101-000000-aaaaaa"])
        assert store.find(run.id)

    def test_the_list_is_latest_first_and_filters_by_kind_status_and_machine(self, store):
        other = {**RUN, "environment": {**HERE, "gpu": "NVIDIA H100"}}
        saved = [store.save("bench", **RUN), store.begin("sweep", **RUN), store.save("bench", **other)]
        ids = [run.id for run in reversed(saved)]
        assert [run.id for run in store.runs()] == ids
        assert [run.id for run in store.runs(limit=2)] == ids[:2]
        assert [run.id for run in store.runs("sweep")] == [saved[1].id]
        assert [run.id for run in store.runs(status="complete")] == [saved[2].id, saved[0].id]
        assert [run.id for run in store.runs(hardware=hardware_hash(HERE))] == [saved[1].id, saved[0].id]
        assert store.runs(hardware="%") == []
        with pytest.raises(EngineError, match="limit must be"):
            store.runs(limit=0)

    def test_ids_sort_by_their_time(self, store):
        found = [store.save("bench", **RUN) for _ in range(20)]
        for _, same in groupby(found, key=lambda run: f"{run.created_at:%Y%m%d-%H%M%S}"):
            assert {run.id[:15] for run in same} == {_}
        assert [run.id[:15] for run in found] == sorted(run.id[:15] for run in found)

    # -- the store itself

    def test_a_store_of_a_newer_specscope_is_refused_and_left_alone(self, store, url):
        store.save("bench", **RUN)
        with store._db.write() as connection:
            connection.execute(schema.meta.update().values(value=str(schema.VERSION + 1)))
        with pytest.raises(EngineError, match=r"written by a newer specscope \(schema 2, this one reads 1\); update"):
            RunStore(url)
        assert counts(store) == (1, 0, 0)

    def test_a_store_that_does_not_say_its_version_is_refused(self, store, url):
        with store._db.write() as connection:
            connection.execute(schema.meta.delete())
        with pytest.raises(EngineError, match="does not say its version"):
            RunStore(url)

    def test_a_store_that_lost_a_table_is_one_sentence(self, store):
        with store._db.write() as connection:
            schema.traces.drop(connection)
        with pytest.raises(EngineError, match="damaged"):
            store.save("generate", traces={"t": {}}, **RUN)
        assert store.runs() == [], "and the run that needed it is not half there"
