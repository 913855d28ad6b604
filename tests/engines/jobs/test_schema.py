"""Whether the database tells that something was written."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from antiphon.engines.jobs.schema import WORKERS, Changes, migrate, open_database


def test_a_change_is_seen_and_quiet_is_quiet(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/jobs.sqlite")
    migrate(engine)
    changes = Changes(engine)
    first = changes.mark()
    with engine.connect() as line:
        line.execute(sa.select(WORKERS)).all()
    assert changes.mark() == first
    with engine.begin() as line:
        line.execute(sa.insert(WORKERS).values(id="w", place="", process=""))
    assert changes.mark() != first
    changes.close()
    assert changes.mark() is None
    engine.dispose()


def test_of_other_databases_nothing_is_known() -> None:
    engine = sa.create_engine("postgresql+psycopg://nobody@localhost:1/none")
    assert Changes(engine).mark() is None
