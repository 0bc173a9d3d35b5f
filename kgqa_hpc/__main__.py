"""`python -m kgqa_hpc` is `kgqa`."""

from kgqa_hpc.cli import main

if __name__ == "__main__":
    main()
