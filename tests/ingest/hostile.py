"""Hostile inputs for each format, seeded: what people, broken devices and attackers have put into files."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.algorithms.packets import made
from tests.ingest.hostile_network import FRAME, blocks, classic, netflow, zeek_logs
from tests.ingest.hostile_values import BYTES, NUMBERS, T0, TIMES, Inputs

NESTED = 20_000


def truncated(content: bytes, suffix: str, step: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield a file cut off after each of its bytes."""
    for size in range(0, len(content), step):
        yield f"cut{size:05d}{suffix}", content[:size]


def damaged(content: bytes, suffix: str, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a file in which some bytes are others."""
    dice = random.Random(seed)
    for number in range(count):
        changed = bytearray(content)
        for _ in range(dice.randint(1, 8)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        yield f"flip{number:03d}{suffix}", bytes(changed)


def bombs(suffix: str, line: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield gzip files that are larger than they look, damaged, or of many parts."""
    yield f"zeros{suffix}.gz", gzip.compress(b"\0" * 40_000_000, 1)
    yield f"lines{suffix}.gz", gzip.compress(b"\n" * 20_000_000, 1)
    yield f"parts{suffix}.gz", gzip.compress(b"") * 20_000 + gzip.compress(line)
    yield f"inner{suffix}.gz", gzip.compress(gzip.compress(line))
    yield f"plain{suffix}.gz", line
    yield f"after{suffix}.gz", gzip.compress(line) + b"not gzip"
    yield from truncated(gzip.compress(line), f"{suffix}.gz")


def reading(**said: Any) -> dict[str, Any]:
    """Return a good reading but for what is said otherwise."""
    return {"ts": T0, "device": "a", "temp": 1.5, "count": 2} | said


def ndjson() -> Inputs:
    """Return files of JSON lines."""
    good = json.dumps(reading()).encode()
    found: Inputs = {
        "good.ndjson": b"".join(json.dumps(reading(ts=T0 + n)).encode() + b"\n" for n in range(50))
    }
    found |= {f"number{n}.ndjson": good.replace(b"1.5", text.encode()) for n, text in enumerate(NUMBERS)}
    found |= {f"quoted{n}.ndjson": json.dumps(reading(temp=text)).encode() for n, text in enumerate(NUMBERS)}
    found |= {f"time{n}.ndjson": json.dumps(reading(ts=text)).encode() for n, text in enumerate(TIMES)}
    found |= {f"bytes{n}.ndjson": good.replace(b'"a"', b'"' + text + b'"') for n, text in enumerate(BYTES)}
    found |= {f"around{n}.ndjson": text + good + text for n, text in enumerate(BYTES)}
    odd = (
        b"[",
        b"]",
        b"null",
        b"[]",
        b"{}",
        b"1",
        b'""',
        b"{" * 100,
        good * 2,
        b'{"ts":' * 3,
        b"'",
        b"\\",
        b'{"ts": NaN}',
    )
    found |= {f"odd{n}.ndjson": text + b"\n" + good for n, text in enumerate(odd)}
    deep = b'{"a":' * NESTED + b"1" + b"}" * NESTED
    found |= {
        "deep.ndjson": deep,
        "lists.ndjson": b"[" * NESTED,
        "inside.ndjson": good[:-1] + b', "b": ' + deep + b"}",
    }
    keys = ", ".join(f'"k{n}": {n}' for n in range(5000)).encode()
    found |= {"wide.ndjson": good[:-1] + b", " + keys + b"}", "twice.ndjson": good[:-1] + b', "temp": 9}'}
    found |= {"escape.ndjson": good.replace(b'"a"', b'"\\u0000\\ud800\\uDFFF"')}
    found |= dict(truncated(good, ".ndjson"))
    return found | dict(bombs(".ndjson", good + b"\n")) | dict(damaged(good * 3, ".ndjson", 20, 1))


def csv() -> Inputs:
    """Return files of comma-separated values, with a header."""
    head, good = b"ts,device,temp,count\n", b"1600000000,a,1.5,2\n"
    found: Inputs = {"good.csv": head + b"".join(b"%d,a,1.5,2\n" % (T0 + n) for n in range(50))}
    found |= {f"number{n}.csv": head + good.replace(b"1.5", text.encode()) for n, text in enumerate(NUMBERS)}
    found |= {
        f"time{n}.csv": head + good.replace(b"1600000000", text.encode()) for n, text in enumerate(TIMES)
    }
    found |= {
        f"bytes{n}.csv": head + good.replace(b",a,", b"," + text + b",") for n, text in enumerate(BYTES)
    }
    found |= {f"head{n}.csv": text + head + good for n, text in enumerate(BYTES)}
    quotes = (b'"', b'""', b'"""', b'"a', b'a"', b'"a""b"', b'"a\nb"', b'"a,b"', b"'", b'"a"b', b'"a" ')
    found |= {
        f"quote{n}.csv": head + good.replace(b",a,", b"," + text + b",") + good
        for n, text in enumerate(quotes)
    }
    heads = (
        b"",
        b"\n",
        b",,,\n",
        b"ts\n",
        b"ts,ts,ts,ts\n",
        b"a" * 100_000 + b"\n",
        b'"ts,device\n',
        b"TS,Device,Temp,Count\n",
    )
    found |= {f"names{n}.csv": text + good for n, text in enumerate(heads)}
    found |= {"many.csv": b"c," * 100_000 + head + good, "more.csv": b"c," * 1000 + head + b"," * 1000 + good}
    found |= {"wide.csv": head + b"," * 100_000 + b"\n" + good, "narrow.csv": head + b"1\n" + good}
    found |= dict(truncated(head + good, ".csv"))
    return found | dict(bombs(".csv", head + good)) | dict(damaged(head + good * 3, ".csv", 20, 2))


def zeek() -> Inputs:
    """Return connection logs of Zeek."""
    names = "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto duration "
    names += "orig_ip_bytes resp_ip_bytes orig_pkts resp_pkts"
    head = (
        "#separator \\x09\n#unset_field\t-\n#path\tconn\n#fields\t" + names.replace(" ", "\t") + "\n"
    ).encode()
    row = b"1600000000.5\tC1\t10.0.0.1\t53\t10.0.0.2\t53\tudp\t0.25\t120\t0\t2\t0\n"
    found: Inputs = {"good.log": head + b"".join(row.replace(b"C1", b"G%d" % n) for n in range(50))}
    found |= {
        f"time{n}.log": head + row.replace(b"1600000000.5", text.encode()) for n, text in enumerate(TIMES)
    }
    found |= {f"number{n}.log": head + row.replace(b"120", text.encode()) for n, text in enumerate(NUMBERS)}
    found |= {f"bytes{n}.log": head + row.replace(b"C1", text) for n, text in enumerate(BYTES)}
    heads = (
        b"",
        b"#fields\n",
        b"#separator ,\n",
        b"#fields\tts\n",
        b"#" * 100_000 + b"\n",
        b"{\n",
        b"#types\ttime\n",
    )
    found |= {f"names{n}.log": text + row for n, text in enumerate(heads)}
    # A damaged head is another layout, which takes Spark a while.
    found |= dict(damaged(head + row * 3, ".log", 5, 3))
    found |= {name: head + rows for name, rows in damaged(row * 3, ".row.log", 20, 7)}
    found |= zeek_logs(names.encode().split(), row)
    return found | dict(bombs(".log", head + row))


def nfdump() -> Inputs:
    """Return NetFlow as nfdump prints it."""
    head = b"firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n"
    row = b"2020-09-13 12:26:40.000,1.5,TCP,10.0.0.1,40000,10.0.0.2,443,5,500,1\n"
    found: Inputs = {
        "good.csv": head + b"".join(row.replace(b"40000", b"%d" % (41000 + n)) for n in range(50))
    }
    found |= {
        f"time{n}.csv": head + row.replace(b"2020-09-13 12:26:40.000", text.encode())
        for n, text in enumerate(TIMES)
    }
    found |= {f"number{n}.csv": head + row.replace(b"500", text.encode()) for n, text in enumerate(NUMBERS)}
    found |= {f"bytes{n}.csv": head + row.replace(b"TCP", text) for n, text in enumerate(BYTES)}
    found |= {
        "summary.csv": head + b"Summary\nflows,bytes\n1,2\n" + row,
        "none.csv": b"Summary\n",
        "empty.csv": b"",
    }
    found |= netflow(head, row)
    return found | dict(truncated(head + row, ".csv", 3)) | dict(damaged(head + row * 3, ".csv", 20, 4))


def pcap() -> Inputs:
    """Return captures of packets."""
    frame = FRAME
    whole = made.pcap([(T0 + n, n, frame) for n in range(2)])
    times = (0, 2**31 - 1, 2**32 - 1)
    found: Inputs = {"good.pcap": made.pcap([(T0 + 60 + n, n, frame) for n in range(50)])}
    found |= {f"time{n}.pcap": made.pcap([(second, 2**32 - 1, frame)]) for n, second in enumerate(times)}
    found |= {f"short{size:02d}.pcap": made.pcap([(T0, 0, frame[:size])]) for size in range(len(frame))}
    found |= classic() | blocks()
    found |= dict(truncated(whole, ".pcap")) | dict(damaged(whole, ".pcap", 60, 5))
    return found | dict(bombs(".pcap", whole))


def parquet() -> Inputs:
    """Return files of Parquet, of types that agree with no declaration among them."""

    def file(**columns: Any) -> bytes:
        content = io.BytesIO()
        pq.write_table(pa.table({name: [value] for name, value in reading(**columns).items()}), content)
        return content.getvalue()

    good = io.BytesIO()
    pq.write_table(
        pa.table({"ts": range(T0, T0 + 50), "device": ["a"] * 50, "temp": [1.5] * 50, "count": [2] * 50}),
        good,
    )
    found: Inputs = {"good.parquet": good.getvalue(), "empty.parquet": b"", "text.parquet": b"PAR1" * 100}
    values: tuple[Any, ...] = (
        "x",
        b"\xff",
        [1.0],
        {"a": 1},
        None,
        True,
        float("nan"),
        float("inf"),
        2**62,
        "9" * 1000,
    )
    found |= {f"temp{n}.parquet": file(temp=value) for n, value in enumerate(values)}
    found |= {f"device{n}.parquet": file(device=value) for n, value in enumerate(values)}
    found |= {f"time{n}.parquet": file(ts=text) for n, text in enumerate(TIMES)}
    whole = file()
    return found | dict(truncated(whole, ".parquet", 16)) | dict(damaged(whole, ".parquet", 40, 6))


def messages() -> list[bytes | None]:
    """Return values of messages that should be JSON, the good ones first."""
    files = {name: content for name, content in ndjson().items() if not name.endswith(".gz")}
    return [*files.pop("good.ndjson").splitlines(), None, *files.values()]


Envelope = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


def envelopes() -> list[Envelope]:
    """Return messages as value, key, time and headers, the good ones first: what stands beside values is odd too."""
    dice = random.Random(9)
    beside = (
        *BYTES,
        *(text.encode() for text in (*NUMBERS[1:], *TIMES)),
        None,
        b"",
        b"k" * 100_000,
        b"\xff" * 9,
    )
    values = [value for value in messages()[50:] if value is None or len(value) < 200_000]
    names = ("trace", "Trace", "", "\0", "a" * 1000, "\u202e", "$key")
    found: list[Envelope] = [
        (json.dumps(reading(ts=T0 + n)).encode(), b"k", (T0 + n) * 1000, (("trace", b"1.5"),))
        for n in range(50)
    ]
    times = (0, 1, T0 * 1000, 2**31, 2**53, 253402300799999, 253402300800000)
    for number, text in enumerate(beside):
        found.append(
            (json.dumps(reading(ts=T0 + number)).encode(), text, 1, (("trace", text), ("trace", b"1.5")))
        )
        found.append(
            (json.dumps(reading(ts=T0 + number)).encode(), b"k", 1, (("trace", b"1.5"), ("trace", text)))
        )
    for _ in range(60):
        headers = tuple((dice.choice(names), dice.choice(beside)) for _ in range(dice.choice((0, 1, 3, 200))))
        found.append((dice.choice(values), dice.choice(beside), dice.choice(times), headers))
    return found


def avro(good: bytes) -> list[bytes]:
    """Return values of messages that should be Avro, a good one first: cut, changed, and with lengths that are none."""
    lengths = (b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x01", b"\x80" * 50)
    found = [content for _, content in [*truncated(good, ""), *damaged(good, "", 60, 8)]]
    found += [good[:size] + length + good[size:] for size in range(len(good)) for length in lengths]
    return [good, *found, good + good]
