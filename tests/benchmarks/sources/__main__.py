"""Sources other than files, how fast they are read beside the plain way, and how fresh answers are.

    python -m tests.benchmarks.sources [--quick] [--json] [PART ...]

``kafka`` starts a broker of its own on this machine, which shares its cores with Spark. ``freshness`` serves rows as
they come, an hour of stream time at each of two rates, replayed faster: 45 minutes; ``history`` does for a minute
each, in a home that has ten million nodes already: 6 minutes. ``manifests``: what finding the next batch costs behind
thousands. ``listing``: what looking for new files on a store costs. ``parser``: what reading records of each preset
costs; ``documents``: what records of XML and JSON documents cost; ``captures``: packets a second; ``presets``: whole
jobs of them. ``local_times``: what zones cost, and the hour that comes twice. ``declared``: real files declared by
looking at them; ``first_chart``: what it takes from there to a chart. ``read_stream``: what plans batches, beside
Spark's own streams. ``soak``: whether memory and files stay flat, 40 minutes.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        ("manifests", "listing", "parser", "documents", "captures", "local_times", "declared"),
        only_in_full=("first_chart", "kafka", "presets", "read_stream", "freshness", "history", "soak"),
    )
