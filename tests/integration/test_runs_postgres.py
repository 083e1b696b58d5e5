"""The run store on a real PostgreSQL server, which these tests set up and stop themselves."""

import json
import os
import threading

import pytest

pytest.register_assert_rewrite("helpers.run_store_contract")
from helpers.run_store_contract import NASTY, RUN, RunStoreContract, counts, film  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from app import cli  # noqa: E402
from engine import EngineError  # noqa: E402
from engine.runs import RunStore, rows  # noqa: E402

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server():
    """A server, or a skip that says what is missing; with SPECSCOPE_REQUIRE_POSTGRES=1 a failure."""
    try:
        from helpers.postgres import Server, programs
    except ImportError as error:
        missing, found = f"the driver psycopg cannot be imported ({error})", None
    else:
        missing, found = "initdb and postgres were not found (Debian: apt-get install postgresql)", programs()
    if found is None:
        sentence = f"these tests start a PostgreSQL server of their own, and {missing}"
        if os.environ.get("SPECSCOPE_REQUIRE_POSTGRES") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    running = Server(found)
    yield running
    running.stop()


@pytest.fixture
def url(server):
    return server.url(server.emptied("utf8"))


class TestPostgres(RunStoreContract):
    pass


def test_the_server_is_a_real_one_that_this_test_started(server, url):
    ((version,),) = server.run("SELECT version()")
    assert version.startswith("PostgreSQL ")
    ((folder,),) = server.run("SHOW data_directory")
    assert folder == str(server.folder / "data")
    assert RunStore(url).place == f"PostgreSQL database utf8 at 127.0.0.1:{server.port}"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_without_turkish_letters_and_emoji_holds_the_same_text(server, encoding):
    store = RunStore(server.url(server.new_database(f"ENCODING '{encoding}' TEMPLATE template0")))
    run = store.save("bench", label=NASTY, document={"x": NASTY}, traces={NASTY: film(NASTY)}, **RUN)
    assert store.find(run.id).label == NASTY
    assert store.document(run.id) == {"x": NASTY}
    assert store.trace(run.id, NASTY) == film(NASTY).as_dict()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_form_of_the_url_works(server, scheme):
    name = server.new_database()
    assert RunStore(server.url(name, scheme=scheme)).save("bench", **RUN)
    assert server.run("SELECT count(*) FROM specscope_runs", database=name) == [(1,)]


def test_a_local_socket_works(server):
    name = server.new_database()
    from urllib.parse import quote

    from helpers.postgres import ADMIN, PASSWORD

    url = f"postgresql://{ADMIN}:{quote(PASSWORD, safe='')}@/{name}?host={server.folder}&port={server.port}"
    store = RunStore(url)
    assert store.save("bench", **RUN)
    assert store.place == f"PostgreSQL database {name} at {server.folder}"


def test_the_environment_variable_leads_the_commands_there(server, url, monkeypatch, tmp_path):
    monkeypatch.setenv("SPECSCOPE_DATABASE_URL", url)
    monkeypatch.setenv("SPECSCOPE_DATA", str(tmp_path))
    run = RunStore().save("bench", label="here", traces={"t": film()}, **RUN)
    ask = CliRunner()
    listed = json.loads(ask.invoke(cli.app, ["runs", "list", "--json"]).stdout)["runs"]
    assert [r["id"] for r in listed] == [run.id]
    whole = json.loads(ask.invoke(cli.app, ["runs", "export", run.id]).stdout)
    assert whole["traces"]["t"] == film().as_dict()
    assert ask.invoke(cli.app, ["runs", "delete", run.id, "--yes"]).exit_code == 0
    assert counts(RunStore()) == (0, 0, 0)
    assert os.listdir(tmp_path) == [], "no SQLite file beside it"


def test_a_wrong_password_is_one_sentence_without_it(server, url, monkeypatch):
    wrong = server.url(server.new_database(), password="wr0ng-secret")
    with pytest.raises(EngineError, match="refused the user or the password; correct them in SPECSCOPE") as refused:
        RunStore(wrong)
    assert "wr0ng-secret" not in str(refused.value)
    monkeypatch.setenv("SPECSCOPE_DATABASE_URL", wrong)
    result = CliRunner().invoke(cli.app, ["runs", "list"])
    assert result.exit_code == 2
    assert "wr0ng-secret" not in result.output
    assert "Traceback" not in result.output


def test_a_database_or_user_that_does_not_exist_is_one_sentence(server):
    with pytest.raises(EngineError, match=r'cannot be used .*"nowhere" does not exist'):
        RunStore(server.url("nowhere"))
    with pytest.raises(EngineError, match="refused the user or the password"):
        RunStore(server.url("postgres", user="nobody_here"))


def test_a_user_who_may_not_make_tables_is_one_sentence(server):
    name = server.new_database()
    server.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'readers'")
    server.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)
    with pytest.raises(EngineError, match=r"does not let this user write .*grant CREATE") as refused:
        RunStore(server.url(name, user="reader", password="readers"))
    assert "readers" not in str(refused.value)


def test_a_database_that_is_read_only_is_one_sentence_and_still_reads(server):
    name = server.new_database()
    run = RunStore(server.url(name)).save("bench", **RUN)
    server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    store = RunStore(server.url(name))
    assert store.find(run.id) == run
    with pytest.raises(EngineError, match="does not let this user write"):
        store.save("bench", **RUN)


def test_other_peoples_tables_in_the_database_are_left_alone(server):
    name = server.new_database()
    server.run("CREATE TABLE runs (mine text)", "INSERT INTO runs VALUES ('mine')", database=name)
    RunStore(server.url(name)).save("bench", **RUN)
    assert server.run("SELECT mine FROM runs", database=name) == [("mine",)]


def test_a_connection_that_is_cut_is_one_sentence_nothing_is_half_kept_and_the_next_write_works(server, url):
    store = RunStore(url)
    run = store.begin("sweep", key=1, **RUN)

    def cut_in_the_middle():
        with store._db.write() as connection:
            rows.insert_run(connection, rows.run_values("bench", "half", *RUN.values(), None))
            server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'specscope'")
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(EngineError, match="cannot be used"):
        cut_in_the_middle()
    assert [r.id for r in store.runs()] == [run.id]
    assert store.put(run.id, "k=1", 1)


def test_threads_share_one_store(url):
    store = RunStore(url)
    run = store.begin("sweep", **RUN)
    threads = [threading.Thread(target=store.put, args=(run.id, f"k={n}", n)) for n in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(600)
    assert sorted(store.measurements(run.id).values()) == list(range(16))


def test_the_server_and_its_folder_are_gone_afterwards(server):
    from helpers.postgres import Server

    other = Server(server.bin)
    folder, process = other.folder, other.process
    other.stop()
    assert process.poll() is not None
    assert not folder.exists()
