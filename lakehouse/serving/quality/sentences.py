"""Sentences of a report on quality, as a reader who did not write the pipeline understands them."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.config.durations import format_timestamp

REASONS = {
    "malformed": "The record cannot be split into fields.",
    "bad_utf8": "The record is no valid text.",
    "missing_column": "Its file lacks a declared column.",
    "no_event_time": "The record has no event time.",
    "bad_event_time": "Its event time cannot be read.",
    "out_of_bounds": "Its event time is outside of the bounds that are declared.",
    "bad_arrival_time": "Its arrival time cannot be read.",
    "clock": "Its event time is too far from when it arrived: the sender's clock is wrong.",
    "bad_value": "A value is not of its column's type.",
    "ambiguous_time": "Its local time came twice when clocks were set back, and nothing says which is meant.",
    "skipped_time": "Its local time did not exist, because clocks were set forward.",
    "no_items": "It has no list where one is declared.",
    "conflict": "It has the identity of an accepted row and other content.",
    "truncated_file": "Its file ends too early, or is damaged inside.",
    "unreadable_file": "Its file cannot be read.",
    "too_long": "Its line is too long.",
    "other_header": "It stands behind a second header with other fields.",
    "tombstone": "It is a message without a value.",
    "unknown_schema": "Its Avro schema is not declared.",
}
_RULE = "; the rule: "
_SECONDS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
Fields = Mapping[str, Any]


def reason_sentence(reason: str, detail: str | None) -> str:
    """Return the meaning of a reason; of a rule of the stream its own sentence, with which ``detail`` ends."""
    if reason.startswith("rule_") and detail and _RULE in detail:
        return f"It breaks a rule of the stream: {detail.rpartition(_RULE)[2]}"
    return REASONS.get(reason, "It breaks a rule of the stream." if reason.startswith("rule_") else "")


def balance_sentence(counts: Fields, when: str) -> str:
    """Return what became of the records that came in.

    >>> counts = dict(received=10, requeued=0, accepted=7, quarantined=2, duplicates=1, revised=0)
    >>> balance_sentence(counts, "in all")
    'Of 10 records that came in all, 7 were accepted, 2 rejected, and 1 repeated another: none is unaccounted for.'
    >>> balance_sentence(counts | {"revised": 3}, "in all").partition(": ")[2]
    'none is unaccounted for. Newer ones took the place of 3 accepted ones, which are kept apart.'
    >>> balance_sentence(dict.fromkeys(counts, 0) | dict(received=1, accepted=1), "in so far").partition(", and")[0]
    'Of 1 record that came in so far, 1 was accepted, 0 rejected'
    >>> balance_sentence(dict.fromkeys(counts, 0), "in on this day")
    'No record came in on this day.'
    """
    came, gone = counts["received"] + counts["requeued"], _gone(counts)
    if not came and not gone:
        return f"No record came {when}."
    again = f" and {counts['requeued']:,} put through again" if counts["requeued"] else ""
    lost = (
        "none is unaccounted for"
        if came == gone
        else f"{_are(abs(came - gone), 'is', 'are')} unaccounted for"
    )
    # A revised row stays accepted: it came in, and raw no longer has it.
    apart = f" Newer ones took the place of {counts['revised']:,} accepted ones, which are kept apart."
    return (
        f"Of {_are(counts['received'], 'record', 'records')} that came {when}{again}, "
        f"{_are(counts['accepted'], 'was', 'were')} accepted, "
        f"{counts['quarantined']:,} rejected, and {counts['duplicates']:,} repeated another: {lost}."
        f"{apart if counts['revised'] else ''}"
    )


def is_balanced(counts: Fields) -> bool:
    """True if received + requeued = accepted + quarantined + duplicates."""
    return bool(counts["received"] + counts["requeued"] == _gone(counts))


def _gone(counts: Fields) -> int:
    return int(counts["accepted"] + counts["quarantined"] + counts["duplicates"])


def fresh_sentence(
    newest_us: int | None, committed_us: int | None, now_us: int, until: str = "this report was made"
) -> str:
    """Return how new the newest row is, and when the last batch came in; ``until``: what is now."""
    if committed_us is None:
        return "Nothing has come in yet."
    batch = f"the last batch came in {age(now_us - committed_us)} before {until}"
    if newest_us is None:
        return f"No row was accepted yet; {batch}."
    time = f"{format_timestamp(newest_us)} UTC"
    behind = committed_us - newest_us
    gap = f"{age(behind)} older than" if behind >= 0 else f"{age(-behind)} ahead of"
    return f"The newest row is of {time}, {gap} the batch that brought it; {batch}."


def plausible_sentence(judged: Sequence[Fields]) -> str:
    """Return how many of the stream's own rules hold, and those that do not.

    >>> plausible_sentence([dict(is_own=True, state="rejects", says="Rooms are warm.")])
    'Its only rule holds, because it rejects rows.'
    >>> plausible_sentence([dict(is_own=True, state="warns", says="Rooms are warm.")])
    'Its only rule is broken: Rooms are warm.'
    """
    if not judged:
        return "No check has run yet, so that no rule was judged."
    rules = [rule for rule in judged if rule["is_own"]]
    if not rules:
        return "No rule says which values are plausible: the stream declares none."
    broken = [rule["says"].rstrip(".") for rule in rules if rule["state"] in ("fails", "warns")]
    rejecting = sum(rule["state"] == "rejects" for rule in rules)
    why = "it rejects" if rejecting == 1 else "they reject"
    by = f", {rejecting:,} of them because {why} rows" if rejecting else ""
    if len(rules) == 1:
        held = f"holds, because {why} rows" if rejecting else "holds"
        return f"Its only rule is broken: {broken[0]}." if broken else f"Its only rule {held}."
    counted = f"{len(rules) - len(broken):,} of {len(rules):,} of its own rules hold{by}"
    return f"{counted}; broken: {'; '.join(broken)}." if broken else f"{counted}."


def _are(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def age(length_us: int) -> str:
    """Return a length of time in the largest unit that makes it two or more.

    >>> age(7_300_000_000), age(59_000_000), age(0)
    ('2 hours', '59 seconds', '0 seconds')
    """
    seconds = max(length_us, 0) // 1_000_000
    size, name = next((one for one in _SECONDS if seconds >= 2 * one[0]), _SECONDS[-1])
    return f"{seconds // size:,} {name}"
