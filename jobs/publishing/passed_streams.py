"""The streams that a publish may take, because they have passed the checks, and those that it withholds."""

from collections.abc import Mapping

from jobs.publishing.snapshots import snapshot_of
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.control.outcomes import last_outcome
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.tables.integrity import damage_in


def snapshots_to_publish(
    settings: Settings, unchecked: bool, faults: Mapping[str, Exception]
) -> tuple[list[StreamSnapshot], list[Withheld]]:
    """Return a snapshot of each stream to publish, and the streams that are withheld, with the reason.

    Withheld is a stream whose last check failed, whose rollups are of another declaration or have one of the
    ``faults``, or, without ``unchecked``, that holds batches which no check has passed. The fault of one stream is no
    other's.
    """
    from lakehouse.rollup.rollup import HistoryErased, RollupOutdated

    snapshots, withheld = [], []
    for stream in settings.streams.values():
        try:
            fault, because = faults.get(stream.name), None
            if isinstance(fault, LeaseHeld):
                because = "another process writes its rollups, which were therefore not read"
            elif fault is not None:
                # Readers know no paths.
                because = str(fault).replace(f"{settings.layout.tables}/", "")
            else:
                one = snapshot_of(settings, stream)
                because = _unpassed(settings, one, unchecked)
        except (RollupOutdated, HistoryErased) as refused:
            because = str(refused)
        if because is None:
            snapshots.append(one)
        else:
            withheld.append(Withheld(stream.name, because, readers_of(settings, stream.name)))
    return snapshots, withheld


def damaged_streams(settings: Settings) -> dict[str, Exception]:
    """Return the streams of which a published table has a file that is not as it was written."""
    layout = settings.layout
    kinds = (layout.rollup, layout.ledger, layout.quarantine, layout.corrections, layout.unchecked)
    damage = {name: next(damage_in(kind(name) for kind in kinds), None) for name in settings.streams}
    return {name: DamagedFile(text) for name, text in damage.items() if text}


def readers_of(settings: Settings, stream: str) -> tuple[str, ...]:
    """Return the registered queries that read a stream."""
    return tuple(sorted(query.name for query in settings.registered.values() if stream in query.streams))


def _unpassed(settings: Settings, one: StreamSnapshot, unchecked: bool) -> str | None:
    """Return the reason for which a stream has not passed the checks, None if it has."""
    from quality.history import verified_through

    last = last_outcome(settings.layout, "check_quality", one.name)
    if last is not None and not last["ok"]:
        _, *rules = str(last["error"]).splitlines()
        shown = [line.strip() for line in rules if not line.startswith("report: ")]
        return "; ".join(shown) or str(last["error"])
    passed = 0 if unchecked else max(verified_through(settings.layout.quality, one.name), 0)
    if unchecked or one.batch <= passed:
        return None
    return f"its rollups hold batches up to {one.batch}, the checks have passed those up to {passed}"
