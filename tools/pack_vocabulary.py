"""Write the packed vocabulary that the package ships, from the published `o200k_base.tiktoken`.

    python tools/pack_vocabulary.py o200k_base.tiktoken src/harmonia/vocabulary/o200k.bin

The packed form is what `harmonia.vocabulary.ranks` reads: it is smaller than the published one under
compression, and loads faster. Run again with the same input it writes the same bytes.
"""

import hashlib
import sys
import zlib
from pathlib import Path

from harmonia.vocabulary.ranks import PACKED_SHA256, pack, read_tiktoken_file


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    packed = pack(read_tiktoken_file(source))
    target.write_bytes(zlib.compress(packed, 9))
    digest = hashlib.sha256(packed).hexdigest()
    print(f"{target}: {target.stat().st_size} bytes, sha256 of the unpacked form {digest}")
    if digest != PACKED_SHA256:
        sys.exit("that is not the digest that harmonia.vocabulary.ranks expects")


if __name__ == "__main__":
    main()
