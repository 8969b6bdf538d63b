"""`python -m harmonia.openai_harmony`: what does `import openai_harmony` give here? Exit 0 if it is the drop-in."""

import sys
import warnings

from harmonia.alias import explain_import

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what the shim would warn of is said below
        is_drop_in, explanation = explain_import()
    print(explanation)
    sys.exit(not is_drop_in)
