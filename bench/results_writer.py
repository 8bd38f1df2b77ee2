"""Keeps results of the first example in a database, as one of several clients, and says how fast.

    python -m bench.results_writer ADDRESS DOCUMENT FIRST

Reads lines of JSON, `{"count": N}`, and answers each with the seconds that keeping so many took.
"""

import json
import sys
import time
from pathlib import Path

from inferometer_results.store.index_rows import Origin
from inferometer_results.store.store import Store


def main() -> None:
    """Serve until standard input ends."""
    address, document, first = sys.argv[1:]
    whole = json.loads(Path(document).read_bytes())
    number = int(first)
    origin = Origin("operator", "2026-01-01T00:00:00.000Z")
    with Store(address) as store:
        print(json.dumps({"event": "ready"}), flush=True)
        for line in sys.stdin:
            count = json.loads(line)["count"]
            contents = [
                json.dumps(whole | {"runId": f"run-{number + at:08}"}).encode()
                for at in range(count)
            ]
            number += count
            began = time.monotonic()
            for content in contents:
                store.add(content, origin, source="a document")
            print(json.dumps({"seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
