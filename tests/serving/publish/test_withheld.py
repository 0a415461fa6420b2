"""A withheld stream keeps its last published state while the versions of the others go on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import UnknownName
from lakehouse.serving.publish.gate import TotalsDiffer
from lakehouse.serving.publish.publish import Published, publish, publish_agreeing, shared_streams
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.serving.sandbox.sandbox import open_published, reading
from lakehouse.serving.versions.versions import database_path
from lakehouse.storage.layout import Home
from tests.serving.publish.test_changes import CONTENT, LEVELS, batches, shared
from tests.serving.streams import RandomStream, Row

pytestmark = pytest.mark.slow
BAD = Withheld("bad", "totals.rejected_share is 1, expected at most 0.5", ("joined",))


def rows_of(seed: int, count: int) -> list[Row]:
    return [row for batch in batches(seed, count) for row in batch]


def content(home: Home, stream: str) -> list[list[tuple[Any, ...]]]:
    """Everything that readers see of one stream."""
    with open_published(home) as reader:
        found = [reader.connection.execute(query).fetchall() for query in CONTENT[:-1]]
    return [[row for row in rows if row[0] == stream] for rows in found]


def withheld(home: Home) -> list[tuple[Any, ...]]:
    with reading(home) as reader:
        return reader.connection.execute("FROM withheld ORDER BY stream").fetchall()


@pytest.mark.parametrize("anew", [False, True])
def test_its_last_published_state_stays_until_it_is_published_again(tmp_path: Path, anew: bool) -> None:
    home = Home(tmp_path / "home")
    made = {
        (name, count): RandomStream(name, LEVELS["limited"], rows_of(seed, count)).write(
            tmp_path / f"{name}{count}"
        )
        for name, seed in (("also", 5), ("bad", 50))
        for count in (1, 2)
    }
    publish(home, [made["also", 1], made["bad", 1]])
    before = content(home, "bad")

    done = publish(home, [made["also", 2]], in_full=anew, withheld=[BAD])
    again = publish(home, [made["also", 2]], withheld=[BAD])

    assert (done.version, again.version, again.is_new) == (2, 2, False)
    assert content(home, "bad") == before and content(home, "also") != before
    ((stream, since_us, because, batch, queries),) = withheld(home)
    assert (stream, because, batch, queries) == ("bad", BAD.because, 1, ["joined"])
    assert ask(home, "also", "*", "count", 0, 10**6)[0].value == len(rows_of(5, 2))

    publish(home, [replace(made["also", 2], rebuilt=1)], withheld=[BAD], in_full=anew)
    assert content(home, "bad") == before and withheld(home)[0][1] == since_us

    known = shared_streams(home, [made["bad", 2]])
    assert {name: before.batch for name, before in known.items()} == {"bad": 1}
    told = shared(made["bad", 2], rows_of(50, 2), 1, tmp_path / "parts")
    publish(home, [replace(made["also", 2], rebuilt=2), told])
    assert withheld(home) == []
    publish(Home(tmp_path / "plain"), [made["also", 2], made["bad", 2]])
    assert content(home, "bad") == content(Home(tmp_path / "plain"), "bad")


def test_one_that_was_never_published_is_absent_with_its_reason(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    publish(
        home, [RandomStream("also", LEVELS["one"], rows_of(5, 1)).write(tmp_path / "also")], withheld=[BAD]
    )

    assert withheld(home)[0][3] is None
    with pytest.raises(UnknownName, match=r"stream 'bad' is not published: withheld since .*rejected_share"):
        ask(home, "bad", "*", "count", 0, 10)


def test_one_whose_last_state_has_another_form_holds_no_other_up(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    made = {
        (name, count): RandomStream(name, LEVELS["one"], rows_of(5, count)).write(tmp_path / f"{name}{count}")
        for name, count in (("also", 1), ("bad", 1), ("also", 2))
    }
    publish(home, [made["also", 1], made["bad", 1]])
    path = database_path(home.serving, 1)
    path.chmod(0o600)
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE quarantine DROP COLUMN closed")

    done = publish(home, [made["also", 2]], withheld=[BAD])

    assert (done.version, done.is_new) == (2, True)
    assert ask(home, "also", "*", "count", 0, 10**6)[0].value == len(rows_of(5, 2))
    lost = "another Tidemark published its last state, in a form that cannot be taken over"
    with pytest.raises(UnknownName, match=rf"'bad' is not published: withheld since .*0\.5; {lost}"):
        ask(home, "bad", "*", "count", 0, 10)


def test_a_home_whose_streams_are_all_withheld_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    publish(home, [], withheld=[BAD])

    assert [row[0] for row in withheld(home)] == ["bad"]


def test_a_stream_whose_totals_differ_is_withheld_alone_and_the_others_are_published(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    made = {
        (name, count): RandomStream(name, LEVELS["limited"], rows_of(seed, count)).write(
            tmp_path / f"{name}{count}"
        )
        for name, seed in (("also", 5), ("bad", 50))
        for count in (1, 2)
    }

    def published(bad: StreamSnapshot, anew: bool = False) -> tuple[Published, TotalsDiffer | None]:
        also = made["also", 2] if bad.batch == 2 else made["also", 1]
        done, differing, _ = publish_agreeing(
            home, [also, bad], [], [], 3, lambda name: (f"over_{name}",), anew
        )
        return done, differing

    assert published(made["bad", 1])[1] is None
    before = content(home, "bad")
    wrong = replace(made["bad", 2], totals=[replace(t, rows=t.rows + 1) for t in made["bad", 2].totals])

    done, differing = published(wrong)
    again, _ = published(wrong)
    anew, _ = published(wrong, anew=True)

    assert differing is not None and list(differing.problems) == ["bad"]
    assert [one.version for one in (done, again, anew)] == [2, 2, 3]
    assert content(home, "bad") == before
    assert ask(home, "also", "*", "count", 0, 10**6)[0].value == len(rows_of(5, 2))
    ((stream, _, because, batch, queries),) = withheld(home)
    assert (stream, batch, queries) == ("bad", 1, ["over_bad"])
    assert re.match(r"totals differ, bad level \d+ .*: the rollup has \d+ rows, the new file \d+", because)

    assert published(made["bad", 2])[1] is None
    assert withheld(home) == [] and content(home, "bad") != before
