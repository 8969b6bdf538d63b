"""Harmonia against its rivals: `python -m benchmarks` measures, prints a table and says where Harmonia loses.

1. Results first: nothing is timed before every rival gave the same tokens, or for the rows of parsing the same
   messages and deltas, for every input that will be timed.
2. Rivals run in processes of their own, and take turns, so that a noisy machine disturbs all of them.
3. Inputs are generated from fixed seeds (`data.py`). Nothing is downloaded.
4. A row that misses its mark is printed like any other, and the exit code stays 0: this measures, it does not judge.
"""
