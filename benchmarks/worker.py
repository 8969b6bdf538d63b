"""A rival's process: reads requests, one line of JSON each, and answers each with one line.

{"case", "round", "quick"}               -> {"seconds": [...], "digests": [...]}
{"case", "round", "quick", "index"}      -> {"result": ...}, of one input
either, where the rival fails            -> {"failed": "PanicException: ..."}
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from benchmarks.rivals import load_rival
from benchmarks.suites import CASES


def digest(result: Any) -> str:
    """A digest of a result, which tells any two JSON values apart."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def main(name: str) -> None:
    """Serve until standard input ends."""
    rival = load_rival(name)
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a rival prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            results = rival.run(CASES[request["case"]], request["round"], quick=request["quick"])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in Rust is not an Exception
            answer = {"failed": f"{type(error).__name__}: {error}"}
        else:
            index = request.get("index")
            if index is None:
                answer = {
                    "seconds": [seconds for seconds, _ in results],
                    "digests": [digest(result) for _, result in results],
                }
            else:
                answer = {"result": results[index][1]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
